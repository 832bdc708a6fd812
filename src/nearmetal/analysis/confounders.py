"""What differs between the sides of a contrast besides what is under study, and is known to move its response. Pure.

docs/validity.md has the table for people, with its sources.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from nearmetal.analysis.fairness import facts_of
from nearmetal.analysis.responses import Key, key_of
from nearmetal.analysis.results import Contrast
from nearmetal.model import Resolved, ResolvedWorkload, Warned
from nearmetal.shortened_list import shorten_list
from nearmetal.store.manifest import MachineFacts, Manifest


@dataclass(frozen=True)
class Disks:
    workloads: Set[str]
    """By name, those that read and write files."""
    lies_on: Mapping[Key, str]
    """By treatment, what the server's disk lies on, where that is known."""

    def about(self, contrast: Contrast) -> Iterator[Warned]:
        if contrast.workload not in self.workloads:
            return
        mine, theirs = (self.lies_on.get(key_of(side)) for side in (contrast.treatment, contrast.reference))
        if mine and theirs and mine != theirs:
            text = f"its files lie on {mine}, the reference's on {theirs}: that alone may be what makes the difference"
            yield Warned(code="disks-unlike", text=text)


def disks_of(manifest: Manifest) -> Disks:
    told = (
        (one.treatment, one.facts.get("disk", {}).get("lies_on")) for one in manifest.fairness if one.role == "server"
    )
    workloads = manifest.study.workloads
    of_files = (one for one in workloads if one.kind == "sysbench" and one.parameters.get("test") == "fileio")
    on_disks = {key_of(treatment): str(disk) for treatment, disk in told if disk}
    return Disks(frozenset(one.name for one in of_files), on_disks)


_NAMED = 4
"""Facts that a warning names with their values; `confounded_by` has all."""

_LONG = 80
"""Characters of two values; longer ones stand in the fairness diff alone."""

Told = Mapping[str, str]
"""Confounder to its value."""


def _is_over_tcp(workload: ResolvedWorkload) -> bool:
    return workload.has_clients and workload.kind != "ping"


def _calls_kernel(workload: ResolvedWorkload) -> bool:
    """All but what computes or walks through memory by itself."""
    return workload.kind != "sysbench" or workload.parameters.get("test") not in ("cpu", "memory")


def _writes_files(workload: ResolvedWorkload) -> bool:
    return workload.kind == "sysbench" and workload.parameters.get("test") == "fileio"


def _takes_memory(workload: ResolvedWorkload) -> bool:
    return workload.kind != "ping" and workload.parameters.get("test") != "cpu"


def _is_any(workload: ResolvedWorkload) -> bool:
    return True


@dataclass(frozen=True)
class Confounder:
    """A fact, and the workloads whose responses it moves."""

    group: str
    fact: str
    """As the fairness diff calls it; one that ends with "." stands for all that begin so."""
    moves: Callable[[ResolvedWorkload], bool]
    set_by: tuple[str, ...] = ()
    """Keys of a study by which it is under study; of a sysctl always its own name."""

    @property
    def name(self) -> str:
        return {"release": "kernel release", "source": "clock source"}.get(self.fact, self.fact.rstrip("."))


_OVER_TCP = (
    "net.core.busy_poll",
    "net.core.busy_read",
    "net.core.netdev_budget",
    "net.core.netdev_max_backlog",
    "net.core.rmem_default",
    "net.core.rmem_max",
    "net.core.somaxconn",
    "net.core.wmem_default",
    "net.core.wmem_max",
    "net.ipv4.tcp_autocorking",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_ecn",
    "net.ipv4.tcp_fastopen",
    "net.ipv4.tcp_limit_output_bytes",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_no_metrics_save",
    "net.ipv4.tcp_notsent_lowat",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_wmem",
)

