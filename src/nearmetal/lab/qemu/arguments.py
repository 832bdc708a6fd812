"""QEMU's command line and the guest kernel's. Pure.

QEMU runs with the machine's own folder as its working directory, so that the names in here are short: a socket's path
may have 107 bytes only.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from nearmetal.errors import BadInput
from nearmetal.lab.architecture import HERE
from nearmetal.model import Port, SharedFolder

from . import disk_trouble
from .process_privileges import LEAST, Privilege

PROGRAM: Final = HERE.qemu

MACHINE: Final = HERE.board
"""The machine type where a study names none."""
MICROVM: Final = "microvm"
"""The machine type without the hardware of a PC. Emulated, it has no clock by which Linux could measure another."""
_OPTIONS: Final = {MICROVM: f"{MICROVM},acpi=on,pcie=on,rtc=on", "virt": "virt,gic-version=max"}
"""The devices of a guest are on a PCI bus, which a microvm has if asked (QEMU 5.2 and later). By itself the other has
an interrupt controller that serves eight CPUs, and that KVM offers on few hosts."""
EXPRESS: Final = "pcie.0"
"""The first bus of a machine with PCI Express."""
RNG: Final = "virtio-rng-pci"
DISK_ID: Final = "root"
"""The disk's name at the monitor."""
INITRD: Final = "initrd"
SEED: Final = "seed"
"""The folder of what cloud-init is told."""
CONSOLE: Final = "console"
SOCKETS: Final = "sockets"
"""The only folder in which QEMU itself makes files."""
MONITOR: Final = f"{SOCKETS}/qmp"
SHARE: Final = "share"
"""What the guest's kernel mounts a directory of the host by."""
IDENTITY: Final = f"{SOCKETS}/identity"
"""The socket by which a restored guest is told who it is."""

CONTROL_MAC: Final = "52:54:00:6e:6d:01"
"""Every guest's: its control network has nobody else on it."""

CONTROL_ADDRESS: Final = "10.0.2.15/24"
"""By which QEMU's user-mode network knows its one guest."""

SSH_PORT: Final = 22
AGENT_PORT: Final = 1022
"""Where the probe's agent listens in a guest (probe/machine/src/boot/agent.rs)."""
_FORWARDED: Final = ",".join(f"hostfwd=tcp:127.0.0.1:0-:{port}" for port in (SSH_PORT, AGENT_PORT))
# restrict: the guest reaches nothing by its control network, it is only reached. Port 0: one that is free.
CONTROL: Final = f"user,id=control,restrict=on,{_FORWARDED}"
"""The control network of a guest."""

_DEVICES: Final = {"virtio-net": "virtio-net-pci", "virtio-blk": "virtio-blk-pci", "ide": "ide-hd"}
"""What a study calls a device, where QEMU has another name for it."""

_MODEL = re.compile(r"[A-Za-z0-9._-]+")

KERNEL: Final = (
    f"console={HERE.console}",
    "quiet",
    # One name for an interface whatever the bus says; the guest renames them by MAC.
    "net.ifnames=0",
    # What only costs time to boot, and no guest's user would notice: self-tests, waiting for entropy, calibration.
    "cryptomgr.notests",
    "random.trust_cpu=on",
    *HERE.kernel_words,
    "audit=0",
    # A guest starved by its host is what a study may be about; it must not be taken for a hang.
    "nowatchdog",
)
"""The CPU's mitigations are left as they are: the guest decides by what its CPU says, as the host does."""
EMULATED: Final[tuple[str, ...]] = ("norandmaps", *HERE.emulated_words)
"""QEMU keeps what it has translated by address: programs that lie elsewhere each time are translated each time."""
PRETENDED: Final = HERE.pretended


