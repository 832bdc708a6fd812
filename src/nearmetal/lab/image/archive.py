"""An image of containers in a file: by `docker save` or `podman save`, or in the OCI's layout; believed nothing."""

import json
import lzma
import re
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from nearmetal.errors import MALFORMED, BadInput
from nearmetal.lab.architecture import HERE
from nearmetal.system import files

_LONGEST_JSON = 16 * 2**20
"""Bytes of a manifest or configuration; the longest have a few thousand."""
_DEEPEST = 4
"""Indexes of an OCI layout that may lie in each other."""
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")


@dataclass(frozen=True)
class Layer:
    """One layer: the member of an archive, or the path of a file below a folder; and what its content has to be."""

    member: str
    digest: str
    """SHA-256 of the uncompressed tar, in hexadecimal."""


@dataclass(frozen=True)
class Bundle:
    """An image as its archive describes it, its layers from the lowest to the highest."""

    layers: tuple[Layer, ...]
    architecture: str
    system: str
    config: Mapping[str, Any]
    """Of the process that it starts: Entrypoint, Cmd, Env, User, WorkingDir."""


def read_bundle(path: Path, remedy: str) -> Bundle:
    """The image in an archive, or in a folder of the OCI's layout. BadInput where there is none, or more than one."""
    with _opened(path, remedy) as members:
        try:
            return _read_docker(members, path) if members.has("manifest.json") else _read_oci(members, path)
        except (AttributeError, IndexError) as error:  # a document of another shape
            raise ValueError(str(error)) from None


def holds_bundle(path: Path, remedy: str) -> bool:
    """Whether this is an image of containers, and not a root file system. BadInput for what cannot be read."""
    with _opened(path, remedy) as members:
        return members.has("manifest.json") or members.has("oci-layout")


class _Members:
    """Documents by name, of an archive or below a folder."""

    def __init__(self, source: tarfile.TarFile | Path) -> None:
        self._source = source

    def has(self, name: str) -> bool:
        if isinstance(self._source, Path):
            return (self._source / name).is_file()
        try:
            self._source.getmember(name)
        except KeyError:
            return False
        return True

    def json(self, name: str) -> Any:
        if isinstance(self._source, Path):
            files.refuse_irregular(str(self._source / name), _LONGEST_JSON)
            return json.loads((self._source / name).read_bytes())
        return read_json(self._source, name)

    def require(self, name: str) -> str:
        """The name again, of a member that is there. KeyError, FileNotFoundError."""
        if isinstance(self._source, Path):
            files.refuse_irregular(str(self._source / name))
        else:
            open_member(self._source, name)
        return name


@contextmanager
def _opened(path: Path, remedy: str) -> Iterator[_Members]:
    if not path.is_dir():
        with open_archive(str(path), remedy) as archive:
            yield _Members(archive)
        return
    try:
        yield _Members(path)
    except OSError as error:
        what = f"{Path(str(error.filename)).name} in it cannot be read: {error.strerror}"
        raise BadInput(what, str(path), remedy) from None
    except MALFORMED as error:
        raise BadInput(f"this is no image in the OCI's layout: {str(error)[:200]}", str(path), remedy) from None


def _read_docker(members: _Members, path: Path) -> Bundle:
    listed = members.json("manifest.json")
    if len(listed) > 1:
        names = ", ".join(str((one.get("RepoTags") or ["one without a name"])[0]) for one in listed)
        raise BadInput(f"it holds {len(listed)} images: {names}", str(path), "save one of them alone")
    return _bundle(members.json(listed[0]["Config"]), [members.require(name) for name in listed[0]["Layers"]])


def _read_oci(members: _Members, path: Path) -> Bundle:
    document = members.json("index.json")
    for _ in range(_DEEPEST):
        if "manifests" not in document:
            break
        document = members.json(_blob(_choose(document["manifests"], path)["digest"]))
    return _bundle(
        members.json(_blob(document["config"]["digest"])),
        [members.require(_blob(layer["digest"])) for layer in document["layers"]],
    )


