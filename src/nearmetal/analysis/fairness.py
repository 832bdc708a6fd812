"""The fairness diff: facts that machines told of themselves (`facts.v1`) and that are not the same for all treatments.

A fact that nobody foresaw still shows: what is not named here is compared under its own name.
"""

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any

from nearmetal.analysis.results import IDENTICAL, FairnessRow
from nearmetal.model import Assignment
from nearmetal.store.manifest import MachineFacts
from nearmetal.study.levels import format_assignment
from nearmetal.units import show_size

Facts = dict[tuple[str, str], Any]
"""Group and fact to its value: a text, or a list of texts where single entries matter."""

_COMMAND_LINE = ("kernel", "command_line")

_ARGUMENT = re.compile(r'(?:"[^"]*"|[^\s"])+')

_PLUMBING = re.compile(
    r"(?:BOOT_IMAGE|initrd|root|rootfstype|rootflags|rootwait|rootdelay|ro|rw|init|rdinit|resume|resume_offset|ip"
    r"|cryptdevice|console|earlycon|earlyprintk|quiet|splash|loglevel|panic|reboot|net\.ifnames|biosdevname"
    r"|(?:rd|vconsole|systemd|nearmetal)\..+?)(?:=.*)?"
)
"""Arguments that tell a kernel where its system lies, where to print, or what our own guests are called: they differ
between any two machines, and none makes one faster. The manifest keeps the whole line."""

_GROUPS = {
    "kernel": "kernel",
    "processor": "cpu",
    "virtualization": "cpu",
    "mitigations": "cpu",
    "memory": "memory",
    "clock": "clock",
    "interfaces": "network",
    "sysctls": "sysctls",
    "settings": "sysctls",
    "limits": "limits",
    "confinement": "confinement",
    "filesystems": "disk",
    "block_devices": "disk",
    "hashes": "binaries",
}
"""Section of facts.v1 to the group it is shown in, in the order of the diff; others follow under their own names."""

_NOT_COMPARED = {
    "schema",
    "probe",
    "kernel.boot_id",
    "kernel.uptime_seconds",
    "memory.available_bytes",
    "processor.allowed",
    "mac",
    "up",
    "mounted_at",
}
"""Names and passing states: unlike for any two machines, and no reason for a difference."""

_SPEAKING = ("virtualization", "mitigations")
"""Sections whose name says something that their group does not."""

_DATA = "data"
"""What the measured interface is called inside a machine of ours."""

_OVERLAY_FOLDERS = ("lowerdir=", "upperdir=", "workdir=")

_HASH_SHOWN = 12
_NOT_THERE = "not there"


def fairness_of(machines: Sequence[MachineFacts], reference: Assignment) -> tuple[FairnessRow, ...]:
    """What differs between treatments, servers first, then clients. Lists are told against the reference's."""
    by_role = {
        prefix: [(machine.treatment, facts_of(machine.facts)) for machine in machines if machine.role == role]
        for role, prefix in (("server", ""), ("client", "client: "))
    }
    unlike = {environment for told in by_role.values() for environment in _unlike(told)}
    return tuple(
        row
        for prefix, told in by_role.items()
        for row in _rows(
            {_label(treatment, unlike): facts for treatment, facts in told},
            _label_of_reference(told, reference, unlike),
            prefix,
        )
    )


Told = Sequence[tuple[Assignment, Facts]]


def _unlike(told: Told) -> Iterator[str]:
    """Environments whose treatments are not all alike."""
    first: dict[str, Facts] = {}
    for treatment, facts in told:
        if first.setdefault(_environment(treatment), facts) != facts:
            yield _environment(treatment)


def _label(treatment: Assignment, unlike: Container[str]) -> str:
    """An environment stands for its treatments where they are all alike, servers and clients."""
    environment = _environment(treatment)
    return format_assignment(treatment) if environment in unlike else environment


def _environment(treatment: Assignment) -> str:
    return str(treatment.get("environment", ""))


def _label_of_reference(told: Told, reference: Assignment, unlike: Container[str]) -> str | None:
    """The label that lists are told against: that of the first treatment at the reference levels, else the first."""
    alike = [one for one in told if all(one[0].get(name) == level for name, level in reference.items())]
    first = next(iter([*alike, *told]), None)
    return None if first is None else _label(first[0], unlike)


def _rows(labelled: Mapping[str, Facts], base: str | None, prefix: str) -> Iterator[FairnessRow]:
    if len(labelled) < 2 or base is None:
        return
    names = dict.fromkeys(name for facts in labelled.values() for name in facts)
    order = list(dict.fromkeys(_GROUPS.values()))
    order.insert(order.index("network") + 1, "offloads")
    groups = dict.fromkeys([*order, *(group for group, _ in names)])
    for group in groups:
        mine = [name for name in names if name[0] == group]
        rows = [_row(name, labelled, base, prefix) for name in mine]
        yield from (row for row in rows if row is not None)
        if group == "binaries":
            same = [name for name, row in zip(mine, rows, strict=True) if row is None]
            # That the programs under test are the same is what the comparison rests on.
            if there := [name for name in same if labelled[base][name] != _NOT_THERE]:
                fact = f"{prefix}{_count_programs(len(there), len(mine) - len(same) + len(there))}"
                yield FairnessRow(group="binaries", fact=fact, values=dict.fromkeys(labelled, IDENTICAL))


def _count_programs(alike: int, of: int) -> str:
    if alike < of:
        return f"{alike} of {of} programs under test"
    return f"all {of} programs under test" if of > 1 else "the program under test"


