"""The factor `offload`: whether network cards cut, join and checksum packets, or the kernel does it frame by frame.

docs/treatments.md says what its levels mean, and why they hold at both ends of the data link of every machine.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from nearmetal.lab.changes.ethtool import FEATURES, Feature, parse
from nearmetal.lab.machines import kernel
from nearmetal.model import Change, Commands, Level, Machine, MachineSpec, Readback, Role, Stage, Warned

_NEEDS: Mapping[str, tuple[str, ...]] = {"tso": ("tx", "sg"), "gso": ("sg",), "lro": ("rx",)}
"""What the kernel switches off together (netdev_fix_features in net/core/dev.c)."""

_SENDING = ("tx", "sg", "tso", "gso")
"""What every driver that has it switches on by itself. Receiving differs: veth has its gro off, e1000 its rx."""


class Offload:
    name: ClassVar[str] = "offload"
    roles: ClassVar[tuple[Role, ...]] = ("server", "client")

    def problem(self, level: Level) -> str | None:
        if isinstance(level, bool):
            return None
        names = _split_names(level) if isinstance(level, str) else []
        if not names or set(names) - FEATURES.keys() or len(set(names)) < len(names):
            return f'it is true, false, or those that are on, like "tx,sg,gro", each once, of {", ".join(FEATURES)}'
        for name in names:
            lacking = [needed for needed in _NEEDS.get(name, ()) if needed not in names]
            if lacking:
                return f"{name} works only with {' and '.join(lacking)}: name that too"
        return None

    def shape(self, spec: MachineSpec, level: Level) -> MachineSpec:
        return spec

    def changes(self, stage: Stage, level: Level) -> list[Change]:
        """Inside first: when a guest's card changes, its monitor sets the tap anew."""
        return [change for machine in _list_machines(stage) for change in _list_changes(machine, level)]

    async def verify(self, stage: Stage, level: Level) -> Readback:
        """What `ethtool -k` tells of each end."""
        values: dict[str, dict[str, str]] = {}
        problems: list[str] = []
        warnings: list[Warned] = []
        for machine in _list_machines(stage):
            for end in _list_ends(machine, level):
                ended = await end.commands.exec(end.argv)
                features = {name: one for name, one in parse(ended.text).items() if name in FEATURES}
                values[end.name] = {name: feature.told for name, feature in features.items()}
                problems += [f"{end.name}: {one}" for one in _list_problems(features, end.wanted, level)]
                fixed = _list_fixed(features, end.wanted)
                warnings += [Warned(code="offload-fixed", text=f"{end.name}: {one}") for one in fixed]
        return Readback(values=values, ok=not problems, reason="; ".join(problems), warnings=tuple(warnings))


def _split_names(level: str) -> list[str]:
    return [name.strip() for name in level.split(",") if name.strip()]


def _list_machines(stage: Stage) -> tuple[Machine, ...]:
    return (*stage.servers, *stage.clients)


def _wanted_inside(level: Level) -> dict[str, bool]:
    """Feature to whether it has to be on; those that are as they are given are absent."""
    if level is True:
        return dict.fromkeys(_SENDING, True)
    return {name: _is_named(name, level) for name in FEATURES}


def _wanted_outside(level: Level) -> dict[str, bool]:
    """Only what has to be off: what a tap can do follows from the card in the guest, and cannot be asked for."""
    return {} if level is True else {name: False for name in FEATURES if not _is_named(name, level)}


def _is_named(name: str, level: Level) -> bool:
    return isinstance(level, str) and name in _split_names(level)


def _list_changes(machine: Machine, level: Level) -> Iterator[Change]:
    if level is True:
        return
    # A card that a machine shares with its host outlives the machine, and so is the host's to put back.
    is_shared = machine.peer is None and kernel.is_its_hosts(machine)
    on = f"site:{machine.site.name}" if is_shared else machine.name
    yield from _switch_features(on, machine.interface, _wanted_inside(level))
    if machine.peer is not None:
        yield from _switch_features(f"site:{machine.site.name}", machine.peer, _wanted_outside(level))


def _switch_features(on: str, card: str, wanted: Mapping[str, bool]) -> Iterator[Change]:
    """What shall be off, then what shall be on, each at once."""
    for state, after in ((False, "off"), (True, "on")):
        names = ",".join(name for name, is_on in wanted.items() if is_on == state)
        if names:
            yield Change(on=on, kind="ethtool", target=f"{card} {names}", after=after, required=False)


@dataclass(frozen=True)
class _End:
    """One end of a machine's data link, and how it is asked."""

    name: str
    commands: Commands
    argv: tuple[str, ...]
    wanted: Mapping[str, bool]


def _list_ends(machine: Machine, level: Level) -> Iterator[_End]:
    inside = ("ethtool", "-k", machine.interface)
    yield _End(f"{machine.name} inside", machine, inside, _wanted_inside(level))
    if machine.peer is not None:
        namespace, _, interface = machine.peer.rpartition("/")
        outside = ("ip", "netns", "exec", namespace, "ethtool", "-k", interface)
        yield _End(f"{machine.name} outside", machine.site, outside, _wanted_outside(level))


def _list_problems(features: Mapping[str, Feature], wanted: Mapping[str, bool], level: Level) -> Iterator[str]:
    if not features:
        yield "ethtool tells no features"
        return
    unknown = [name for name, is_on in wanted.items() if is_on and name not in features]
    yield from (f"{name} is unknown to its driver" for name in unknown)
    for name, feature in features.items():
        is_wrong = feature.is_on != wanted.get(name, feature.is_on)
        if feature.is_refused and wanted.get(name, True):
            yield f"{name} was asked for and stays off; only a card that is made anew has it again"
        elif is_wrong and feature.is_fixed and _is_named(name, level):
            yield f"{name} is off, and its driver cannot switch it on"
        elif is_wrong and not feature.is_fixed:
            yield f"{name} reads back as {feature.told!r}"


def _list_fixed(features: Mapping[str, Feature], wanted: Mapping[str, bool]) -> Iterator[str]:
    """What is not as the level would have it, and cannot be."""
    for name, feature in features.items():
        if feature.is_fixed and feature.is_on != wanted.get(name, feature.is_on):
            yield f"the card's driver does not let {name} be switched: it stays {feature.told}"


plugin = Offload()
