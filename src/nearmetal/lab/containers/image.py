"""An OCI image of the user's own in place of ours: a reference that the engine has, or an archive of `docker save`."""

import json
import tarfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any

from nearmetal.errors import MALFORMED, BadInput
from nearmetal.lab.findings import finding
from nearmetal.model import Finding

ARCHITECTURES: Mapping[str, str] = {"x86_64": "amd64", "aarch64": "arm64"}
"""A kernel's name of an architecture to that of the OCI; others are called alike."""


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
        with Path(image).open("rb") as archive:
            for line in client.load_image(archive):
                if "error" in line:
                    raise BadInput(f"the engine does not take it: {line['error']}", image, _made_by(program))
        if not _is_there(client, wanted):
            raise BadInput("the engine took it for another image than it says it is", image, _made_by(program))
    return wanted


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
    """An archive's image id and architecture, from the configuration whose digest the id is."""
    try:
        with tarfile.open(path) as archive:
            (listed, *_) = _json(archive, "manifest.json")
            configuration = _json(archive, listed["Config"])
            return f"sha256:{PurePosixPath(listed['Config']).name.removesuffix('.json')}", configuration["architecture"]
    except FileNotFoundError:
        raise BadInput("there is no such file", path, _made_by(program)) from None
    except OSError as error:
        raise BadInput(f"it cannot be read: {error.strerror or error}", path, _made_by(program)) from None
    except tarfile.TarError:
        raise BadInput("this is no archive of an image: it is no tar archive", path, _made_by(program)) from None
    except MALFORMED:
        what = "this is no archive of an image: it has no manifest.json that names an image's configuration"
        raise BadInput(what, path, _made_by(program)) from None


def _json(archive: tarfile.TarFile, name: str) -> Any:
    member = archive.extractfile(name)
    if member is None:
        raise ValueError(f"{name} is no file")
    return json.load(member)