def _row(name: tuple[str, str], labelled: Mapping[str, Facts], base: str, prefix: str) -> FairnessRow | None:
    told = {label: facts[name] for label, facts in labelled.items() if name in facts}
    group, fact = name
    # A section that nobody foresaw may have this name, and lists.
    if group == "offloads" and all(isinstance(value, str) for value in told.values()):
        # A feature that a kernel does not know is not on.
        told = {label: told.get(label, "off") for label in labelled}
        if len({value.removesuffix(" (fixed)") for value in told.values()}) == 1:
            return None
    elif len(told) == len(labelled) and all(value == next(iter(told.values())) for value in told.values()):
        return None
    if name == _COMMAND_LINE:
        texts = _words_of_their_own(told)
    else:
        texts = {label: _text(value, told.get(base), label == base) for label, value in told.items()}
    return FairnessRow(group=group, fact=prefix + fact, values=texts)


def _text(value: Any, base: Any, is_base: bool) -> str:
    """A list as what it lacks and adds, seen from the reference's; where there is none to compare, in full."""
    if not isinstance(value, list):
        return str(value)
    if is_base:
        return f"{len(value)} entries" if len(value) > 3 else " ".join(value) or "none"
    if not isinstance(base, list):
        return " ".join(value) or "none"
    lacks = [entry for entry in base if entry not in value]
    adds = [entry for entry in value if entry not in base]
    parts = ([f"lacks {' '.join(lacks)}"] if lacks else []) + ([f"adds {' '.join(adds)}"] if adds else [])
    return "; ".join(parts) or "the same"


def _words_of_their_own(told: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Of each list what is not in all of them: nobody can tell what a line of thirty arguments lacks by its length."""
    everywhere = set.intersection(*map(set, told.values()))
    own = {label: [word for word in words if word not in everywhere] for label, words in told.items()}
    return {label: " ".join(words) or "none of these" for label, words in own.items()}


def facts_of(document: Mapping[str, Any]) -> Facts:
    """A `facts.v1` document, flattened to what can be compared."""
    facts: Facts = {}
    for section, content in document.items():
        group = _GROUPS.get(section, section)
        if section in _NOT_COMPARED:
            continue
        if section == "interfaces":
            facts |= _interface_facts(content)
        elif section == "filesystems":
            for mount, one in content.items():
                facts |= {(group, name): value for name, value in _filesystem_facts(mount, one) if value is not None}
        elif section == "block_devices":
            facts |= {(group, "block devices"): " ".join(_device(*one) for one in sorted(content.items()))}
        elif section == "hashes":
            facts |= {(group, path): hash_[:_HASH_SHOWN] if hash_ else _NOT_THERE for path, hash_ in content.items()}
        else:
            inside = "" if section in _SPEAKING else f"{section}."
            told = _flat(section, content)
            facts |= {(group, name.removeprefix(inside)): value for name, value in told if value is not None}
    return facts


def _flat(path: str, content: Any) -> Iterator[tuple[str, Any]]:
    """Leaves by their dotted names."""
    if path in _NOT_COMPARED or path.rpartition(".")[2] in _NOT_COMPARED:
        return
    if isinstance(content, Mapping):
        below = "" if path in ("sysctls", "settings") else f"{path}."
        for name, value in content.items():
            yield from _flat(f"{below}{name}", value)
    elif path == "kernel.command_line":
        yield path, None if content is None else _arguments(str(content))
    elif isinstance(content, list):
        yield path, sorted(str(entry) for entry in content)
    else:
        # What is told in bytes is shown with its unit; a setting of the kernel's keeps the name that it has.
        name = path.removesuffix("_bytes") if isinstance(content, int | float) else path
        yield name, _plain(path, content)


def _arguments(command_line: str) -> list[str]:
    """What could matter of a kernel's command line; what follows "--" is for the first process, not for the kernel."""
    words = _ARGUMENT.findall(command_line)
    own = words[: words.index("--")] if "--" in words else words
    return sorted({word for word in own if not _PLUMBING.fullmatch(word)})


def _plain(path: str, value: Any) -> str | None:
    """A leaf as text; None for a setting that the machine does not have."""
    if value is None:
        return "unlimited" if path.startswith("limits.") else None
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float) and path.endswith("_bytes"):
        return show_size(value)
    return str(value)


def _filesystem_facts(mount: str, filesystem: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Without the folders that an overlay is put together from and the label of what has no device: mere names."""
    told = dict(filesystem)
    if not str(told.get("source", "")).startswith("/dev/"):
        told.pop("source", None)
    if isinstance(told.get("options"), list):
        told["options"] = [option for option in told["options"] if not str(option).startswith(_OVERLAY_FOLDERS)]
    return _flat(f"filesystems.{mount}", told)


def _interface_facts(interfaces: Mapping[str, Any]) -> Facts:
    """Of the measured interface alone: `data` in a machine of ours, elsewhere the first that is up."""
    candidates = [name for name, one in sorted(interfaces.items()) if name != "lo" and one.get("up")]
    name = _DATA if _DATA in interfaces else next(iter(candidates), None)
    if name is None:
        return {}
    interface = dict(interfaces[name])
    features = interface.pop("features", {})
    told = ((fact.removeprefix("interface."), value) for fact, value in _flat("interface", interface))
    facts: Facts = {("network", fact): value for fact, value in told if value is not None}
    facts |= {("offloads", feature): _feature(state) for feature, state in features.items()}
    return facts


def _feature(state: str) -> str:
    """ "fixed off" as "off (fixed)", so that what matters comes first."""
    return f"{state.removeprefix('fixed ')} (fixed)" if state.startswith("fixed ") else state


def _device(name: str, device: Mapping[str, Any]) -> str:
    """A block device as one entry: "vda[scheduler=none,write_cache=write-back]"."""
    settings = ",".join(
        f"{fact}={_plain(fact, value)}".replace(" ", "-") for fact, value in sorted(device.items()) if fact != "bytes"
    )
    return f"{name}[{settings}]"
