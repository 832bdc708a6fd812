"""What is known of a machine from outside, as a ledger has it: enough to reach or remove it from another process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from nearmetal.model.base import Frozen, Role


class Port(Frozen):
    """A machine's place on the lab's switch."""

    address: str
    """Its IPv4 address."""
    prefix: int
    """Bits of the network."""
    mac: str
    """Its hardware address."""
    switch: str
    """Network namespace of the switch, as a path on the site."""
    bridge: str | None = "switch"
    """The bridge in it that the link hangs on; None for a cable of its own, which is laid later."""
    outside: str
    """The link's name at the switch. Inside a machine it is called `data`."""
    mtu: int = 1500
    """Bytes that a packet of the machine may have."""


class SharedNetwork(Frozen):
    """A machine's place in its site's own network, which it has in common with all else that runs there."""

    address: str
    """Of the site."""
    interface: str
    """That has the address."""


@dataclass(frozen=True)
class ProcessId:
    """A process of a site. No two share both numbers while a kernel runs."""

    pid: int
    started: int
    """In clock ticks since the kernel started."""


@dataclass(frozen=True)
class ControlGroup:
    """The folders of one control group: one per controller on version 1, the same one for all on version 2.

    Version 0 is none, for a machine that an ordinary user makes: its programs have their CPUs by affinity.
    """

    cpuset: str
    cpuacct: str
    memory: str
    version: int
    cpu: str = ""
    """Where a quota is; "" on version 1 for a machine of ours without one, whose processes are nobody's equals."""
    cpus: str = ""
    """Of version 0, if its CPUs are not all."""
    spent: str = ""
    """Of version 0, the file with the CPU time of programs that were started in the machine and have ended."""

    @property
    def folders(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(filter(None, (self.cpuset, self.cpuacct, self.memory, self.cpu))))

    @property
    def joined(self) -> list[str]:
        """Options of the probe's `launch` and `hold` by which a program is in the group, or on its CPUs."""
        affinity = ["--cpus", self.cpus] if self.cpus else []
        return [*affinity, *(word for folder in self.folders for word in ("--cgroup", folder))]


class CpuModel(Frozen):
    name: str
    lacking: tuple[str, ...] = ()
    """Features of that model which the accelerator cannot give on this host."""


class VirtualDisk(Frozen):
    format: str
    cache: str
    """The cache mode, in QEMU's words."""
    folder: str = ""
    """Where its file lies on the site; "" if that is unknown."""


class Monitoring(Frozen):
    """The program that runs a virtual machine, and what it was started with."""

    program: str
    """Its file, by its whole path."""
    version: str
    board: str
    """The machine type, by the name that its aliases stand for."""
    power: str = ""
    """Whose it is, and what it may do to its host, as the kernel says."""
    unlike: tuple[str, ...] = ()
    """What of it is not as the study asks, a sentence each."""


class Hardware(Frozen):
    """What a virtual machine is made of, as its monitor says."""

    accel: str
    cpu_model: CpuModel
    disk: VirtualDisk
    quota: float | None = None
    """CPUs that its monitor may use of its host's time; None for no limit."""
    pinned: Mapping[int, int] = {}
    """Number of a vCPU to the host's CPU that it alone runs on. Empty if vCPUs are not pinned."""
    monitoring: Monitoring | None = None
    """None if nobody asked."""
    kernel: str | None = None
    """What its kernel is to say in /proc/version; None for its image's own."""


class Login(Frozen):
    """How people log in to a machine of ours: as root, with the lab's key."""

    ssh_port: int
    """The port of 127.0.0.1 that leads to its SSH server, which shows the lab's host key."""


class MachineImage(Frozen):
    """What the files and the kernel of a machine come from."""

    name: str = ""
    """With the digest of an image of ours; in other words where the machine has none. Boots of one treatment must
    agree. "" if that is unknown."""
    brings_kernel: bool = False
    """Whether an image of the user's is booted by its own loader."""
    snapshot: str | None = None
    """Which one the machine was restored from."""
    storage_driver: str | None = None
    """The container engine's."""
    storage_driver_asked: str | None = None
    """None if the study leaves it open."""


class Handle(Frozen):
    """What must be known to reach or remove a machine, also from another process: plain data, in the ledger.

    A ledger also has handles of switches, links and the like, in which only `data` is filled in.
    """

    kind: str
    """Of its environment, which alone can remove it."""
    name: str
    """Unique on its site."""
    site: str
    """The name of the host that carries it."""
    role: Role | Literal[""] = ""
    """Of a machine."""
    life: ProcessId | ControlGroup | None = None
    """How it shows that the machine lives: this process does, or a process runs in this group. None: it does not show.
    A group that is empty while no program runs in the machine is no sign of life."""
    port: Port | None = None
    """The machine's place on the lab's switch."""
    shared: SharedNetwork | None = None
    """Its place in its site's own network, if it has that one instead."""
    is_limited: bool = True
    """Whether it is kept to its memory: not without a control group, as of an ordinary user."""
    network: str | None = None
    """How a container hangs on the switch, by the kernel's word; None of any other machine."""
    own_address: str | None = None
    """The address of its own card, if others reach it by another, which is translated."""
    hardware: Hardware | None = None
    """Of a virtual machine that was made for the study, once it runs."""
    login: Login | None = None
    """None where nobody logs in."""
    image: MachineImage = MachineImage()
    """What its files and its kernel come from."""
    stays: bool = False
    """Whether the machine stays when it is given back, and with it what was changed in it."""
    data: Mapping[str, Any] = {}
    """JSON values that only the plugin of this kind reads."""

    def knowing(self, *, data: Mapping[str, Any] | None = None, **fields: Any) -> Handle:
        """A copy with other fields, and with `data` added to its own."""
        known = {name: getattr(self, name) for name in Handle.model_fields}
        return Handle(**{**known, **fields, "data": {**self.data, **(data or {})}})
