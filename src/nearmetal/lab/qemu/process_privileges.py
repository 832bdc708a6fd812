"""What a QEMU may do to its host: it runs as a user of its own, and its system calls are filtered. Pure.

Why so: docs/adr/least-power-of-qemu.md.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

SANDBOX: Final = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"
"""What QEMU's -sandbox is told. Its user is another before it starts: it could not change it any more."""
WIDE: Final = range(0x7000_0000, 0x7100_0000)
"""User numbers that systemd lists as used by nobody (its UIDS-GIDS.md); a guest has one by its name."""
NARROW: Final = range(60578, 61184)
"""As unused, where a container has no more numbers than 65,536. Two guests may then have the same."""

READ_ALL: Final = "dac_read_search"
WRITE_ALL: Final = "dac_override"
LOCK_MEMORY: Final = "ipc_lock"
_BITS: Final = {WRITE_ALL: 1, READ_ALL: 2, LOCK_MEMORY: 14}
"""Their numbers in linux/capability.h."""
_MAY: Final = {WRITE_ALL: "writes any file", READ_ALL: "reads any file", LOCK_MEMORY: "locks memory"}
_WITHOUT_CAPABILITIES: Final = (
    *("setpriv", "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all"),
    "--securebits=+noroot,+noroot_locked",
)
"""Root of a namespace alone gives up what is root's there."""
_FILTERED: Final = "2"
"""As /proc/PID/status has it: by a program that was given (seccomp(2))."""


@dataclass(frozen=True)
class Privilege:
    """What a guest's QEMU is left with."""

    users: range | None = WIDE
    """None: it runs as the ordinary user who runs nearmetal, in all groups of that user's."""
    groups: tuple[int, ...] = ()
    """Besides the user's own."""
    kept: tuple[str, ...] = ()
    """Capabilities, without which it could not do what the study asks."""
    sandbox: str = SANDBOX
    """"" if its QEMU cannot filter system calls, or the study says itself how it shall."""

    def user(self, name: str) -> int:
        """The user of the machine of that name, and its group."""
        if self.users is None:
            return 0
        number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8])
        return self.users[number % len(self.users)]

    def owner(self, name: str) -> str:
        """As chown(1) takes it."""
        user = self.user(name)
        return f"{user}:{user}"

    def launched(self, name: str) -> list[str]:
        """Options of the probe's verb `launch`, or words of a program that it is to start first."""
        if self.users is None:
            return ["--", *_WITHOUT_CAPABILITIES]
        return [
            *("--as", self.owner(name)),
            *(word for group in self.groups for word in ("--group", str(group))),
            *(word for one in self.kept for word in ("--keep", one)),
        ]

    @property
    def arguments(self) -> list[str]:
        return ["-sandbox", self.sandbox] if self.sandbox else []

    def find_difference(self, name: str, status: Mapping[str, str]) -> str | None:
        """What of it does not hold for a thread of whose /proc/PID/status these are the fields, in words."""
        capabilities = sum(1 << _BITS[one] for one in self.kept)
        holds = {
            "runs as another user": set(status["Uid"].split()) == {str(self.user(name))},
            "has other capabilities": int(status["CapEff"], 16) == capabilities,
            "makes system calls without a filter": not self.sandbox or status["Seccomp"] == _FILTERED,
        }
        return next((sentence for sentence, is_so in holds.items() if not is_so), None)


LEAST: Final = Privilege()


def read_status(text: str) -> dict[str, str]:
    return {name: value.strip() for name, _, value in (line.partition(":") for line in text.splitlines())}


def describe_status(status: Mapping[str, str], *, is_ordinary: bool = False) -> str:
    """What a program may do, for the record: such as "as a user of its own, system calls filtered".

    `is_ordinary`: it runs as an ordinary user, who is root of a namespace alone.
    """
    filtered = "system calls filtered" if status["Seccomp"] == _FILTERED else "system calls not filtered"
    if is_ordinary:
        return f"as the user of nearmetal, {filtered}"
    user = "as root" if "0" in status["Uid"].split() else "as a user of its own"
    effective = int(status["CapEff"], 16)
    may = [words for one, words in _MAY.items() if effective >> _BITS[one] & 1]
    others = effective & ~sum(1 << bit for bit in _BITS.values())
    held = ["has all else of root's" if others else "", *may]
    return ", ".join([user, *(one for one in held if one), filtered])


def find_files(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Paths that arguments of QEMU name: to read, and to write to."""
    read: list[str] = []
    written: list[str] = []
    for before, word in zip(("", *words), words, strict=False):
        for part in word.split(","):
            key, _, value = part.rpartition("=")
            path = value if key else part
            if path.startswith("/"):
                (written if "mem-path" in (key, before.lstrip("-")) else read).append(path)
    return read, written