CONFOUNDERS: Sequence[Confounder] = (
    *(Confounder("sysctls", name, _is_over_tcp) for name in _OVER_TCP),
    Confounder("network", "qdisc", _is_over_tcp),
    Confounder("network", "mtu", _is_over_tcp, ("link.tunnel", "clients.host", "machine.host")),
    Confounder("kernel", "release", _calls_kernel, ("machine.image", "machine.kernel")),
    Confounder("cpu", "mitigations.", _calls_kernel, ("machine.image", "machine.kernel", "machine.cpu_model")),
    Confounder("clock", "source", _is_any),
    Confounder("sysctls", "/sys/kernel/mm/transparent_hugepage/enabled", _takes_memory),
    Confounder("sysctls", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", _is_any),
    Confounder("sysctls", "vm.dirty_background_ratio", _writes_files),
    Confounder("sysctls", "vm.dirty_ratio", _writes_files),
)

_NO_QUEUE = "noqueue"
"""What a veth has: that a guest's card has a queue is part of being a guest."""


def name_confounders(contrasts: Sequence[Contrast], manifest: Manifest) -> tuple[Contrast, ...]:
    """The contrasts with `confounded_by`, and a warning where it is not empty."""
    told: dict[tuple[Key, str], Told] = {(key_of(one.treatment), one.role): _facts(one) for one in manifest.fairness}
    found: dict[object, list[tuple[str, str, str]]] = {}
    named = []
    for contrast in contrasts:
        sides = (contrast.workload, key_of(contrast.treatment), key_of(contrast.reference))
        if sides not in found:
            found[sides] = list(_differing(contrast, manifest, told)) if told and contrast.workload else []
        named.append(_name(contrast, found[sides]))
    return tuple(named)


def _name(contrast: Contrast, differing: Sequence[tuple[str, str, str]]) -> Contrast:
    if not differing:
        return contrast
    listed = shorten_list([_show(*one) for one in differing], _NAMED)
    text = f"both sides also differ in what is known to move it: {listed}"
    named = contrast.model_copy(update={"confounded_by": tuple(name for name, _, _ in differing)})
    return named.with_warnings(Warned(code="confounded", text=text))


def _show(name: str, mine: str, theirs: str) -> str:
    return name if len(mine + theirs) > _LONG else f"{name} ({mine}, the reference's {theirs})"


def _differing(
    contrast: Contrast, manifest: Manifest, told: Mapping[tuple[Key, str], Told]
) -> Iterator[tuple[str, str, str]]:
    """What confounds, with both sides' values; of clients it is said so."""
    treatment, reference = (manifest.plan.resolved_of(side) for side in (contrast.treatment, contrast.reference))
    workload = treatment.workload(contrast.workload)
    studied = find_studied(treatment, reference)
    for role, prefix in (("server", ""), ("client", "client: ")):
        if role == "client" and not workload.has_clients:
            continue
        mine, theirs = (told.get((key_of(side), role), {}) for side in (contrast.treatment, contrast.reference))
        for one in CONFOUNDERS:
            values = (mine.get(one.name), theirs.get(one.name))
            if None in values or values[0] == values[1] or not one.moves(workload):
                continue
            if one.fact in studied or studied & set(one.set_by) or (one.fact == "qdisc" and _NO_QUEUE in values):
                continue
            yield f"{prefix}{one.name}", str(values[0]), str(values[1])


def find_studied(treatment: Resolved, reference: Resolved) -> frozenset[str]:
    """Keys and sysctls that factors set to another level on one side than on the other."""
    sides = [
        {(one.key, str(one.level)) for one in side.settings if one.factor is not None}
        for side in (treatment, reference)
    ]
    return frozenset(key for key, _ in sides[0] ^ sides[1])


def _facts(machine: MachineFacts) -> Told:
    facts = facts_of(machine.facts)
    told = {}
    for one in CONFOUNDERS:
        if one.fact.endswith("."):
            some = {
                name: value
                for (group, name), value in facts.items()
                if group == one.group and name.startswith(one.fact)
            }
            if some:
                told[one.name] = "; ".join(f"{name.removeprefix(one.fact)}: {some[name]}" for name in sorted(some))
        elif (one.group, one.fact) in facts:
            told[one.name] = str(facts[one.group, one.fact])
    return told
