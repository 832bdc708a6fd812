"""Machines that have an SSH server, for OpenSSH's own programs: what `ssh`, `scp`, `rsync` and Ansible are to know.

One file for each machine that is up, and `ssh_config` that includes them all: keepers do not wait for each other.
"""

from collections.abc import Mapping
from pathlib import Path

from nearmetal.config import Paths
from nearmetal.files import replace
from nearmetal.lab.keys import lab_keys
from nearmetal.lab.machines import kept as written
from nearmetal.lab.machines.kept import Kept

_GUESTS = "nearmetal-guest"
"""The name under which every guest's host key is known: its address and port are another each time."""


def options() -> Mapping[str, str]:
    """The lab's key and the pinned host key, and nothing of the user's own configuration."""
    keys = Paths.default().state / "keys"
    known = written.folder() / "known_hosts"
    if not _is_newer(known, keys / "host"):
        replace(known, f"{_GUESTS} {lab_keys(Paths.default().state).host.public.decode()}\n".encode())
    return {
        "IdentityFile": _path(keys / "client"),
        "IdentitiesOnly": "yes",
        "IdentityAgent": "none",
        "PreferredAuthentications": "publickey",
        "HostKeyAlias": _GUESTS,
        "HostKeyAlgorithms": "ssh-ed25519",
        "UserKnownHostsFile": _path(known),
        "GlobalKnownHostsFile": "/dev/null",
        "StrictHostKeyChecking": "yes",
        "ControlPath": "none",
        "ConnectTimeout": "30",
        "ServerAliveInterval": "15",
        "LogLevel": "ERROR",
    }


def file() -> Path:
    return written.folder() / "ssh_config"


def write(kept: Kept) -> None:
    """For a machine that has an SSH server."""
    if kept.handle is None or kept.handle.login is None:
        return
    entry = {"HostName": "127.0.0.1", "Port": str(kept.handle.login.ssh_port), "User": "root", **options()}
    lines = [f"Host {kept.name}", *(f"    {name} {value}" for name, value in entry.items())]
    replace(written.ssh_config(kept.name), ("\n".join(lines) + "\n").encode())
    replace(file(), f'Include "{written.ssh_config("*")}"\n'.encode())


def _path(path: object) -> str:
    """As a value of ssh_config(5)."""
    return '"' + str(path).replace("%", "%%") + '"'


def _is_newer(made: Path, origin: Path) -> bool:
    try:
        return made.stat().st_mtime_ns > origin.stat().st_mtime_ns
    except FileNotFoundError:
        return False
