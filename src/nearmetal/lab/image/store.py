"""The images on this machine: one folder each, whole or not there at all."""

import asyncio
import fcntl
import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import IO

from nearmetal.errors import BadInput, HostCannot
from nearmetal.lab.process_locks import lock_file, try_lock
from nearmetal.progress_messages import Say

from .image import Image, read

UNFINISHED = ".unfinished-"
"""What folders are called that are being built or removed; nobody else's, whoever holds the lock."""
_WAITING = "waiting for another build to end"


def folder_of(name: str, key: str, cache: Path) -> Path:
    return images(cache) / f"{name}-{key[:16]}"


def images(cache: Path) -> Path:
    return cache / "images"


def ls(cache: Path) -> list[Image]:
    """The finished images, by name, the newest of a name first."""
    found = [read(folder) for folder in images(cache).glob("*") if not folder.name.startswith(".")]
    return sorted(filter(None, found), key=lambda image: (image.name, -image.manifest_path.stat().st_mtime))


def newest(built: Iterable[Image]) -> list[Image]:
    """Of images in the order of `ls`, the first of each name: what machines are made of."""
    first: dict[str, Image] = {}
    for image in built:
        first.setdefault(image.name, image)
    return list(first.values())


def rm(cache: Path, name_or_digest: str, who: Callable[[int], str] = str, say: Say = lambda text: None) -> list[Image]:
    """Remove the images of that name, or the one whose digest or key starts so (8 digits at least).

    Waits for a build to end, and says so. Raises BadInput if there is none, HostCannot if one is held, naming by `who`
    the processes that do, or something is mounted below one; then all are left.
    """
    if not name_or_digest:
        raise BadInput("no image is named", remedy="`nearmetal image ls` names them")
    with lock_file(images(cache)) as descriptor, ExitStack() as locks:
        if not try_lock(descriptor):
            say(_WAITING)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        begin = (name_or_digest,) if len(name_or_digest) >= 8 else ()
        chosen = [
            image
            for image in ls(cache)
            if image.name == name_or_digest or image.digest.startswith(begin) or image.key.startswith(begin)
        ]
        if not chosen:
            known = ", ".join(sorted({image.name for image in ls(cache)})) or "none"
            raise BadInput(f"there is no image {name_or_digest!r}", str(images(cache)), f"images here: {known}")
        for image in chosen:
            _take(image, locks, who)
        for image in chosen:
            doomed = image.folder.with_name(UNFINISHED + image.folder.name)
            image.folder.rename(doomed)
            shutil.rmtree(doomed)
        return chosen


def hold(image: Image) -> IO[bytes]:
    """Keep an image from being removed until what is returned is closed, or this process ends. HostCannot: it is gone.

    Whoever makes machines of it holds it for as long as there are any: what they have mounted cannot be seen from here.
    """
    try:
        held = image.manifest_path.open("rb")
        if try_lock(held, shared=True):
            image.manifest_path.stat()
            return held
    except FileNotFoundError:
        pass
    raise HostCannot("the image is being removed", str(image.folder), "build it again: nearmetal image build")


def _take(image: Image, locks: ExitStack, who: Callable[[int], str]) -> None:
    mounted = [line.split(" ")[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    below = f"{image.folder.resolve()}/"
    if any(f"{place}/".startswith(below) for place in mounted):
        raise HostCannot("something is mounted in this image", str(image.folder), "run: nearmetal clean")
    lock = locks.enter_context(image.manifest_path.open("r+b"))
    if not try_lock(lock):
        users = ", ".join(who(process) for process in _holders(os.fstat(lock.fileno()).st_ino))
        what = f"machines are made of this image: {users or 'see /proc/locks'}"
        remedy = "take those down that are up (nearmetal down NAME), wait for a run to end"
        raise HostCannot(what, str(image.folder), remedy)


def _holders(inode: int) -> list[int]:
    # See proc(5): `1: FLOCK ADVISORY READ PID DEVICE:INODE …`; with an arrow, those that wait.
    held = [line.split() for line in Path("/proc/locks").read_text().splitlines() if " -> " not in line]
    return [int(fields[4]) for fields in held if fields[1] == "FLOCK" and fields[5].endswith(f":{inode}")]


def sweep(cache: Path) -> None:
    """Remove what interrupted builds and removals left. Only for who holds the lock."""
    for leftover in images(cache).glob(f"{UNFINISHED}*"):
        shutil.rmtree(leftover)


@asynccontextmanager
async def lock(cache: Path, progress: Callable[[str], None]) -> AsyncIterator[None]:
    """Hold the cache's lock; wait while another process builds or removes. The kernel frees it if we die."""
    with lock_file(images(cache)) as descriptor:
        has_said = False
        while not try_lock(descriptor):
            if not has_said:
                progress(_WAITING)
                has_said = True
            await asyncio.sleep(0.2)
        yield
