"""Packages that a host lacks, in the words of its package manager. Only apt was tried.

What needs a package names Debian's, and the manager of the host it is for says what it is called there.
"""

import shutil
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True)
class Manager:
    """A package manager: its program, the words that install, and names that are not as Debian's.

    A package without a name ("") is in none of the distribution's archives.
    """

    program: str
    words: str
    names: Mapping[str, str] = field(default_factory=dict)

    def describe_install(self, packages: Iterable[str]) -> str:
        """The command that installs Debian's `packages`; what it has none of is told behind it."""
        wanted = dict.fromkeys(packages)
        named = [self.names.get(one, one) for one in wanted]
        lacking = [one for one in wanted if self.names.get(one, one) == ""]
        parts = [f"{self.words} {' '.join(sorted(filter(None, named)))}"] if any(named) else []
        if lacking:
            parts.append(f"{self.program} has no package for {', '.join(lacking)}")
        return "; ".join(parts)


APT: Final = Manager("apt-get", "apt-get install")
MANAGERS: Final = (
    APT,
    Manager(
        "dnf",
        "dnf install",
        {
            "docker.io": "moby-engine",
            "iproute2": "iproute",
            "libvirt-clients": "libvirt-client",
            "libvirt-daemon-system": "libvirt-daemon-kvm",
            "openssh-client": "openssh-clients",
            "procps": "procps-ng",
            "qemu-system-arm": "qemu-system-aarch64-core",
            "qemu-system-x86": "qemu-system-x86-core",
            "qemu-utils": "qemu-img",
        },
    ),
    Manager(
        "pacman",
        "pacman -S",
        {
            "docker.io": "docker",
            "libvirt-clients": "libvirt",
            "libvirt-daemon-system": "libvirt",
            "mmdebstrap": "",
            "openssh-client": "openssh",
            "procps": "procps-ng",
            "qemu-system-arm": "qemu-system-aarch64",
            "qemu-utils": "qemu-img",
        },
    ),
    Manager(
        "zypper",
        "zypper install",
        {
            "docker.io": "docker",
            "libvirt-clients": "libvirt-client",
            "libvirt-daemon-system": "libvirt-daemon",
            "mmdebstrap": "",
            "openssh-client": "openssh-clients",
            "qemu-system-arm": "qemu-arm",
            "qemu-system-x86": "qemu-x86",
            "qemu-utils": "qemu-tools",
        },
    ),
    Manager(
        "apk",
        "apk add",
        {
            "docker.io": "docker",
            "libvirt-clients": "libvirt-client",
            "libvirt-daemon-system": "libvirt-daemon",
            "openssh-client": "openssh-client-default",
            "qemu-system-arm": "qemu-system-aarch64",
            "qemu-system-x86": "qemu-system-x86_64",
            "qemu-utils": "qemu-img",
        },
    ),
)
PROGRAMS: Final = tuple(one.program for one in MANAGERS)


def choose_manager(programs: Container[str]) -> Manager | None:
    """Of a host that has these of `PROGRAMS`; None if it has none."""
    return next((one for one in MANAGERS if one.program in programs), None)


def find_manager() -> Manager | None:
    """Of this host."""
    return choose_manager({one for one in PROGRAMS if shutil.which(one)})


def describe_install(manager: Manager | None, *packages: str) -> str:
    """What a user of that host types; Debian's names where nothing is known of its packages."""
    if manager is None:
        return f"install what Debian calls {' '.join(packages)}; no package manager is known here"
    return manager.describe_install(packages)
