"""The lab's own keys: one that the controller shows by SSH, one that its guests show, and what it shares with their
agents. Made once, never anybody else's."""

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import asyncssh

from nearmetal.errors import BadInput

_SECRET = 32
"""Bytes."""


@dataclass(frozen=True)
class LabKeys:
    """Ed25519, because under emulation every other kind costs boot time."""

    client: asyncssh.SSHKey
    host: asyncssh.SSHKey
    """One for all guests of the lab: it is pinned, so that a connection to anything else fails."""
    agent: bytes
    """By which controller and agent know each other."""

    @property
    def host_private(self) -> bytes:
        """As sshd reads it from its HostKey file."""
        return self.host.export_private_key("openssh")

    @property
    def authorized(self) -> bytes:
        """The line of an authorized_keys file that lets the controller in."""
        return self.client.export_public_key("openssh")


def lab_keys(state: Path) -> LabKeys:
    """The keys in the state folder, made now where there are none. BadInput when a file there is no key."""
    folder = state / "keys"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return LabKeys(client=_key(folder / "client"), host=_key(folder / "host"), agent=_secret(folder / "agent"))


def _secret(path: Path) -> bytes:
    if not path.exists():
        _make(path, os.urandom(_SECRET))
    secret = path.read_bytes()
    if len(secret) != _SECRET:
        raise BadInput(f"this is no secret of {_SECRET} bytes", str(path), "remove it; it is made anew")
    return secret


def _key(path: Path) -> asyncssh.SSHKey:
    if not path.exists():
        key = asyncssh.generate_private_key("ssh-ed25519", comment=f"nearmetal-{path.name}")
        _make(path, key.export_private_key("openssh"))
    try:
        return asyncssh.read_private_key(str(path))
    except (asyncssh.KeyImportError, OSError) as error:
        raise BadInput(
            f"this is no SSH key that can be read: {error}", str(path), "remove it; it is made anew"
        ) from None


def _make(path: Path, content: bytes) -> None:
    """Another process may do the same at this moment: the first to link its file wins, and it is whole."""
    descriptor, unfinished = tempfile.mkstemp(dir=path.parent)  # readable by its owner alone
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.link(unfinished, path)
    except FileExistsError:
        pass
    finally:
        Path(unfinished).unlink()
