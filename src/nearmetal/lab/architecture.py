"""What differs from one processor to another, in one table.

All hosts of a lab have the processor of this one, since its probe runs on each of them (ssh/ssh_site.py).
"""

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from nearmetal.errors import HostCannot
from nearmetal.model import Finding


@dataclass(frozen=True)
class Architecture:
    """A processor as the kernel, Debian and QEMU know it, and what their guests are like."""

    machine: str
    """The kernel's name (`uname --machine`)."""
    title: str
    """Its name in a message."""
    debian: str
    """The name that Debian and the OCI have for it."""
    elf: int
    """Its number in ELF files (elf(5), e_machine)."""
    kernel: str
    """Debian's generic kernel: the "cloud" one lacks e1000, e1000e, vmxnet3, 8139cp and 9p."""
    qemu: str
    qemu_package: str
    cpu_type: str
    """What QEMU appends to the name of a CPU model."""
    board: str
    """QEMU's machine type if a study names none."""
    console: str
    """The first serial line of that machine type, as the kernel calls it."""
    is_pc: bool
    """Whether its guests are PCs. A PC has a BIOS and IDE, can be told of a restore (vmgenid), and its kernel is a
    bzImage; the machines of libvirt that nearmetal describes are PCs as well."""
    kernel_words: tuple[str, ...] = ()
    """Words by which this processor's kernel boots faster."""
    emulated_words: tuple[str, ...] = ()
    """Words that this processor's kernel needs if it is emulated."""
    pretended: tuple[str, ...] = ()
    """Features that an emulated processor had better not claim."""
    absent_modules: frozenset[str] = frozenset()
    """Modules of modules.toml that its generic kernel lacks."""


X86_64: Final = Architecture(
    machine="x86_64",
    title="x86-64",
    debian="amd64",
    elf=62,
    kernel="linux-image-amd64",
    qemu="qemu-system-x86_64",
    qemu_package="qemu-system-x86",
    cpu_type="-x86_64-cpu",
    board="q35",
    console="ttyS0",
    is_pc=True,
    kernel_words=("tsc=reliable", "no_timer_check"),
    # CPU feature 141 is `cx16`. When an interrupt follows CMPXCHG16B, QEMU 7.2 hands the kernel flags that no processor
    # has: Linux 6.12 panics of them at nearly every boot. So the kernel does without; programs, which may demand it,
    # keep it.
    emulated_words=("clearcpuid=141",),
    # By these a processor says that one instruction copies bytes fastest. An emulator copies them one by one.
    pretended=("erms", "fsrm"),
)
AARCH64: Final = Architecture(
    machine="aarch64",
    title="aarch64",
    debian="arm64",
    elf=183,
    kernel="linux-image-arm64",
    qemu="qemu-system-aarch64",
    qemu_package="qemu-system-arm",
    cpu_type="-arm-cpu",
    board="virt",
    console="ttyAMA0",
    is_pc=False,
    absent_modules=frozenset({"cpuid", "msr", "vmw_pvscsi"}),
)
TABLE: Final[Mapping[str, Architecture]] = {one.machine: one for one in (X86_64, AARCH64)}
HERE: Final = TABLE.get(platform.machine(), X86_64)
"""This host's. `require_known` refuses a host whose processor is not in the table, where it would matter."""


def require_known() -> None:
    """HostCannot if no image can be built for this host's processor."""
    if platform.machine() not in TABLE:
        known = " or ".join(one.title for one in TABLE.values())
        what = f"there is no lab image for the processor {platform.machine()}"
        raise HostCannot(what, remedy=f"use a host with {known}; `mock`, `load` and reports work here")


def pc_alone(what: str, is_asked: bool, remedy: str, here: Architecture = HERE) -> Finding:
    """A finding that is not ok if something is asked for that only guests of PCs have, and they are none here."""
    if here.is_pc or not is_asked:
        return Finding(what=what, ok=True)
    detail = f"it was made for {X86_64.title} alone, and this host is {here.title}"
    return Finding(what=what, ok=False, detail=detail, remedy=remedy)
