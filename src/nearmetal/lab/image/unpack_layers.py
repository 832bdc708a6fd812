"""Unpack layers of an image, one over the other, into an empty folder; a program of its own: it changes its root.

    python -I unpack_layers.py TASK

TASK is JSON: `root` the folder, `limit` the bytes that may be unpacked, `layers` from the lowest to the highest: each
has `file`, perhaps the `member` of that archive, the `digest` (SHA-256) of its uncompressed tar, and `whiteouts` if it
may remove what lies below it. A layer of ours `lays` itself into what there is: a link to a folder is kept for one.
What it prints is JSON too: `error` if a layer is not made as it should be, else `left_out`, the device nodes, and
`programs`, of each name in `programs` of the task the machine of its ELF header, 0 if it has none.

Layers are believed nothing. While they are unpacked this process has the folder for its root, so no link in them leads
out of it, as an engine does it; and a name that would lead out is an error.
"""

# Names of members are texts, and there are tens of thousands.
# ruff: noqa: PTH101, PTH102, PTH108, PTH112, PTH113, PTH120, PTH123, PTH208

import bz2
import contextlib
import gzip
import hashlib
import json
import lzma
import os
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from typing import IO, Any

EPOCH = 1686355200
"""What folders are as old as of which no layer tells; as in `rootfs`."""
_BUFFER = 1 << 20
_WHITEOUT, _OPAQUE = ".wh.", ".wh..wh..opq"
_KEPT_ATTRIBUTES = ("security.capability", "user.")
"""Of files. Others mean something to an overlay file system, or to a security module of another host."""
_ATTRIBUTE = "SCHILY.xattr."
_DAMAGED = (
    *(tarfile.TarError, EOFError, zlib.error, lzma.LZMAError),
    *(OverflowError, ValueError, KeyError, RecursionError),
)
"""What is raised where a layer has rubbish."""
_PATH = ("usr/local/sbin", "usr/local/bin", "usr/sbin", "usr/bin", "sbin", "bin")
_ELF_MACHINE = slice(18, 20)


class MalformedLayer(Exception):
    """A layer is not made as it should be."""


class TooLarge(Exception):
    """There is not so much room."""


class _HashingStream:
    """A stream whose content is hashed as it is read."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._hash = hashlib.sha256()

    def read(self, size: int) -> bytes:
        found = self._stream.read(size)
        self._hash.update(found)
        return found

    def finish(self) -> str:
        while self.read(_BUFFER):
            pass
        return self._hash.hexdigest()


class Unpacking:
    """The folder, which is this process' root meanwhile, and what has been seen."""

    def __init__(self, limit: int) -> None:
        self.left_out: list[str] = []
        self._room = limit
        self._times: dict[str, float] = {"": EPOCH}
        """Of folders, by their names: set at the end, when nothing is written into them any more."""

    def add(self, archive: tarfile.TarFile, *, whiteouts: bool, lays: bool) -> None:
        """One layer over what there is. MalformedLayer, TooLarge, OSError, and what `tarfile` raises."""
        written: set[str] = set()
        for member in archive:
            name = _clean(member.name)
            folder, base = os.path.split(name)
            if whiteouts and base.startswith(_WHITEOUT):
                self._remove_below(folder, base, written)
            elif member.ischr() or member.isblk():
                self.left_out.append(name)
            elif not name:
                os.chmod("/", stat.S_IMODE(member.mode))
                self._times[""] = member.mtime
            elif not (lays and member.isdir() and os.path.isdir(f"/{name}")):
                self._room -= max(member.size, 0)  # a header may say less than nothing
                if self._room < 0:
                    raise TooLarge
                self._make_parents(folder)
                self._place(archive, member, name)
                written.add(name)

    def finish(self) -> None:
        for name, time in sorted(self._times.items(), reverse=True):
            with contextlib.suppress(OSError):  # one that a higher layer removed
                if stat.S_ISDIR(os.lstat(f"/{name}").st_mode):
                    os.utime(f"/{name}", (time, time))

    def _place(self, archive: tarfile.TarFile, member: tarfile.TarInfo, name: str) -> None:
        path = f"/{name}"
        with contextlib.suppress(FileNotFoundError):
            if not (member.isdir() and stat.S_ISDIR(os.lstat(path).st_mode)):
                _remove(path)
        if member.islnk():
            target = f"/{_clean(member.linkname)}"
            if not os.path.lexists(target):
                raise MalformedLayer(f"{name} is a second name of {target[1:]}, which is not there")
            os.link(target, path, follow_symlinks=False)
            return
        member.name = name
        archive.extract(member, "/", numeric_owner=True)
        if member.issym():  # `tarfile` leaves their times
            os.utime(path, (member.mtime, member.mtime), follow_symlinks=False)
        elif member.isdir():
            self._times[name] = member.mtime
        for key, value in member.pax_headers.items():
            attribute = key.removeprefix(_ATTRIBUTE)
            if key != attribute and attribute.startswith(_KEPT_ATTRIBUTES):
                os.setxattr(path, attribute, value.encode("utf-8", "surrogateescape"), follow_symlinks=False)

    def _make_parents(self, folder: str) -> None:
        """Those that are missing; a layer need not name them."""
        if not folder or os.path.isdir(f"/{folder}"):
            return
        self._make_parents(os.path.dirname(folder))
        with contextlib.suppress(FileNotFoundError):
            _remove(f"/{folder}")
        os.mkdir(f"/{folder}", 0o755)
        os.chmod(f"/{folder}", 0o755)
        self._times[folder] = EPOCH

    def _remove_below(self, folder: str, base: str, written: set[str]) -> None:
        """What a whiteout says: a name, or all that lower layers have in its folder."""
        if base != _OPAQUE:
            name = base.removeprefix(_WHITEOUT)
            if name in ("", ".", ".."):
                raise MalformedLayer(f"{folder}/{base} removes nothing that has a name")
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                _remove(f"/{folder}/{name}")
            return
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            for name in os.listdir(f"/{folder}"):
                whole = f"{folder}/{name}".lstrip("/")
                if not any(one == whole or one.startswith(f"{whole}/") for one in written):
                    _remove(f"/{whole}")


