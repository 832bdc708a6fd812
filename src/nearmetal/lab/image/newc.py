"""The "newc" cpio archives that Linux unpacks as its initial RAM disk.

Format: Documentation/driver-api/early-userspace/buffer-format.rst of the kernel. Several archives may follow each
other in one file, each at a multiple of 4 bytes; a later file replaces an earlier one of the same name.
"""

import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

_MAGIC: Final = b"070701"
_END: Final = "TRAILER!!!"
_HEADER: Final = 110
"""Bytes: the magic, and 13 fields of 8 hexadecimal digits."""
_SIZE_AT, _LENGTH_AT = 54, 94
"""Where the fields lie that say how long the content is, and the name with its zero byte."""


@dataclass(frozen=True)
class ArchiveEntry:
    """One file, owned by root. `mode` includes the type (`stat.S_IFREG`, …); `device` is (major, minor)."""

    name: str
    mode: int
    data: bytes = b""
    device: tuple[int, int] = (0, 0)


def folder(name: str, permissions: int = 0o755) -> ArchiveEntry:
    return ArchiveEntry(name, stat.S_IFDIR | permissions)


def regular(name: str, data: bytes, permissions: int = 0o644) -> ArchiveEntry:
    return ArchiveEntry(name, stat.S_IFREG | permissions, data)


def link(name: str, target: str) -> ArchiveEntry:
    return ArchiveEntry(name, stat.S_IFLNK | 0o777, target.encode())


def with_folders(files: Mapping[str, tuple[bytes, int]]) -> list[ArchiveEntry]:
    """The files (content and permissions by name), sorted, and before each the folders it needs."""
    entries: dict[str, ArchiveEntry] = {}
    for name, (data, permissions) in sorted(files.items()):
        for parent in reversed(PurePosixPath(name).parents[:-1]):
            entries.setdefault(str(parent), folder(str(parent)))
        entries[name] = regular(name, data, permissions)
    return list(entries.values())


def archive(entries: Iterable[ArchiveEntry]) -> bytes:
    """The archive of the entries, in their order (folders before what lies in them), without any time of day."""
    parts = [_member(number, entry) for number, entry in enumerate(entries, start=1)]
    parts.append(_member(0, ArchiveEntry(_END, 0)))
    return b"".join(parts)


def content(archive: bytes, name: str) -> bytes:
    """Of the file of that name, in the first of the archives. KeyError where there is none."""
    at = 0
    while archive[at : at + 6] == _MAGIC:
        size, length = (int(archive[at + begin : at + begin + 8], 16) for begin in (_SIZE_AT, _LENGTH_AT))
        begin = _aligned(at + _HEADER + length)
        found = archive[at + _HEADER : at + _HEADER + length - 1].decode()
        if found == _END:
            break
        if found == name:
            return archive[begin : begin + size]
        at = _aligned(begin + size)
    raise KeyError(name)


def _aligned(place: int) -> int:
    return place + -place % 4


def _member(number: int, entry: ArchiveEntry) -> bytes:
    name = entry.name.encode() + b"\0"
    links = 2 if stat.S_ISDIR(entry.mode) else 1
    fields = (number, entry.mode, 0, 0, links, 0, len(entry.data), 0, 0, *entry.device, len(name), 0)
    header = _MAGIC + b"".join(b"%08X" % field for field in fields)
    return _padded(header + name) + _padded(entry.data)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
