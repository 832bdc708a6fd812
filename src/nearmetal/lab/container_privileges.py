"""Whether nearmetal runs in a container, and what that keeps from it, by the flags of `docker run` that give it."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from nearmetal.model import Finding, Site

PRIVILEGED, PROCESSES, NETWORK = "--privileged", "--pid=host", "--network=host"
GROUPS: Final = "--cgroupns=host -v /sys/fs/cgroup:/sys/fs/cgroup"
FLAGS: Final[Mapping[str, str]] = {
    PRIVILEGED: "root's full rights and unfiltered system calls",
    PROCESSES: "the host's processes",
    NETWORK: "the host's network",
    GROUPS: "the host's control groups",
}
"""To what they give. The image of the Containerfile is tested with all of them."""

_CAP_SYS_ADMIN = 21
"""Its bit in a mask of capabilities."""


def is_contained(root: Path = Path("/")) -> bool:
    """Whether an engine, or the image, says so.

    Our image and Podman set the variable (systemd.io/CONTAINER_INTERFACE). Docker only leaves a file. A virtual machine
    whose disk was made of an image has it too, but the root of a container lies on no device.
    """
    is_dockers = (root / ".dockerenv").exists() and os.major(root.stat().st_dev) == 0
    return "container" in os.environ or (root / "run/.containerenv").exists() or is_dockers


def find_lacking(root: Path = Path("/")) -> Iterator[str]:
    """The flags that this container was not given. The network is not told if the host's processes are not seen."""
    first, own = root / "proc/1", root / "proc/self"
    status = dict(line.split(":", 1) for line in (own / "status").read_text("utf-8", "replace").splitlines())
    if not int(status["CapEff"], 16) >> _CAP_SYS_ADMIN & 1 or status.get("Seccomp", "0").strip() != "0":
        yield PRIVILEGED
    # The namespaces of another's process take a right to look at; these files do not.
    if (first / "mountinfo").read_bytes() == (own / "mountinfo").read_bytes():
        yield PROCESSES
    if not (first / "net/dev").samefile(own / "net/dev"):
        yield NETWORK
    if not _sees_groups(root):
        yield GROUPS


def find_missing(site: Site, *needed: str) -> Iterator[Finding]:
    """Of the flags that machines of a site need, those that the container was not given in which they are made."""
    for flag in find_lacking() if site.spec is None and is_contained() else ():
        if flag in needed:
            detail = "nearmetal runs in a container without this"
            yield Finding(what=FLAGS[flag], ok=False, detail=detail, remedy=f"docker run {flag}")


def _sees_groups(root: Path) -> bool:
    """Whether this process finds its own group below the host's, and may write there. Engines start nobody in `/`."""
    groups = root / "sys/fs/cgroup"
    controller = "" if (groups / "cgroup.controllers").exists() else "cpuset"
    lines = [line.split(":", 2) for line in (root / "proc/self/cgroup").read_text().splitlines()]
    path = next((path for _, names, path in lines if controller in names.split(",")), "/")
    return path != "/" and os.access(groups / controller / path[1:], os.W_OK)
