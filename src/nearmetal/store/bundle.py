"""A run in one file, for others: what its folder holds and a list of it, as a gzipped tar archive.

The list comes first. It is the archive's RO-Crate metadata (https://w3id.org/ro/crate/1.1), and names each file
with its size and SHA-256: what it does not name, or names otherwise, is refused. Archives come from strangers.
"""

import atexit
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import tarfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

from pydantic import Field, ValidationError

from nearmetal.errors import BadInput
from nearmetal.model import Frozen
from nearmetal.system.temporary_folders import temporary_folder

LIST = "ro-crate-metadata.json"
_LONGEST_LIST = 64 * 2**20
_CHUNK = 2**20
_LONGEST_HEADER = 2**16
"""Bytes before a file's content; `tarfile` reads them whole, whatever they claim to be."""
_MOST_RATIO = 500
"""Bytes unpacked for each byte packed. Journals have ten to fifty; deflate cannot do more than 1,032."""
_AT_LEAST = 16 * 2**20
"""Bytes that a bundle may have, however small it is."""

_PART = re.compile(r"manifest\.json|journal\.jsonl|files/[0-9a-f]{64}|artifacts(/(?!\.{1,2}(/|$))[^/\x00]+)+")
"""What may lie in a run's folder."""

_GZIP = b"\x1f\x8b"
_DAMAGED = (
    *(tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile),
    *(ValueError, KeyError, OverflowError, RecursionError),
)
_REMEDY = "ask for the bundle again, and compare its SHA-256 with the sender's"


@dataclass(frozen=True)
class About:
    """What the metadata says of a run, for people and search engines."""

    name: str
    description: str
    created: str
    """ISO 8601, with its offset from UTC."""
    version: str
    """Of nearmetal, that measured it."""


class _File(Frozen):
    path: str = Field(alias="@id")
    kind: Literal["File"] = Field(alias="@type")
    size: int = Field(alias="contentSize", ge=0)
    sha256: str = Field(pattern=r"[0-9a-f]{64}")


