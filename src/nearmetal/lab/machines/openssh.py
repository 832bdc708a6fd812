"""What OpenSSH's client has to know to log in to a guest of ours."""

from collections.abc import Mapping
from pathlib import Path

from nearmetal.config import Paths
from nearmetal.lab.keys import lab_keys
from nearmetal.lab.machines import registry
from nearmetal.system.files import replace_file

_GUESTS = "nearmetal-guest"
"""The name under which every guest's host key is known: its address and port are another each time."""


def options() -> Mapping[str, str]:
    """The lab's key and the pinned host key, and nothing of the user's own configuration."""
    keys = Paths.default().state / "keys"
    known = registry.folder() / "known_hosts"
    if not _is_newer(known, keys / "host"):
        replace_file(known, f"{_GUESTS} {lab_keys(Paths.default().state).host.public.decode()}\n".encode())
    return {
        "IdentityFile": quote_path(keys / "client"),
        "IdentitiesOnly": "yes",
        "IdentityAgent": "none",
        "PreferredAuthentications": "publickey",
        "HostKeyAlias": _GUESTS,
        "HostKeyAlgorithms": "ssh-ed25519",
        "UserKnownHostsFile": quote_path(known),
        "GlobalKnownHostsFile": "/dev/null",
        "StrictHostKeyChecking": "yes",
        "ControlPath": "none",
        "ConnectTimeout": "30",
        "ServerAliveInterval": "15",
        "LogLevel": "ERROR",
    }


def quote_path(path: object) -> str:
    """As a value of ssh_config(5)."""
    return '"' + str(path).replace("%", "%%") + '"'


def _is_newer(made: Path, origin: Path) -> bool:
    try:
        return made.stat().st_mtime_ns > origin.stat().st_mtime_ns
    except FileNotFoundError:
        return False
