"""What a host looks like, in everything that a run may touch: to be the same before and after."""

import subprocess
from pathlib import Path

_OURS = ("nm-", "nearmetal-")

_VOLATILE = (
    "fs.dentry-state",
    "fs.file-nr",
    "fs.inode-nr",
    "fs.inode-state",
    "fs.quota.",
    "kernel.ns_last_pid",
    "kernel.pty.nr",
    "kernel.random.",
    "net.netfilter.nf_conntrack_count",
    "vm.user_reserve",
)
"""Sysctls that tell what happens, instead of what was set."""


def snapshot() -> dict[str, list[str]]:
    """Namespaces, links, mounts, control groups, processes of ours, sysctls, and the CPUs of every kernel thread."""
    return {
        "namespaces": _lines("ip", "netns", "list"),
        "links": [line.split(":")[1].strip() for line in _lines("ip", "-o", "link")],
        "mounts": sorted(Path("/proc/mounts").read_text().splitlines()),
        "groups": sorted(str(path) for path in Path("/sys/fs/cgroup").rglob("nearmetal-nm-*")),
        "processes": _processes(),
        "sysctls": [line for line in _lines("sysctl", "-a") if not line.startswith(_VOLATILE)],
    }


def _lines(*argv: str) -> list[str]:
    return sorted(subprocess.run(argv, capture_output=True, text=True).stdout.splitlines())


def _processes() -> list[str]:
    """Command lines that carry a name of ours."""
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_text(errors="replace").split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if any(word.startswith(_OURS) for word in words):
            found.append(" ".join(words)[:200])
    return sorted(found)
