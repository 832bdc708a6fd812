"""An OCI image of the user's own in place of ours: a reference that the engine has, or an archive of `docker save`."""

import io
import json
import lzma
import os
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import IO, Any

from nearmetal import files
from nearmetal.errors import MALFORMED, BadInput
from nearmetal.lab.findings import finding
from nearmetal.model import Finding

ARCHITECTURES: Mapping[str, str] = {"x86_64": "amd64", "aarch64": "arm64"}
"""A kernel's name of an architecture to that of the OCI; others are called alike."""

_ARCHIVES = "nearmetal/archive"
"""What images that came by an archive are called in an engine, with the id for a tag: so they are found, and stay."""
_CHUNK = 2**20
_LONGEST_JSON = 16 * 2**20
"""Bytes of a manifest or configuration; the longest have a few thousand."""


def is_archive(image: str) -> bool:
    return image.startswith("/")


def lacking(client: Any, image: str, machine: str, program: str) -> Finding:
    """Whether an engine has such an image, for this kernel's architecture, or can be given it. Blocks; no effect.

    `program`: the engine's own for the command line, for the remedy.
    """
    what = f"image {image}"
    try:
        architecture = _of_archive(image, program)[1] if is_archive(image) else _of_engine(client, image, program)
    except BadInput as error:
        return Finding(what=what, ok=False, detail=error.what, remedy=error.remedy)
    wanted = ARCHITECTURES.get(machine, machine)
    remedy = f"get it for this one: {program} pull --platform linux/{wanted} …"
    return finding(what, architecture == wanted, f"it is for the architecture {architecture}", remedy)


def provided(client: Any, image: str, program: str) -> str:
    """The image's id in the engine, which is given an archive's once. Blocks. BadInput."""
    if not is_archive(image):
        return str(_inspected(client, image, program)["Id"])
    wanted = _of_archive(image, program)[0]
    if not _is_there(client, wanted):
        for line in client.load_image(_unnamed(image, program)):
            if "error" in line:
                raise BadInput(f"the engine does not take it: {line['error']}", image, _made_by(program))
        if not _is_there(client, wanted):
            raise BadInput("the engine took it for another image than it says it is", image, _made_by(program))
        client.tag(wanted, _ARCHIVES, short(wanted))
    return wanted


def _unnamed(path: str, program: str) -> Iterator[bytes]:
    """The image of an archive, and nothing else of it, as an archive that has no name for it: one that it gives itself
    may be another image's in the engine, which would lose it. BadInput."""
    with _reading(path, program) as archive:
        (listed, *_) = _json(archive, "manifest.json")
        layers = {f"{number}.tar": _file(archive, name) for number, name in enumerate(listed["Layers"])}
        manifest = [{"Config": "config.json", "RepoTags": None, "Layers": [*layers]}]
        yield from _member("manifest.json", io.BytesIO(json.dumps(manifest).encode()))
        yield from _member("config.json", _file(archive, listed["Config"]))
        for name, layer in layers.items():
            yield from _member(name, layer)
        yield bytes(2 * tarfile.BLOCKSIZE)


def _member(name: str, file: IO[bytes]) -> Iterator[bytes]:
    member = tarfile.TarInfo(name)
    member.size = file.seek(0, os.SEEK_END)
    yield member.tobuf(tarfile.GNU_FORMAT)
    file.seek(0)
    while chunk := file.read(_CHUNK):
        yield chunk
    yield bytes(-member.size % tarfile.BLOCKSIZE)


def short(id: str) -> str:
    """An image's id as people know it."""
    return id.removeprefix("sha256:")[:12]


def _is_there(client: Any, id: str) -> bool:
    from docker.errors import ImageNotFound

    with suppress(ImageNotFound):
        client.inspect_image(id)
        return True
    return False


def _of_engine(client: Any, reference: str, program: str) -> str:
    return str(_inspected(client, reference, program)["Architecture"])


def _inspected(client: Any, reference: str, program: str) -> Mapping[str, Any]:
    from docker.errors import APIError, ImageNotFound

    try:
        found: Mapping[str, Any] = client.inspect_image(reference)
    except ImageNotFound:
        raise BadInput("the engine has no such image", reference, f"{program} pull {reference}") from None
    except APIError as error:
        raise BadInput(
            f"the engine knows no such image: {error.explanation}", reference, "write it like debian:12"
        ) from None
    return found


def _made_by(program: str) -> str:
    return f"make it by: {program} save -o FILE IMAGE"


def _of_archive(path: str, program: str) -> tuple[str, str]:
    """An archive's image id and architecture, from the configuration whose digest the id is. Its layers are there."""
    with _reading(path, program) as archive:
        (listed, *_) = _json(archive, "manifest.json")
        for layer in listed["Layers"]:
            _file(archive, layer)
        configuration = _json(archive, listed["Config"])
        return f"sha256:{PurePosixPath(listed['Config']).name.removesuffix('.json')}", configuration["architecture"]


@contextmanager
def _reading(path: str, program: str) -> Iterator[tarfile.TarFile]:
    """BadInput where it is no archive of an image, or is damaged."""
    opened = None
    try:
        files.refuse_irregular(path)
        with tarfile.open(path) as opened:
            yield opened
    except FileNotFoundError:
        raise BadInput("there is no such file", path, _made_by(program)) from None
    except OSError as error:
        raise BadInput(f"it cannot be read: {error.strerror or error}", path, _made_by(program)) from None
    except (EOFError, OverflowError, RecursionError, lzma.LZMAError, zlib.error, tarfile.TarError) as error:
        if isinstance(error, tarfile.TarError) and opened is None and not _is_cut_bzip2(path):
            raise BadInput("this is no archive of an image: it is no tar archive", path, _made_by(program)) from None
        why = error if opened else "it ends too early"
        raise BadInput(f"this archive is damaged: {why}", path, _made_by(program)) from None
    except MALFORMED:
        lacks = "it has no manifest.json that names a configuration and layers that are in it"
        raise BadInput(f"this is no archive of an image: {lacks}", path, _made_by(program)) from None


def _is_cut_bzip2(path: str) -> bool:
    """Of that, as of what is no archive, `tarfile` says only that it cannot be opened: bzip2 packs 900 kB at a time."""
    try:
        tarfile.open(path, "r:bz2").close()
    except tarfile.ReadError as error:
        return isinstance(error.__cause__, EOFError) and Path(path).stat().st_size > 0
    return False


def _json(archive: tarfile.TarFile, name: str) -> Any:
    text = _file(archive, name).read(_LONGEST_JSON + 1)
    if len(text) > _LONGEST_JSON:
        raise ValueError(f"{name} is no document: it is longer than {_LONGEST_JSON} bytes")
    return json.loads(text)


def _file(archive: tarfile.TarFile, name: str) -> IO[bytes]:
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