@dataclass(frozen=True)
class GuestSpec:
    name: str
    machine: str
    accel: str
    cpu_model: str
    vcpus: int
    memory: int
    """Bytes."""
    kernel: str
    """"" where the disk brings its own, and cloud-init."""
    disk: str
    """The disk controller, as a study calls it."""
    disk_format: str
    disk_cache: str
    nic: str
    port: Port | None
    backing: Sequence[str] = ()
    """What its disk lies over, the nearest first."""
    share: SharedFolder | None = None
    kernel_arguments: Sequence[str] = ()
    vmm: str = PROGRAM
    """The QEMU that runs it."""
    privilege: Privilege = LEAST
    """What that QEMU may do."""
    vmm_arguments: Sequence[str] = ()
    tsc_khz: int | None = None
    """The rate of its time stamp counter, if it is to be told that."""
    nic_mac: str = ""
    """The MAC that the NIC is made with, where it is another than the one by which a guest that boots finds it."""


def build_command(guest: GuestSpec) -> list[str]:
    """The argument vector; `{tap0}` in it stands for the tap's descriptor, and `{file0}` for that of the first of
    `opened`. BadInput for a name that cannot be one."""
    return [
        *build_common(guest.vmm, guest.machine, guest.accel, guest.cpu_model, guest.vcpus, guest.memory),
        *guest.privilege.arguments,
        *("-name", f"{guest.name},debug-threads=on"),
        *_boot(guest),
        *_open_below(guest),
        *("-drive", _drive(guest)),
        *("-device", f"{name_device(guest.disk)},drive={DISK_ID}{'' if guest.kernel else ',bootindex=0'}"),
        *("-netdev", CONTROL),
        *("-device", f"virtio-net-pci,netdev=control,mac={CONTROL_MAC},romfile="),
        *(_data_network(guest, guest.port) if guest.port else ()),
        *(_shared(guest.share) if guest.share else ()),
        *("-device", RNG),
        *("-chardev", f"file,id=console,path={CONSOLE},append=on", "-serial", "chardev:console"),
        *("-chardev", f"socket,id=monitor,path={MONITOR},server=on,wait=off", "-mon", "chardev=monitor,mode=control"),
        *guest.vmm_arguments,
        "-S",  # until its threads are where they belong
    ]


def _boot(guest: GuestSpec) -> list[str]:
    if guest.kernel:
        return ["-kernel", "/proc/self/fd/{file0}", "-initrd", INITRD, "-append", kernel_command_line(guest)]
    return [
        *("-blockdev", f"driver=vvfat,node-name=seed,dir={SEED},label=CIDATA,read-only=on"),
        *("-device", "virtio-blk-pci,drive=seed"),
    ]


def _open_below(guest: GuestSpec) -> list[str]:
    """What its disk lies over, by the numbers of descriptors: the kernel's comes before."""
    numbers = [(number, number + bool(guest.kernel)) for number in range(len(guest.backing))]
    return [word for number, opened in numbers for word in ("-add-fd", f"fd={{file{opened}}},set={number}")]


def _drive(guest: GuestSpec) -> str:
    made = f"file={name_disk(guest.disk_format)},format={guest.disk_format},cache={guest.disk_cache}"
    layers = range(len(guest.backing))
    below = "".join(f",{'backing.' * (number + 1)}file.filename=/dev/fdset/{number}" for number in layers)
    return f"if=none,id={DISK_ID},{made}{below},werror={disk_trouble.POLICY},rerror={disk_trouble.POLICY}"


def list_opened(guest: GuestSpec) -> list[str]:
    """The files that are opened for QEMU, which it need not be allowed to open: `{file0}`, `{file1}` and so on."""
    return [*((guest.kernel,) if guest.kernel else ()), *guest.backing]


def name_disk(disk_format: str) -> str:
    """Where a guest's disk lies in the machine's folder."""
    return f"disk.{disk_format}"


def build_disk_command(disk_format: str, base: str, base_format: str, file: str) -> list[str]:
    """The command that makes a disk of another: an overlay over it, or a raw copy, which has nothing below it."""
    if disk_format == "qcow2":
        return ["qemu-img", "create", "-q", "-f", "qcow2", "-b", base, "-F", base_format, file]
    return ["qemu-img", "convert", "-q", "-f", base_format, "-O", disk_format, base, file]


