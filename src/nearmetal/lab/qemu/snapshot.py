"""Snapshots of guests on this host: one folder each, whole or not there at all, called after all it depends on."""

import asyncio
import hashlib
import json
import os
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from nearmetal.config import Paths
from nearmetal.errors import MALFORMED, HostCannot
from nearmetal.lab.process_locks import LOCK_FILE, lock_file, try_lock
from nearmetal.system.files import closing_descriptor

UNFINISHED: Final = ".unfinished-"
"""What folders are called that are being made or removed; nobody else's, whoever holds the lock."""
KEPT: Final = 8
"""How many are kept, those that were used last: each takes some 100 MiB."""

_SCHEMA: Final = "snapshot.v2"
_MANIFEST: Final = "snapshot.json"
_AGAIN: Final = 0.02


@dataclass(frozen=True)
class Snapshot:
    """A guest that was stopped: `memory` as QEMU's migration writes it, and its `disk` of that moment."""

    key: str
    folder: Path

    @property
    def name(self) -> str:
        """The key, as short as records have it."""
        return self.key[:16]

    @property
    def memory(self) -> Path:
        return self.folder / "memory"

    @property
    def disk(self) -> Path:
        """An overlay over the image's disk. Never write to it: lay an overlay on it."""
        return self.folder / "disk.qcow2"

    @property
    def console(self) -> Path:
        return self.folder / "console"

    @property
    def program(self) -> Path:
        """A link to the QEMU that saved it: what a guest is started by may be a script, and stay while that changes."""
        return self.folder / "program"

    @property
    def manifest(self) -> Path:
        return self.folder / _MANIFEST

    @property
    def parts(self) -> tuple[Path, ...]:
        return (self.memory, self.disk, self.console)


def key(facts: Mapping[str, Any]) -> str:
    """Hexadecimal SHA-256 over facts that serialise to JSON."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def folder() -> Path:
    return Paths.default().cache / "snapshots"


def find(key: str) -> Snapshot | None:
    """None where there is none, a part of it is missing or has another size, or its QEMU is no longer the same."""
    snapshot = Snapshot(key, folder() / key[:16])
    try:
        document = json.loads(snapshot.manifest.read_text("utf-8"))
        if (document["schema"], document["key"]) != (_SCHEMA, key):
            return None
        is_same = document["program"] == _version(snapshot.program)
        whole = is_same and all(part.stat().st_size == document["sizes"][part.name] for part in snapshot.parts)
    except (OSError, *MALFORMED):
        return None
    return snapshot if whole else None


def use_snapshots() -> AbstractAsyncContextManager[None]:
    """As long as it takes, none is removed. Waits while another process makes or removes one."""
    return _locked(shared=True)


@asynccontextmanager
async def lock_making() -> AsyncIterator[None]:
    """As long as it takes, nobody else makes, uses or removes one. What nobody can use any more is removed."""
    async with _locked(shared=False):
        await asyncio.to_thread(_tidy, KEPT - 1)
        yield


@asynccontextmanager
async def make_snapshot(key: str, image: Path) -> AsyncIterator[Snapshot]:
    """A folder to make a snapshot in, of a guest whose disk lies over this image's; kept when nothing was raised.

    Only for who is `making`.
    """
    made = Snapshot(key, folder() / f"{UNFINISHED}{key[:16]}")
    try:
        made.folder.mkdir(mode=0o700)
        yield made
        await asyncio.to_thread(_finish, made, image)
    except OSError as error:
        what = f"the snapshot cannot be written: {error.strerror}"
        raise HostCannot(what, str(error.filename or folder()), "see: df, dmesg") from error
    finally:
        await asyncio.to_thread(shutil.rmtree, made.folder, ignore_errors=True)


def list_sizes() -> list[int]:
    """Of each that somebody can use, the bytes that it occupies."""
    if not os.access(folder(), os.R_OK | os.X_OK):
        return []
    sizes = []
    for one in folder().iterdir():
        # Another process may remove it now, or it may be another user's.
        with suppress(FileNotFoundError, PermissionError):
            if one.is_dir() and _last_used(one):
                sizes.append(sum(part.lstat().st_blocks * 512 for part in one.iterdir()))
    return sizes


def sweep() -> None:
    """Remove what nobody can use any more, unless somebody is at work there, who does so too."""
    try:
        descriptor = os.open(folder() / LOCK_FILE, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return  # none was ever made here, or it is not ours to remove
    with closing_descriptor(descriptor):
        if try_lock(descriptor):
            _tidy(KEPT)


def _finish(made: Snapshot, image: Path) -> None:
    """On disk before it has its name: one that a power failure cut short must not pass for whole."""
    document = {
        "schema": _SCHEMA,
        "key": made.key,
        "image": str(image),
        "program": _version(made.program),
        "sizes": {part.name: part.stat().st_size for part in made.parts},
    }
    made.manifest.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    for file in (*made.parts, made.manifest):
        with file.open("rb") as opened:
            os.fsync(opened.fileno())
    target = folder() / made.key[:16]
    if target.exists():
        shutil.rmtree(target)
    made.folder.rename(target)


def _version(program: Path) -> list[int]:
    """What changes with a file's content. OSError where it is gone."""
    found = program.stat()
    return [found.st_size, found.st_mtime_ns]


def note_use(snapshot: Snapshot) -> None:
    """Note that it is used."""
    os.utime(snapshot.manifest)


def _tidy(kept: int) -> None:
    """Remove what interrupted makings left, what has lost its image, and all but so many that were used last."""
    found = [(_last_used(one), one) for one in folder().iterdir() if one.is_dir()]
    found.sort(reverse=True)
    for place, (last, one) in enumerate(found):
        if last == 0 or place >= kept:
            doomed = one if one.name.startswith(UNFINISHED) else one.rename(one.with_name(UNFINISHED + one.name))
            shutil.rmtree(doomed)


def _last_used(one: Path) -> float:
    """Seconds since the epoch; 0 for what nobody can use."""
    if one.name.startswith(UNFINISHED):
        return 0
    try:
        document = json.loads((one / _MANIFEST).read_text("utf-8"))
        return (one / _MANIFEST).stat().st_mtime if Path(document["image"]).exists() else 0
    except (OSError, *MALFORMED):
        return 0


@asynccontextmanager
async def _locked(*, shared: bool) -> AsyncIterator[None]:
    """The kernel frees the lock if we die."""
    with lock_file(folder(), is_private=True) as descriptor:
        while not try_lock(descriptor, shared=shared):  # noqa: ASYNC110 another process lets go of it
            await asyncio.sleep(_AGAIN)
        yield
