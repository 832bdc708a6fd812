"""What an engine takes over of an image of ours, so that it makes containers of it: once for each build.

It goes with the image where its engine answers: the one that the environment names, or the usual one. An engine that
only a study names is not known here.
"""

import os
from pathlib import Path
from typing import Any

from nearmetal.errors import HostCannot
from nearmetal.lab.containers import rootless_podman
from nearmetal.lab.containers.api import PODMAN, Brand, ContainerEngine, EngineRefusal
from nearmetal.lab.image import Image
from nearmetal.system import user_namespace

_DIGEST = "nearmetal.digest"
"""The label by which a copy is known for ours."""


def name_copy(image: Image) -> str:
    return f"nearmetal/{image.name.lower()}:{image.digest[:12]}"


def provide_copy(client: Any, image: Image) -> str:
    """The image's tag in an engine, which takes it over once. Blocks."""
    if not _is_there(client, image):
        label = f"LABEL {_DIGEST}={image.digest}"
        client.import_image_from_file(str(image.tarball), repository=name_copy(image), changes=[label])
    return name_copy(image)


async def remove_copy(image: Image, brand: Brand) -> str | None:
    """The address of the engine from which the copy was removed; None when it had none.

    HostCannot when the copy is in use, or when that cannot be told.
    """
    is_own = brand is PODMAN and user_namespace.is_entered()
    address = rootless_podman.ADDRESS if is_own else brand.address({})
    if not (rootless_podman.has_images() if is_own else _may_have(address, brand)):
        return None
    command = f"{brand.client} rmi {name_copy(image)}"
    try:
        if is_own:
            await rootless_podman.ensure_running()
        engine = await ContainerEngine.connect(address, brand)
        if not await engine.call(_is_there, engine.client, image):
            return None
    except HostCannot as error:
        what = f"whether it has {name_copy(image)} cannot be told: {error.what}"
        raise HostCannot(what, address, f"when it answers: {command}") from None
    try:
        await engine.call(engine.client.remove_image, name_copy(image))
    except EngineRefusal as error:
        what = f"{name_copy(image)} is still in the {brand.called}: {error.what}"
        raise HostCannot(what, address, f"remove what uses it, then: {command}") from None
    return address


def _is_there(client: Any, image: Image) -> bool:
    """Blocks."""
    from docker.errors import ImageNotFound

    try:
        labels = client.inspect_image(name_copy(image))["Config"]["Labels"] or {}
    except ImageNotFound:
        return False
    return bool(labels.get(_DIGEST) == image.digest)


def _may_have(address: str, brand: Brand) -> bool:
    """Whether there is an engine that could have taken an image over, whether or not it answers."""
    if not address.startswith("unix://"):
        return False
    return brand.variable in os.environ or Path(address.removeprefix("unix://")).exists()
