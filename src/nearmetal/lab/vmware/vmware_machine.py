"""A virtual machine of vSphere's: what it is, what a study wants of it, and what is put back afterwards. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Literal
from urllib.parse import unquote

from nearmetal.lab.host_checks import finding
from nearmetal.model import Finding, Frozen, MachineSpec, Provision

MEBIBYTE = 2**20
MEMORY_STEP = 4 * MEBIBYTE
"""Bytes in which vSphere gives memory."""

NICS = ("vmxnet3", "e1000e", "e1000")
"""Models of network cards that vSphere has."""
AS_FOUND = MachineSpec().nic
"""What a study says that has no wish: the card stays as it is. vSphere has no such model."""

MARK = "nearmetal.borrowed"
"""The key of a machine's extra configuration that says who has changed it and will change it back."""

Power = Literal["on", "off", "suspended"]


class HardwareSettings(Frozen):
    """What of a machine a study can ask for."""

    vcpus: int
    cores: int
    """vCPUs of a socket; 0 where vSphere chooses."""
    memory: int
    """MiB."""
    nic: str
    """Model of its network card; "" for none or for several."""


class VsphereMachine(Frozen):
    """What vSphere tells of a machine."""

    reference: str
    """How vSphere calls it."""
    uuid: str
    name: str
    version: str
    """Of its configuration: another one after each change."""
    hardware: HardwareSettings
    cards: int
    power: Power
    is_template: bool = False
    has_tools: bool = True
    """Whether VMware Tools are installed in it."""
    addresses: tuple[str, ...] = ()
    """As its tools tell them, the first one before the others."""
    mark: str = ""
    """Who has borrowed it; "" for nobody."""


class Reconfiguration(Frozen):
    """A change of a machine's configuration; None and "" for what stays."""

    vcpus: int | None = None
    cores: int | None = None
    memory: int | None = None
    nic: str = ""
    mark: str | None = None
    """"" takes it away."""


def choose_hardware(spec: MachineSpec, found: HardwareSettings) -> HardwareSettings:
    """What a machine has to be for a study."""
    fits = found.cores == 0 or spec.vcpus % found.cores == 0
    return HardwareSettings(
        vcpus=spec.vcpus,
        cores=found.cores if fits else 1,
        memory=spec.memory // MEBIBYTE,
        nic=found.nic if spec.nic == AS_FOUND else spec.nic,
    )


def find_change(now: HardwareSettings, then: HardwareSettings, mark: str) -> Reconfiguration:
    """What makes the one of the other."""
    differs = {key: value for key, value in then.model_dump().items() if getattr(now, key) != value}
    return Reconfiguration(**differs, mark=mark)


def list_differences(found: HardwareSettings, wanted: HardwareSettings) -> list[str]:
    """In words, what is not as wanted."""
    words = {"vcpus": "{} vCPUs", "cores": "{} cores a socket", "memory": "{} MiB of memory", "nic": "a card {}"}
    return [
        f"{text.format(getattr(found, key))} instead of {getattr(wanted, key)}"
        for key, text in words.items()
        if getattr(found, key) != getattr(wanted, key)
    ]


def is_called(name: str, wanted: str) -> bool:
    """Whether this is a machine's name; vSphere tells some of a name's characters as it would in an address."""
    return wanted in (name, unquote(name))


def choose_address(addresses: Sequence[str]) -> str | None:
    """The one to reach it by, of those that its tools tell: of IPv4 before IPv6. None while there is none."""
    usable = [one for one in map(ip_address, addresses) if not (one.is_link_local or one.is_loopback)]
    return next((str(one) for one in sorted(usable, key=lambda one: one.version)), None)


def check_wishes(spec: MachineSpec) -> Iterator[Finding]:
    """Whether a study asks for what can be had of any machine of vSphere's."""
    yield finding(
        f"{spec.memory} bytes of memory",
        spec.memory % MEMORY_STEP == 0,
        "vSphere gives memory in steps of 4 MiB",
        "set machine.memory to a multiple of 4MiB",
    )
    has_model = spec.nic in NICS or (spec.nic == AS_FOUND and "nic" not in spec.model_fields_set)
    yield finding(
        f"a network card {spec.nic}",
        has_model,
        "vSphere has no such model",
        f"set nic to one of {', '.join(NICS)}, or leave it out: the machine's card then stays as it is",
    )
    for key, text in (
        ("cpus", "which CPUs of its host it runs on is vSphere's to choose"),
        ("share", "it sees no directory of this host's"),
    ):
        yield finding(f"machine.{key}", not getattr(spec, key), text, f"leave {key} out for machines of vSphere's")


