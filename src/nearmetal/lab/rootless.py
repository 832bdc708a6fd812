"""What machines lack that an ordinary user makes, who is root of a user namespace alone."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from nearmetal.errors import HostCannot
from nearmetal.lab.host_checks import finding
from nearmetal.model import Finding, MachineSpec, Site
from nearmetal.system import user_namespace

_LACKING: Final = (
    "no control group limits the memory of machines of kinds host and podman, or tells how much machines take",
    "CPUs are given by affinity alone, which programs can change",
)
_TICKS: Final = os.sysconf("SC_CLK_TCK")


def find_lacking() -> tuple[str, ...]:
    """What machines lack that this process makes on this host; nothing if it is root there."""
    return _LACKING if user_namespace.is_entered() else ()


def lacks_groups(site: Site) -> bool:
    """Whether control groups of this site cannot be made, because they belong to its root."""
    return user_namespace.is_entered() and site.spec is None


def find_root(user: str, detail: str) -> Finding:
    """Whether this process, which is `user` by its number, has the power of root, be it in namespaces alone."""
    refused = user_namespace.explain_refusal()
    return finding("root", user == "0", f"{detail}: {refused.what}", refused.remedy)


def find_root_of_host(user: str, detail: str, site: Site) -> Finding:
    """Whether this process, which is `user` of a site, has that power beyond namespaces of its own."""
    return finding("root", user == "0" and not lacks_groups(site), detail, "run nearmetal as root")


def find_kvm_remedy(detail: str) -> str:
    """What helps an ordinary user for whom KVM failed so; "" if that is another matter."""
    if not user_namespace.is_entered() or "Permission denied" not in detail:
        return ""
    return "sudo adduser $USER kvm, and log in again: KVM is for the group of /dev/kvm"


def find_quota(machine: MachineSpec) -> Finding:
    """Whether a machine is to have part of a CPU's time, which only control groups give."""
    detail = "only root has the control groups that give part of a CPU's time"
    return finding("machine.quota", machine.quota is None, detail, "leave it out, or run nearmetal as root")


def count_cpu_time(first: int, spent: Path) -> float:
    """CPU seconds of a machine without a control group since it was made, in hundredths of a second.

    All in the pid namespace of its `first` process, with the children that they waited for; and what was started in it
    from outside and has ended, as `launch` wrote it down. HostCannot if the machine is gone.
    """
    ticks, nanoseconds = 0, 0
    with suppress(FileNotFoundError):  # nothing has ended yet
        nanoseconds = sum(map(int, spent.read_text().split()))
    try:
        namespace = Path(f"/proc/{first}/ns/pid").stat().st_ino
    except OSError as error:
        raise HostCannot(f"its processes cannot be counted: {error.strerror}") from None
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is somebody else's
            if (process / "ns/pid").stat().st_ino == namespace:
                fields = (process / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
                ticks += sum(map(int, fields[11:15]))
    return ticks / _TICKS + nanoseconds / 1e9
