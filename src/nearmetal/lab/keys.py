"""The lab's own keys: one that the controller shows by SSH, one that its guests show, and what the secrets of their
agents are made of. Made once, never anybody else's.

asyncssh is imported only by who makes a key or logs in with one: that takes longer than most commands run.
"""

import base64
import binascii
import hmac
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nearmetal.errors import BadInput
from nearmetal.system.files import claim_file

if TYPE_CHECKING:
    from nearmetal.lab.ssh_library import asyncssh

_SECRET: Final = 32
"""Bytes."""
_AROUND: Final = (b"-----BEGIN OPENSSH PRIVATE KEY-----", b"-----END OPENSSH PRIVATE KEY-----")
_MAGIC: Final = b"openssh-key-v1\0"


@dataclass(frozen=True)
class KeyPair:
    """Ed25519, because under emulation every other kind costs boot time."""

    private: bytes
    """As OpenSSH's programs read it from a file."""
    public: bytes
    """As a line of an authorized_keys file has it, without a comment."""

    def loaded(self) -> "asyncssh.SSHKey":
        from nearmetal.lab.ssh_library import asyncssh

        return asyncssh.import_private_key(self.private)


@dataclass(frozen=True)
class LabKeys:
    """The lab's keys, as they lie in the folder `keys` of the state: see `lab_keys`."""

    client: KeyPair
    """The controller logs in to guests with it; `keys/client` is its file."""
    host: KeyPair
    """One for all guests of the lab: it is pinned, so that a connection to anything else fails."""
    agent: bytes
    """What the secrets are made of by which the controller and the agents of its guests know each other."""

    def agent_of(self, name: str) -> bytes:
        """The secret of the guest of that name. It tells nothing of the others'."""
        return hmac.digest(self.agent, name.encode(), "sha256")


def lab_keys(state: Path) -> LabKeys:
    """The keys in the state folder (`Site.state` of the controller's host), made now if there are none.

    BadInput if a file there is no key.
    """
    folder = state / "keys"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return LabKeys(client=_key(folder / "client"), host=_key(folder / "host"), agent=_secret(folder / "agent"))


def _secret(path: Path) -> bytes:
    if not path.exists():
        claim_file(path, os.urandom(_SECRET))
    secret = path.read_bytes()
    if len(secret) != _SECRET:
        raise BadInput(f"this is no secret of {_SECRET} bytes", str(path), "remove it; it is made anew")
    return secret


def _key(path: Path) -> KeyPair:
    if not path.exists():
        from nearmetal.lab.ssh_library import asyncssh

        key = asyncssh.generate_private_key("ssh-ed25519", comment=f"nearmetal-{path.name}")
        claim_file(path, key.export_private_key("openssh"))
    private = path.read_bytes()
    try:
        return KeyPair(private, public_of(private))
    except ValueError as error:
        what = f"this is no SSH key that can be read: {error}"
        raise BadInput(what, str(path), "remove it; it is made anew") from None


def public_of(private: bytes) -> bytes:
    """The public key in a private one of OpenSSH's format (its PROTOCOL.key). ValueError where there is none."""
    try:
        begin, *lines, end = private.strip().splitlines() or [b"", b""]
        content = base64.b64decode(b"".join(lines), validate=True)
        if (begin, end) != _AROUND or not content.startswith(_MAGIC):
            raise ValueError("it is not in OpenSSH's format")
        rest = content.removeprefix(_MAGIC)
        for _ in ("cipher", "key derivation", "its options"):
            _, rest = _string(rest)
        public, rest_of_it = _string(rest[4:])  # after how many keys there are
        kind, _ = _string(public)
        _string(rest_of_it)
    except (binascii.Error, struct.error) as error:
        raise ValueError("it is damaged") from error
    return kind + b" " + base64.b64encode(public)


def _string(data: bytes) -> tuple[bytes, bytes]:
    """The one that data begins with, and what comes after it (RFC 4251, section 5)."""
    (length,) = struct.unpack_from(">I", data)
    if len(data) < 4 + length:
        raise ValueError("it is damaged")
    return data[4 : 4 + length], data[4 + length :]
