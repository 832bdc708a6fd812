"""An OCI image of the user's own in place of ours: a reference that the engine has, or an archive of `docker save`."""

import io
import json
import os
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import IO, Any

from nearmetal.errors import BadInput, HostCannot
from nearmetal.lab.architecture import TABLE
from nearmetal.lab.containers.api import Brand, ContainerEngine, EngineRefusal
from nearmetal.lab.host_checks import finding
from nearmetal.lab.image.archive import open_archive, open_member, read_json
from nearmetal.model import Finding

_ARCHIVES = "nearmetal/archive"
"""What images that came by an archive are called in an engine, with the id for a tag: so they are found, and stay."""
_CHUNK = 2**20


def is_archive(image: str) -> bool:
    return image.startswith("/")


def check_image(client: Any, image: str, machine: str, program: str) -> Finding:
    """Whether an engine has such an image, for this kernel's architecture, or can be given it. Blocks; no effect.

    `program`: the engine's own for the command line, for the remedy.
    """
    what = f"image {image}"
    try:
        if is_archive(image):
            _, architecture = _of_archive(image, program)
        else:
            architecture = str(_inspected(client, image, program)["Architecture"])
    except BadInput as error:
        return Finding(what=what, ok=False, detail=error.what, remedy=error.remedy)
    wanted = TABLE[machine].debian if machine in TABLE else machine  # the OCI calls others alike
    remedy = f"get it for this one: {program} pull --platform linux/{wanted} …"
    return finding(what, architecture == wanted, f"it is for the architecture {architecture}", remedy)


def provide_image(client: Any, image: str, program: str) -> str:
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
        client.tag(wanted, _ARCHIVES, shorten_id(wanted))
    return wanted


def _unnamed(path: str, program: str) -> Iterator[bytes]:
    """The image of an archive, and nothing else of it, as an archive that has no name for it: one that it gives itself
    may be another image's in the engine, which would lose it. BadInput."""
    with open_archive(path, _made_by(program)) as archive:
        (listed, *_) = read_json(archive, "manifest.json")
        layers = {f"{number}.tar": open_member(archive, name) for number, name in enumerate(listed["Layers"])}
        manifest = [{"Config": "config.json", "RepoTags": None, "Layers": [*layers]}]
        yield from _member("manifest.json", io.BytesIO(json.dumps(manifest).encode()))
        yield from _member("config.json", open_member(archive, listed["Config"]))
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


async def save_image(reference: str, file: Path, brand: Brand) -> None:
    """Write an image that an engine has, as `docker save` does. HostCannot: it has none, or does not answer."""
    engine = await ContainerEngine.connect(brand.address({}), brand)
    try:
        await engine.call(_write_saved, engine.client, reference, file)
    except EngineRefusal as error:
        raise HostCannot(error.what, engine.address, f"{brand.client} pull {reference}") from None


def _write_saved(client: Any, reference: str, file: Path) -> None:
    client.inspect_image(reference)  # one that is not there would be saved as an archive of nothing
    with file.open("wb") as archive:
        for chunk in client.get_image(reference, chunk_size=_CHUNK):
            archive.write(chunk)


def shorten_id(id: str) -> str:
    """An image's id as people know it."""
    return id.removeprefix("sha256:")[:12]


def _is_there(client: Any, id: str) -> bool:
    from docker.errors import ImageNotFound

    with suppress(ImageNotFound):
        client.inspect_image(id)
        return True
    return False


def _inspected(client: Any, reference: str, program: str) -> Mapping[str, Any]:
    from docker.errors import APIError, ImageNotFound

    try:
        found: Mapping[str, Any] = client.inspect_image(reference)
    except ImageNotFound:
        raise BadInput("the engine has no such image", reference, f"{program} pull {reference}") from None
    except APIError as error:
        what = f"the engine knows no such image: {error.explanation}"
        raise BadInput(what, reference, "write it like debian:12") from None
    return found


def _made_by(program: str) -> str:
    return f"make it by: {program} save -o FILE IMAGE"


def _of_archive(path: str, program: str) -> tuple[str, str]:
    """An archive's image id and architecture, from the configuration whose digest the id is. Its layers are there."""
    with open_archive(path, _made_by(program)) as archive:
        (listed, *_) = read_json(archive, "manifest.json")
        for layer in listed["Layers"]:
            open_member(archive, layer)
        configuration = read_json(archive, listed["Config"])
        return f"sha256:{PurePosixPath(listed['Config']).name.removesuffix('.json')}", configuration["architecture"]