def build_saved(guest: GuestSpec) -> list[str]:
    """The argument vector of a guest that is to be saved: beside its devices, the two that a restored one needs."""
    return [
        *build_command(guest),
        # Its number changes with each restore, upon which the guest's kernel draws fresh random numbers.
        *("-device", "vmgenid,guid=auto"),
        *("-chardev", f"socket,id=identity,path={IDENTITY},server=on,wait=off", "-serial", "chardev:identity"),
    ]


def build_restored(guest: GuestSpec) -> list[str]:
    """The argument vector of a guest that waits for the memory of one that was started by `saved`."""
    return [*build_saved(guest), "-incoming", "defer"]


def build_common(program: str, machine: str, accel: str, cpu_model: str, vcpus: int, memory: int) -> list[str]:
    """What a guest with disk and network and the one that only proves an accelerator have in common."""
    multithreaded = ",thread=multi" if accel == "tcg" else ""
    return [
        program,
        *("-no-user-config", "-nodefaults", "-display", "none"),
        *("-machine", machine_option(machine), "-accel", f"{_model(accel)}{multithreaded}"),
        *("-cpu", ",-".join((_model(cpu_model), *list_withheld(accel, cpu_model)))),
        *("-smp", f"cpus={vcpus},sockets=1,cores={vcpus},threads=1", "-m", f"{memory}B"),
    ]


def machine_option(machine: str) -> str:
    """What QEMU is told of a machine type. BadInput for a name that cannot be one."""
    return _OPTIONS.get(machine) or _model(machine)


def tell_clock(tsc_khz: int | None) -> list[str]:
    """Words for a kernel that can measure no clock by another one: Documentation/admin-guide/kernel-parameters.txt."""
    return [] if tsc_khz is None else ["tsc=reliable", f"tsc_early_khz={tsc_khz}"]


def list_withheld(accel: str, cpu_model: str) -> Sequence[str]:
    """Features that a CPU is not to have; a model that is asked for by name has all of its own."""
    return PRETENDED if accel == "tcg" and cpu_model == "max" else ()


def kernel_command_line(guest: GuestSpec) -> str:
    """The guest's /init reads the words that begin with `nearmetal.`; what was ordered comes last and so prevails."""
    words = [
        *KERNEL,
        *(EMULATED if guest.accel == "tcg" else ()),
        *tell_clock(guest.tsc_khz),
        f"nearmetal.control={CONTROL_MAC}",
        f"nearmetal.hostname={guest.name[:63]}",
    ]
    if guest.port:
        words.append(f"nearmetal.data={guest.port.mac},{guest.port.address}/{guest.port.prefix}")
    return " ".join([*words, *guest.kernel_arguments])


def _data_network(guest: GuestSpec, port: Port) -> list[str]:
    return [
        *("-netdev", "tap,id=data,fd={tap0}"),
        *("-device", f"{name_device(guest.nic)},netdev=data,mac={guest.nic_mac or port.mac},romfile="),
    ]


def _shared(share: SharedFolder) -> list[str]:
    """Owners and permissions are shown as they are; a comma in the path is written twice."""
    path = share.source.replace(",", ",,")
    return [
        *("-fsdev", f"local,id=share,path={path},security_model=none,readonly=on,multidevs=remap"),
        *("-device", f"virtio-9p-pci,fsdev=share,mount_tag={SHARE}"),
    ]


def name_device(name: str) -> str:
    """What QEMU calls a device of a study's. BadInput for a name that cannot be one."""
    return _DEVICES.get(name) or _model(name)


def _model(name: str) -> str:
    """A comma would begin another option of QEMU's."""
    if not _MODEL.fullmatch(name):
        raise BadInput(f"{name!r} is no name that QEMU knows", remedy="use letters, digits, '.', '_' and '-'")
    return name