def list_objections(
    seen: VsphereMachine, spec: MachineSpec, provision: Provision, is_cloned: bool, has_address: bool
) -> list[Finding]:
    """Whether this machine can be used in this way, or cloned."""
    name = f"the machine {seen.name!r}"
    several = seen.cards != 1 and spec.nic != AS_FOUND
    found = [
        finding(
            name,
            has_address or seen.has_tools,
            "it has no VMware Tools, so that nothing tells its address",
            'install open-vm-tools in it, or name its address: address = "192.168.7.2"',
        ),
        finding(
            name,
            not several,
            f"it has {seen.cards} network cards, and which of them is to become a {spec.nic} is not known",
            "leave nic out, or give it one card",
        ),
    ]
    if is_cloned:
        return [*found, _check_clonable(seen, provision)]
    return [
        finding(name, not seen.is_template, "it is a template, which does not run", f'write template = "{seen.name}"'),
        *found,
        finding(
            name,
            not seen.mark,
            f"{seen.mark} has borrowed it",
            f"wait until that ends, or put it right there: nearmetal clean; else remove its setting {MARK}",
        ),
        _check_power(seen, choose_hardware(spec, seen.hardware), provision),
    ]


def _check_clonable(seen: VsphereMachine, provision: Provision) -> Finding:
    return finding(
        f"clones of {seen.name!r}",
        provision == "boot" and (seen.is_template or seen.power == "off"),
        f"it is {seen.power}" if provision == "boot" else "a clone is made for each boot, and removed after it",
        "stop it, or take a template" if provision == "boot" else 'set provision = "boot"',
    )


_STOP = 'stop it for the study, or allow nearmetal to: provision = "restart"'


def _check_power(seen: VsphereMachine, wanted: HardwareSettings, provision: Provision) -> Finding:
    """Whether its power is what the provision wants, and one that stays as it is is as the study asks."""
    name = f"the machine {seen.name!r}"
    if seen.power == "suspended":
        return finding(name, False, "it is suspended", "resume it, or power it off")
    if provision == "boot":
        use = '; as it is: provision = "reuse"'
        return finding(name, seen.power == "off", "it is running, and it is yours", _STOP + use)
    if seen.power == "off":
        return finding(name, False, "it is off", 'set provision = "boot": it is started, and stopped afterwards')
    differs = list_differences(seen.hardware, wanted)
    return finding(name, provision == "restart" or not differs, f"it runs with {'; '.join(differs)}", _STOP)


class BorrowingRecord(Frozen):
    """What is written down of a machine before it is changed."""

    found: HardwareSettings
    given: HardwareSettings
    """What it is changed to."""
    was_on: bool
    mark: str
    started: bool = False
    """Whether it may be that we have started it, so that it is ours to stop."""


@dataclass(frozen=True)
class RestorePlan:
    """How a machine becomes what it was."""

    stop: bool
    change: Reconfiguration
    """Without the mark, which is taken away last."""
    start: bool
    runs: bool
    """It was started by somebody else, and can become what it was only when they have stopped it."""
    left: tuple[str, ...]
    """What somebody else has changed meanwhile, in words: it is theirs."""


def plan_restore(loan: BorrowingRecord, now: VsphereMachine) -> RestorePlan | None:
    """None for a machine that this record does not describe: it was never changed, or has been put back."""
    if now.mark != loan.mark:
        return None
    values: dict[str, int | str] = {}
    left: list[str] = []
    for key, found in loan.found.model_dump().items():
        current, given = getattr(now.hardware, key), getattr(loan.given, key)
        if current == given != found:
            values[key] = found
        elif current not in (given, found):
            left.append(f"{key} is {current} now, which is not what nearmetal set ({given})")
    is_on = now.power == "on"
    stop = is_on and loan.started and (bool(values) or not loan.was_on)
    return RestorePlan(
        stop=stop,
        change=Reconfiguration.model_validate(values),
        start=loan.was_on and (stop or not is_on),
        runs=bool(values) and is_on and not stop,
        left=tuple(left),
    )