def _choose(listed: list[Mapping[str, Any]], path: Path) -> Mapping[str, Any]:
    """The one for this architecture, of those that an index names. BadInput."""
    named = [(one, (one.get("platform") or {}).get("architecture", HERE.debian)) for one in listed]
    for_here = [one for one, architecture in named if architecture == HERE.debian]
    if not for_here:
        others = ", ".join(sorted({str(architecture) for _, architecture in named}))
        raise BadInput(
            f"it is for the architecture {others or 'of nothing'}", str(path), f"take the one for {HERE.debian}"
        )
    if len(for_here) > 1:
        raise BadInput(f"it holds {len(for_here)} images for {HERE.debian}", str(path), "save one of them alone")
    return for_here[0]


def _blob(digest: str) -> str:
    found = _DIGEST.fullmatch(digest)
    if not found:
        raise ValueError(f"{digest[:100]!r} is no SHA-256")
    return f"blobs/sha256/{found[1]}"


def _bundle(document: Mapping[str, Any], members: list[str]) -> Bundle:
    digests = document["rootfs"]["diff_ids"]
    layers = tuple(Layer(name, _blob(digest)[-64:]) for name, digest in zip(members, digests, strict=True))
    return Bundle(layers, str(document["architecture"]), str(document.get("os", "linux")), document.get("config") or {})


@contextmanager
def open_archive(path: str, remedy: str) -> Iterator[tarfile.TarFile]:
    """BadInput where it is no archive of an image, or is damaged."""
    opened = None
    try:
        files.refuse_irregular(path)
        with tarfile.open(path) as opened:
            yield opened
    except FileNotFoundError:
        raise BadInput("there is no such file", path, remedy) from None
    except OSError as error:
        raise BadInput(f"it cannot be read: {error.strerror or error}", path, remedy) from None
    except (EOFError, OverflowError, RecursionError, lzma.LZMAError, zlib.error, tarfile.TarError) as error:
        if isinstance(error, tarfile.TarError) and opened is None and not _is_cut_bzip2(path):
            raise BadInput("this is no archive of an image: it is no tar archive", path, remedy) from None
        why = error if opened else "it ends too early"
        raise BadInput(f"this archive is damaged: {why}", path, remedy) from None
    except MALFORMED:
        lacks = "it has no manifest.json that names a configuration and layers that are in it"
        raise BadInput(f"this is no archive of an image: {lacks}", path, remedy) from None


def _is_cut_bzip2(path: str) -> bool:
    """Of that, as of what is no archive, `tarfile` says only that it cannot be opened: bzip2 packs 900 kB at a time."""
    try:
        tarfile.open(path, "r:bz2").close()
    except tarfile.ReadError as error:
        return isinstance(error.__cause__, EOFError) and Path(path).stat().st_size > 0
    return False


def read_json(archive: tarfile.TarFile, name: str) -> Any:
    text = open_member(archive, name).read(_LONGEST_JSON + 1)
    if len(text) > _LONGEST_JSON:
        raise ValueError(f"{name} is no document: it is longer than {_LONGEST_JSON} bytes")
    return json.loads(text)


def open_member(archive: tarfile.TarFile, name: str) -> IO[bytes]:
    """A file in it. KeyError if there is none, `tarfile.ReadError` if it ends before, ValueError if it is no file."""
    try:
        member = archive.extractfile(name)
    except KeyError:
        if _has_its_end(archive):
            raise
        raise tarfile.ReadError(f"it ends too early, without {name}") from None
    if member is None:
        raise ValueError(f"{name} is no file")
    return member


def _has_its_end(archive: tarfile.TarFile) -> bool:
    """An archive whose members were all read: behind them is a block of zeros, and `tarfile` does without."""
    file = archive.fileobj
    if file is None:
        raise AssertionError("an archive that is read has its file")
    file.seek(archive.offset)
    return file.read(tarfile.BLOCKSIZE) == bytes(tarfile.BLOCKSIZE)
