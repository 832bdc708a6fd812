"""More arguments of QEMU than nearmetal's own: which of them leave alone what a study holds. Pure.

A list of those that do, since QEMU has hundreds (qemu-system(1)): any other might move the clock, the network,
the disk or the CPUs of a guest, or how it is watched, and no reading back would show it.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from nearmetal.errors import BadInput
from nearmetal.lab.architecture import HERE

WHERE: Final = "machine.vmm_arguments"

_OF_A_KEY: Final = {
    "-m": "machine.memory",
    "-smp": "machine.vcpus",
    "-cpu": f"machine.cpu_model; one feature of it by -global, as in max{HERE.cpu_type}.pmu=off",
    "-accel": "machine.accel",
    "-enable-kvm": "machine.accel",
    "-kernel": "machine.kernel",
    "-append": "machine.kernel_arguments",
    "-drive": "machine.image and machine.disk",
    "-hda": "machine.image and machine.disk",
    "-netdev": "machine.nic",
    "-nic": "machine.nic",
    "-net": "machine.nic",
}
"""What a study sets by a key of its own."""
_BREAKS: Final = {
    "-icount": "the guest's clock would follow its instructions, and not time",
    "-rtc": "the guest's clock would be another than its host's",
    "-snapshot": "its disk would be another file than the one that is read back",
    "-daemonize": "QEMU would outlive the run",
    "-S": "the guest would never begin",
    "-gdb": "QEMU would listen to whoever asks",
    "-s": "QEMU would listen to whoever asks",
    "-vnc": "QEMU would listen to whoever asks",
    "-qmp": "QEMU would have a second monitor",
    "-monitor": "QEMU would have a second monitor",
    "-incoming": "the guest would wait for the memory of another",
}
_OURS: Final = frozenset({"root", "seed", "control", "data", "share", "console", "monitor", "identity"})
"""What the lab's own devices and connections are called."""
_OBJECTS: Final = ("iothread", "memory-backend-", "rng-", "thread-context", "throttle-group")
_PROPERTIES_HELD: Final = frozenset(
    {"mac", "netdev", "drive", "chardev", "bootindex", "romfile", "tx", "werror", "rerror"}
)


def check_arguments(words: Sequence[str]) -> None:
    """BadInput for the first that is not known to leave alone what nearmetal holds."""
    waiting = list(words)
    while waiting:
        option = re.sub("^--", "-", waiting.pop(0))
        if option not in _ALLOWED:
            raise _refuse(option)
        judge = _ALLOWED[option]
        if judge is None:
            continue
        if not waiting or waiting[0].startswith("-"):
            raise BadInput(f"QEMU's {option} has no value", WHERE, f'write it behind: "{option} VALUE"')
        value = waiting.pop(0)
        if problem := judge(value):
            raise BadInput(f"{option} {value}: {problem}", WHERE, "leave it out")


def _refuse(option: str) -> BadInput:
    if not option.startswith("-"):
        return BadInput(f"{option[:100]!r} is no argument of QEMU's", WHERE, 'they begin with "-", as "-global"')
    if option in _OF_A_KEY:
        return BadInput(f"QEMU's {option} is set by a key of the study", WHERE, f"set {_OF_A_KEY[option]}")
    known = ", ".join(_ALLOWED)
    why = _BREAKS.get(option, "it is not known to leave alone the clock, network, disk and CPUs that a study holds")
    return BadInput(f"QEMU's {option} is refused: {why}", WHERE, f"use one of {known}")


def _judge_device(value: str) -> str | None:
    driver, *rest = value.split(",")
    if driver.startswith(("vfio", "usb-host", "pci-assign", "vhost", "scsi-block", "scsi-generic")):
        return "it would give the guest a device of the host's"
    for one in rest:
        key, _, name = one.partition("=")
        if name in _OURS and key in ("id", "netdev", "drive", "chardev", "fsdev"):
            return f"{name!r} is the lab's own"
    return None


def _judge_global(value: str) -> str | None:
    driver, _, assigned = value.partition(".")
    name, equals, _ = assigned.partition("=")
    if not driver or not equals or "," in value:
        return 'it is no "DRIVER.PROPERTY=VALUE"'
    return f"the lab sets {name!r} of its devices" if name in _PROPERTIES_HELD else None


def _judge_object(value: str) -> str | None:
    return None if value.startswith(_OBJECTS) else f"it is none of {', '.join(_OBJECTS)}"


def _judge_machine(value: str) -> str | None:
    for one in value.split(","):
        key, equals, _ = one.partition("=")
        if not equals or key == "type":
            return "machine.board says which it is; add only KEY=VALUE"
        if key in ("accel", "kernel", "initrd", "append", "smp", "memory", "pcie", "acpi", "boot", "firmware"):
            return f"a study or the lab sets {key!r}"
    return None


def _take(value: str) -> str | None:
    return None


_ALLOWED: Final[Mapping[str, Callable[[str], str | None] | None]] = {
    "-global": _judge_global,
    "-device": _judge_device,
    "-object": _judge_object,
    "-machine": _judge_machine,
    "-M": _judge_machine,
    "-overcommit": _take,
    "-mem-path": _take,
    "-mem-prealloc": None,
    "-numa": _take,
    "-smbios": _take,
    "-fw_cfg": _take,
    "-bios": _take,
    "-L": _take,
    "-sandbox": _take,
    "-no-hpet": None,
}
"""An option to what is wrong with a value of it; None for one that takes none."""