def pack_bundle(about: About, parts: Mapping[str, bytes | Path], to: IO[bytes]) -> None:
    """Write a bundle of parts, by their paths in the run's folder. The same parts give the same bytes. OSError."""
    listed = [_describe_part(path, parts[path]) for path in sorted(parts)]
    document = json.dumps(_make_crate(about, listed), indent=1, ensure_ascii=False).encode()
    with (
        gzip.GzipFile("", "wb", 6, to, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w|", format=tarfile.PAX_FORMAT) as archive,
    ):
        _add(archive, LIST, len(document), io.BytesIO(document))
        for file in listed:
            part = parts[file.path]
            with io.BytesIO(part) if isinstance(part, bytes) else part.open("rb") as content:
                _add(archive, file.path, file.size, content)


def _describe_part(path: str, part: bytes | Path) -> _File:
    if isinstance(part, bytes):
        size, sha256 = len(part), hashlib.sha256(part).hexdigest()
    else:
        with part.open("rb") as content:
            size, sha256 = os.fstat(content.fileno()).st_size, hashlib.file_digest(content, "sha256").hexdigest()
    return _File.model_validate({"@id": path, "@type": "File", "contentSize": size, "sha256": sha256})


def _add(archive: tarfile.TarFile, path: str, size: int, content: IO[bytes]) -> None:
    member = tarfile.TarInfo(path)
    member.size, member.mode = size, 0o644
    archive.addfile(member, content)


def _make_crate(about: About, files: Sequence[_File]) -> dict[str, Any]:
    root = {
        "@id": "./",
        "@type": "Dataset",
        "name": about.name,
        "description": about.description,
        "datePublished": about.created,
        "license": "not stated",
        "hasPart": [{"@id": file.path} for file in files],
        "mentions": {"@id": "#measured"},
    }
    measured = {
        "@id": "#measured",
        "@type": "CreateAction",
        "name": "Measure it",
        "instrument": {"@id": "#nearmetal"},
        "result": {"@id": "./"},
    }
    program = {"@id": "#nearmetal", "@type": "SoftwareApplication", "name": "nearmetal", "version": about.version}
    metadata = {
        "@id": LIST,
        "@type": "CreativeWork",
        "conformsTo": {"@id": "https://w3id.org/ro/crate/1.1"},
        "about": {"@id": "./"},
    }
    return {
        "@context": ["https://w3id.org/ro/crate/1.1/context", {"sha256": "https://schema.org/sha256"}],
        "@graph": [
            metadata,
            root,
            measured,
            program,
            *(file.model_dump(mode="json", by_alias=True) for file in files),
        ],
    }


def is_bundle(path: Path) -> bool:
    """Whether a regular file begins as bundles do."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return file.read(len(_GZIP)) == _GZIP
    except OSError:
        return False  # whoever reads it says why


def unpack_bundle(path: Path) -> Path:
    """The run's folder that a bundle holds, in a temporary folder until this process ends. BadInput of one that is
    damaged, holds what no run has, or takes more than there is room for; OSError."""
    held = ExitStack()
    atexit.register(held.close)
    place = held.enter_context(temporary_folder()) / "run"  # runs that lie beside it would count as earlier ones
    place.mkdir()
    try:
        with gzip.open(path) as file:
            unpacked = _LimitedReader(file)
            unpacked.allow_more(_LONGEST_HEADER)
            with tarfile.open(fileobj=unpacked, mode="r|") as archive:  # type: ignore[call-overload]
                room = min(shutil.disk_usage(place).free, max(_AT_LEAST, _MOST_RATIO * path.stat().st_size))
                _unpack_archive(archive, unpacked, place, room)
    except _DAMAGED as error:
        raise BadInput(f"this bundle is damaged: {error}", str(path), _REMEDY) from None
    return place


class _LimitedReader:
    """Reads what was allowed to be read, and not more."""

    def __init__(self, file: gzip.GzipFile) -> None:
        self._file = file
        self._left = tarfile.RECORDSIZE  # `tarfile` reads so much ahead

    def allow_more(self, size: int) -> None:
        self._left += size

    def read(self, size: int) -> bytes:
        content = self._file.read(size)
        self._left -= len(content)
        if self._left < 0:
            raise ValueError("it holds more than it lists")
        return content


def _unpack_archive(archive: tarfile.TarFile, unpacked: _LimitedReader, place: Path, room: int) -> None:
    first = archive.next()
    if first is None:
        raise ValueError("it is empty")
    if first.name != LIST:
        raise ValueError(f"it does not begin with {LIST}")
    if first.size > _LONGEST_LIST:
        raise ValueError(f"its {LIST} is too long")
    unpacked.allow_more(first.size)
    wanted = _read_list(_open(archive, first).read())
    if (size := sum(file.size for file in wanted.values())) > room:
        raise ValueError(f"it would take {size:,} bytes, and {room:,} are the most")
    unpacked.allow_more(_LONGEST_HEADER)
    while (member := archive.next()) is not None:
        file = wanted.pop(member.name, None)
        if file is None:
            raise ValueError(f"{member.name!r} stands in it, and is not listed or is there twice")
        unpacked.allow_more(file.size + _LONGEST_HEADER)
        with _create(place / file.path) as out:
            if _copy_content(_open(archive, member), out, file.size) != file.sha256:
                raise ValueError(f"{file.path!r} is not as listed")
    if wanted:
        raise ValueError(f"{next(iter(wanted))!r} is listed and not there")


def _read_list(content: bytes) -> dict[str, _File]:
    document = json.loads(content)
    graph = document.get("@graph") if isinstance(document, dict) else None
    if not isinstance(graph, list):
        raise ValueError(f"its {LIST} has no graph")
    try:
        files = [_File.model_validate(one) for one in graph if isinstance(one, dict) and one.get("@type") == "File"]
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"its {LIST} has a file whose {first['loc'][0]} is wrong: {first['msg']}") from None
    for file in files:
        if _PART.fullmatch(file.path) is None:
            raise ValueError(f"{file.path!r} is no file of a run")
    named = {file.path: file for file in files}
    if len(named) < len(files):
        raise ValueError(f"its {LIST} names a file twice")
    return named


def _open(archive: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    content = archive.extractfile(member) if member.isreg() else None
    if content is None:
        raise ValueError(f"{member.name!r} is no regular file")
    return content


@contextmanager
def _create(file: Path) -> Iterator[IO[bytes]]:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        out = file.open("xb")
    except OSError as error:
        raise ValueError(f"{file.name!r} cannot lie where it is listed: {error.strerror}") from None
    with out:
        yield out


def _copy_content(content: IO[bytes], out: IO[bytes], most: int) -> str:
    digest, size = hashlib.sha256(), 0
    while chunk := content.read(_CHUNK):
        size += len(chunk)
        if size > most:
            raise ValueError("a file is longer than it is listed")
        digest.update(chunk)
        out.write(chunk)
    return digest.hexdigest()
