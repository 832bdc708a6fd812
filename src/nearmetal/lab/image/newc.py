"""The "newc" cpio archives that Linux unpacks as its initial RAM disk.

Format: Documentation/driver-api/early-userspace/buffer-format.rst of the kernel. Several archives may follow each
other in one file, each at a multiple of 4 bytes; a later file replaces an earlier one of the same name.
"""

import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath


@dataclass(frozen=True)
class Entry:
    """One file, owned by root. `mode` includes the type (`stat.S_IFREG`, …); `device` is (major, minor)."""

    name: str
    mode: int
    data: bytes = b""
    device: tuple[int, int] = (0, 0)


def folder(name: str, permissions: int = 0o755) -> Entry:
    return Entry(name, stat.S_IFDIR | permissions)


def regular(name: str, data: bytes, permissions: int = 0o644) -> Entry:
    return Entry(name, stat.S_IFREG | permissions, data)


def link(name: str, target: str) -> Entry:
    return Entry(name, stat.S_IFLNK | 0o777, target.encode())


def with_folders(files: Mapping[str, tuple[bytes, int]]) -> list[Entry]:
    """The files (content and permissions by name), sorted, and before each the folders it needs."""
    entries: dict[str, Entry] = {}
    for name, (data, permissions) in sorted(files.items()):
        for parent in reversed(PurePosixPath(name).parents[:-1]):
            entries.setdefault(str(parent), folder(str(parent)))
        entries[name] = regular(name, data, permissions)
    return list(entries.values())


def archive(entries: Iterable[Entry]) -> bytes:
    """The archive of the entries, in their order (folders before what lies in them), without any time of day."""
    parts = [_member(number, entry) for number, entry in enumerate(entries, start=1)]
    parts.append(_member(0, Entry("TRAILER!!!", 0)))
    return b"".join(parts)


def _member(number: int, entry: Entry) -> bytes:
    name = entry.name.encode() + b"\0"
    links = 2 if stat.S_ISDIR(entry.mode) else 1
    fields = (number, entry.mode, 0, 0, links, 0, len(entry.data), 0, 0, *entry.device, len(name), 0)
    header = b"070701" + b"".join(b"%08X" % field for field in fields)
    return _padded(header + name) + _padded(entry.data)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
