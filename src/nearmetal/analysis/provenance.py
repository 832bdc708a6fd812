"""What the machines really were, where a verdict about them means something else than a reader would take it for."""

from collections.abc import Iterable, Sequence
from typing import Final

from nearmetal.analysis.responses import Key, key_of
from nearmetal.model import Plan, Role, TrialRecord, Warned
from nearmetal.model.hypervisor import name_hypervisor
from nearmetal.store import version_1
from nearmetal.store.manifest import Manifest

_EMULATORS = ("tcg",)
"""Accelerators, as QEMU calls them, that are none: they translate each of the guest's instructions."""
_SIGNATURES = ("TCGTCGTCGTCG",)
"""How they name themselves to the programs of a guest, which is all that is known of one that somebody else made."""

NESTED: Final = (
    "The host of this run is itself a virtual machine. What it calls bare metal is not, and what another tenant does "
    "to it shows as noise here."
)


def list_provenance_warnings(manifest: Manifest, records: Sequence[TrialRecord]) -> Iterable[Warned]:
    yield from _emulated(manifest, records)
    yield from _pretended(manifest.plan, records)
    if manifest.plan.resolved and all(one.is_pretended for one in manifest.plan.resolved):
        return  # the host is no part of what it found
    yield from _rootless(manifest)
    if lacked := manifest.host.get("container", {}).get("lacks"):
        text = f"nearmetal ran in a container without {' '.join(lacked)}: what it calls the host is a part of that"
        yield Warned(code="contained", text=text)
    if name_hypervisor(manifest.host) is not None:
        yield Warned(code="nested", text=NESTED)


def _emulated(manifest: Manifest, records: Sequence[TrialRecord]) -> Iterable[Warned]:
    """By what was read back of the accelerator or is seen inside, whatever was asked for."""
    servers, clients = _shown(manifest, "server"), _shown(manifest, "client")
    names = _environments(
        record
        for record in records
        if record.readback.get("resources", {}).get("accel") in _EMULATORS
        or (servers and key_of(record.trial.treatment) in servers)
    )
    if names:
        yield Warned(
            code="emulated",
            text=f"{' and '.join(names)} ran by emulation (tcg), without the processor's virtualization: its figures "
            "say what emulation costs here, and nothing of the same guest with hardware acceleration",
        )
    loaded = _environments(record for record in records if clients and key_of(record.trial.treatment) in clients)
    if others := [name for name in loaded if name not in names]:
        yield Warned(
            code="emulated",
            text=f"the clients of {' and '.join(others)} ran by emulation (tcg): part of each latency is theirs, and "
            "the load that they can make may be less than what the server could take",
        )


def _shown(manifest: Manifest, role: Role) -> set[Key]:
    """Keys of the treatments whose machines of this role show inside that they are emulated."""
    return {
        key_of(one.treatment)
        for one in manifest.fairness
        if one.role == role and one.facts.get("virtualization", {}).get("hypervisor_signature") in _SIGNATURES
    }


def _pretended(plan: Plan, records: Sequence[TrialRecord]) -> Iterable[Warned]:
    described = {one.environment.level: version_1.describe_environment(one.environment) for one in plan.resolved}
    pretended = {level for level, description in described.items() if description.family == "pretended"}
    if not pretended:
        return
    found = _environments(
        record
        for record in records
        if any(one.role == "server" and one.environment in pretended for one in record.machines)
    )
    # In the study's order, so that runs whose blocks began otherwise say the same.
    names = [name for name in map(str, described) if name in found]
    if names:
        yield Warned(
            code="pretended",
            text=f"{_join_names(names)}: a pretended machine (mock), whose figures say nothing of any real one",
        )


def _rootless(manifest: Manifest) -> Iterable[Warned]:
    """Machines of this host without what only its root could give them, and whether they stand beside others."""
    if not manifest.rootless:
        return
    made: dict[str, bool] = {}
    for one in manifest.plan.resolved:
        is_ours = one.server.host == "local" and one.environment.description.is_on_switch
        made[str(one.environment.level)] = is_ours
    names, others = ([name for name, is_so in made.items() if is_so is wanted] for wanted in (True, False))
    if not names:
        return
    beside = f"; {_join_names(others)} had root, so that a comparison of both is one of that too" if others else ""
    lacked = "; ".join(manifest.rootless)
    yield Warned(code="rootless", text=f"{_join_names(names)} ran without root: {lacked}{beside}")


def _join_names(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _environments(records: Iterable[TrialRecord]) -> list[str]:
    return list(dict.fromkeys(str(record.trial.treatment.get("environment", "the machine")) for record in records))
