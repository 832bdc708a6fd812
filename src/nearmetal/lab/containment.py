"""Whether nearmetal runs in a container, what that keeps from it, and the flags of `docker run` that give it."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

FLAGS: Final = "--privileged --pid=host --network=host --cgroupns=host -v /sys/fs/cgroup:/sys/fs/cgroup"
"""All that a container can be given. The Containerfile's image is tested with these."""

_CAP_SYS_ADMIN = 21
"""Its bit in a mask of capabilities."""


def is_contained(root: Path = Path("/")) -> bool:
    """Whether an engine, or the image, says so.

    Our image and Podman set the variable (systemd.io/CONTAINER_INTERFACE). Docker only leaves a file. A virtual machine
    whose disk was made of an image has it too, but the root of a container lies on no device.
    """
    is_dockers = (root / ".dockerenv").exists() and os.major(root.stat().st_dev) == 0
    return "container" in os.environ or (root / "run/.containerenv").exists() or is_dockers


def find_lacking(facts: Mapping[str, Any], root: Path = Path("/")) -> Iterator[str]:
    """What this container keeps from nearmetal, and the flag that gives it. `facts`: `facts.v1` of this process.

    The network is not told if the host's processes are not seen either.
    """
    confinement = facts.get("confinement", {})
    has_power = int(confinement.get("capability_mask", "0"), 16) >> _CAP_SYS_ADMIN & 1
    if not has_power or confinement.get("seccomp") == "filtered":
        yield "root's full rights and unfiltered system calls (--privileged)"
    first, own = root / "proc/1", root / "proc/self"
    # The namespaces of another's process take a right to look at; these files do not.
    if (first / "mountinfo").read_bytes() == (own / "mountinfo").read_bytes():
        yield "the host's processes (--pid=host)"
    if not (first / "net/dev").samefile(own / "net/dev"):
        yield "the host's network (--network=host)"
    if not _sees_groups(root):
        yield "the host's control groups (--cgroupns=host -v /sys/fs/cgroup:/sys/fs/cgroup)"


def _sees_groups(root: Path) -> bool:
    """Whether this process finds its own group below the host's, and may write there. Engines start nobody in `/`."""
    groups = root / "sys/fs/cgroup"
    controller = "" if (groups / "cgroup.controllers").exists() else "cpuset"
    lines = [line.split(":", 2) for line in (root / "proc/self/cgroup").read_text().splitlines()]
    path = next((path for _, names, path in lines if controller in names.split(",")), "/")
    return path != "/" and os.access(groups / controller / path[1:], os.W_OK)
