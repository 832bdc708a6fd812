"""The processes of a run that may be killed, each by the name of what it does."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nearmetal.lab.changes.ledger import ledgers_folder

_NAMES = {
    "nm-block": "block",
    "nm-forks": "forks",
    "nearmetal-probe": "probe",
    "qemu-system-x86": "QEMU",
    "dockerd": "dockerd",
    "containerd": "containerd",
    "containerd-shim": "shim",
    "podman": "podman",
    "conmon": "conmon",
    "lighttpd": "server",
    "sysbench": "sysbench",
    "tcpdump": "tcpdump",
    "sshd": "sshd",
    "libvirtd": "libvirtd",
    "virtqemud": "libvirtd",
    "vagrant": "vagrant",
    "nm-keeper": "keeper",
}
"""By what the kernel calls a process, at most 15 characters."""


@dataclass(frozen=True)
class Victim:
    name: str
    pid: int


def find_victims(home: Path, *named: str, firsts: Sequence[int] = ()) -> Iterator[Victim]:
    """Processes with this home, of one of its labs by group or host name, that name one of these, or in the process
    namespace of one of `firsts`: nobody else's."""
    mine = f"NEARMETAL_HOME={home}".encode()
    names = [f"nm-{ledger.stem}".encode() for ledger in ledgers_folder().glob("*.jsonl")]
    labs = [b"nearmetal-" + name for name in names]
    namespaces = [_namespace(first) for first in firsts]
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            name = _NAMES.get((process / "comm").read_text().strip())
            if name is None:
                continue
            words = (process / "cmdline").read_bytes()
            group = (process / "cgroup").read_bytes()
            pid = int(process.name)
            environment = (process / "environ").read_bytes()
            is_ours = (
                mine in environment.split(b"\0")
                or any(b"=" + name in environment for name in names)
                or any(lab in group for lab in labs)
                or any(os.fsencode(one) in words for one in named)
                or (firsts and _namespace(pid) in namespaces and pid not in firsts)
            )
            if is_ours:
                verb = b"".join(words.split(b"\0")[1:2]).decode() if name == "probe" else ""
                yield Victim(f"{name} {verb}".strip(), pid)


def _namespace(pid: int) -> str:
    return str(Path(f"/proc/{pid}/ns/pid").readlink())