def _clean(name: str) -> str:
    """A member's name without what says nothing; "" is the root. MalformedLayer for one that leads out."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise MalformedLayer(f"a name in it leads out of it: {name}")
    return "/".join(parts)


def _remove(path: str) -> None:
    if stat.S_ISDIR(os.lstat(path).st_mode):
        shutil.rmtree(path)
    else:
        os.unlink(path)


@contextlib.contextmanager
def _opened(layer: dict[str, Any]) -> Iterator[IO[bytes]]:
    """The layer's tar, uncompressed."""
    with contextlib.ExitStack() as stack:
        file: IO[bytes] = stack.enter_context(open(layer["file"], "rb"))
        if layer.get("member"):
            archive = stack.enter_context(tarfile.open(fileobj=file))
            found = archive.extractfile(layer["member"])
            if found is None:
                raise MalformedLayer("it is no file")
            file = found
        magic = file.read(6)
        file.seek(0)
        if magic.startswith(b"\x1f\x8b"):
            file = gzip.GzipFile(fileobj=file)  # type: ignore[assignment]
        elif magic.startswith(b"BZh"):
            file = bz2.BZ2File(file)
        elif magic.startswith(b"\xfd7zXZ\0"):
            file = lzma.LZMAFile(file)  # noqa: SIM115  it closes nothing
        elif magic.startswith(b"\x28\xb5\x2f\xfd"):
            file = stack.enter_context(_unzstd(file))
        yield file


@contextlib.contextmanager
def _unzstd(file: IO[bytes]) -> Iterator[IO[bytes]]:
    with tempfile.TemporaryFile() as packed:
        shutil.copyfileobj(file, packed, _BUFFER)
        packed.seek(0)
        process = subprocess.Popen(
            ["zstd", "-dcq"], stdin=packed, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/"
        )
        assert process.stdout and process.stderr
        yield process.stdout
        process.stdout.close()
        said = process.stderr.read().decode("utf-8", "replace").strip()
        if process.wait() > 0:
            raise MalformedLayer(f"it cannot be uncompressed: {said[-200:]}")


def unpack(task: dict[str, Any]) -> dict[str, Any]:
    outside = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    unpacking = Unpacking(task["limit"])
    os.umask(0o022)
    number_of_theirs = sum(not layer.get("lays") for layer in task["layers"])
    for number, layer in enumerate(task["layers"], 1):
        which = f"layer {number} of {number_of_theirs}: " if layer.get("whiteouts") else ""
        try:
            with _opened(layer) as stream:
                hashed = _HashingStream(stream)
                os.chroot(task["root"])
                os.chdir("/")
                try:
                    with tarfile.open(fileobj=hashed, mode="r|", bufsize=_BUFFER) as archive:  # type: ignore[call-overload]
                        archive.errorlevel = 2
                        archive.extraction_filter = lambda member, path: member
                        unpacking.add(archive, whiteouts=layer.get("whiteouts", False), lays=layer.get("lays", False))
                    digest = hashed.finish()
                finally:
                    os.fchdir(outside)
                    os.chroot(".")
            if layer.get("digest") not in (None, digest):
                raise MalformedLayer("it is damaged: its checksum is not the one that the image names")
        except TooLarge:
            return {"error": "it is too large", "is_too_large": True}
        except MalformedLayer as error:
            return {"error": f"{which}{error}"}
        except (OSError, *_DAMAGED) as error:
            if isinstance(error, OSError) and error.errno is not None:  # of a checksum of gzip or bzip2 it has none
                raise
            return {"error": f"{which}it is damaged: {str(error)[:200] or type(error).__name__}"}
    os.chroot(task["root"])
    os.chdir("/")
    unpacking.finish()
    return {
        "left_out": unpacking.left_out,
        "programs": {name: _find_program(name) for name in task["programs"]},
        "users": _read_users(),
    }


def _find_program(name: str) -> int:
    """The machine that it is for, as ELF numbers them; -1 of one that is a text; 0 if it is not there."""
    for folder in _PATH:
        path = f"/{folder}/{name}"
        if os.path.isfile(path) and os.access(path, os.X_OK):
            with open(path, "rb") as file:
                head = file.read(20)
            return int.from_bytes(head[_ELF_MACHINE], "little") if head.startswith(b"\x7fELF") else -1
    return 0


def _read_users() -> dict[str, list[str]]:
    """Of /etc/passwd: names with the numbers of user and group."""
    if not os.path.isfile("/etc/passwd"):  # a pipe would be waited for
        return {}
    try:
        with open("/etc/passwd", encoding="utf-8", errors="replace") as file:
            lines = [line.split(":") for line in file.read(1 << 20).splitlines()]
    except OSError:
        return {}
    return {fields[0]: fields[2:4] for fields in lines if len(fields) >= 4}


if __name__ == "__main__":
    try:
        told = unpack(json.loads(sys.argv[1]))
    except OSError as error:
        told = {"error": f"it cannot be unpacked: {error.strerror}: {str(error.filename or '')[:200]}"}
    print(json.dumps(told))
