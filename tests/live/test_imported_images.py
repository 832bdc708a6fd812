"""What engines took over of our images goes with the image, and nothing else does."""

import asyncio
import hashlib
import io
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest

from nearmetal.lab.containers import imported_images
from nearmetal.lab.containers.api import DOCKER, PODMAN, Brand, ContainerEngine
from nearmetal.lab.image import Image, Recipe, ls
from tests.command_line import called
from tests.unit.test_image_store import finished

pytestmark = pytest.mark.live


@pytest.fixture(params=[DOCKER, PODMAN], ids=["docker", "podman"])
def brand(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Brand:
    chosen: Brand = request.param
    if shutil.which(chosen.client) is None:
        pytest.skip(f"there is no {chosen.client}")
    other = PODMAN if chosen is DOCKER else DOCKER
    monkeypatch.setenv(other.variable, "tcp://no-engine-of-this-host")
    engine = request.getfixturevalue("engine" if chosen is DOCKER else "podman")
    monkeypatch.setenv(chosen.variable, engine)
    return chosen


@pytest.fixture
def client(brand: Brand) -> Any:
    return asyncio.run(ContainerEngine.connect(brand.address({}), brand)).client


@pytest.fixture
def image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Image:
    """A small one, in a home of its own: what is shared stays."""
    monkeypatch.setenv("NEARMETAL_HOME", str(tmp_path / "own"))
    return image_named("Mine", tmp_path)


def image_named(name: str, folder: Path) -> Image:
    made = finished(folder / "own/cache", Recipe(name=name), hashlib.sha256(str(folder).encode()).hexdigest())
    with tarfile.open(made / "rootfs.tar", "w") as archive:
        entry = tarfile.TarInfo("which")
        entry.size = len(str(folder))
        archive.addfile(entry, io.BytesIO(str(folder).encode()))
    manifest = (made / "manifest.json").read_text()
    size = (made / "rootfs.tar").stat().st_size
    (made / "manifest.json").write_text(manifest.replace('"rootfs.tar": 3', f'"rootfs.tar": {size}'))
    (image,) = ls(folder / "own/cache")
    return image


def has(client: Any, tag: str) -> bool:
    from docker.errors import ImageNotFound

    try:
        client.inspect_image(tag)
    except ImageNotFound:
        return False
    return True


def test_what_an_engine_took_over_goes_with_the_image(brand: Brand, client: Any, image: Image) -> None:
    tag = imported_images.provide_copy(client, image)
    assert tag == imported_images.provide_copy(client, image) == f"nearmetal/mine:{image.digest[:12]}"
    other = f"nearmetal/mine:{image.digest[:11]}"
    client.tag(tag, "nearmetal/mine", image.digest[:11])
    try:
        ended = called("image", "rm", "Mine")
        assert (ended.returncode, has(client, tag), has(client, other)) == (0, False, True)
        assert f"removed {tag} from the {brand.called} at {brand.address({})}" in ended.stdout
        assert ls(image.folder.parents[1]) == []
    finally:
        client.remove_image(other)


def test_what_only_bears_its_name_stays(brand: Brand, client: Any, image: Image) -> None:
    tag = f"nearmetal/mine:{image.digest[:12]}"
    client.import_image_from_file(str(image.tarball), repository=tag)
    try:
        ended = called("image", "rm", "Mine")
        assert (ended.returncode, has(client, tag)) == (0, True)
        assert tag not in ended.stdout
    finally:
        client.remove_image(tag)


def test_a_copy_that_is_in_use_is_left_and_told(brand: Brand, client: Any, image: Image) -> None:
    tag = imported_images.provide_copy(client, image)
    container = client.create_container(tag, ["true"])["Id"]
    try:
        ended = called("image", "rm", "Mine")
        assert (ended.returncode, has(client, tag)) == (1, True)
        assert f"remedy: remove what uses it, then: {brand.client} rmi {tag}" in ended.stderr
        assert ls(image.folder.parents[1]) == []
    finally:
        client.remove_container(container)
        client.remove_image(tag)


def test_an_engine_that_was_named_and_does_not_answer_is_told(image: Image, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    ended = called("image", "rm", "Mine")
    assert ended.returncode == 1
    assert "no Docker engine answers: there is no such socket" in ended.stderr
    assert f"docker rmi nearmetal/mine:{image.digest[:12]}" in ended.stderr
