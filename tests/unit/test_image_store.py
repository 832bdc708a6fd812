"""The images on this machine: whole or not there at all."""

import asyncio
import fcntl
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nearmetal.errors import BadInput, HostCannot
from nearmetal.lab.image import Image, Recipe, build, hold, ls, newest, rm, store
from nearmetal.lab.process_locks import lock_file, try_lock
from tests.command_line import forked

PARTS = {"rootfs.tar": b"tar", "root.qcow2": b"disk", "vmlinux": b"kernel", "initrd": b"initrd"}


def finished(cache: Path, recipe: Recipe, digest: str = "ab" * 32) -> Path:
    folder = store.folder_of(recipe.name, recipe.key, cache)
    (folder / "root").mkdir(parents=True)
    for name, content in PARTS.items():
        (folder / name).write_bytes(content)
    document = {
        "schema": "image.v1",
        "name": recipe.name,
        "key": recipe.key,
        "digest": digest,
        "kernel": "6.1.0",
        "packages": {},
        "sizes": {name: len(content) for name, content in PARTS.items()},
    }
    (folder / "manifest.json").write_text(json.dumps(document))
    return folder


async def test_a_whole_image_is_returned_at_once(tmp_path: Path) -> None:
    folder = finished(tmp_path, Recipe())
    said: list[str] = []
    image = await build(Recipe(), tmp_path, said.append)
    assert image == Image("lab", Recipe().key, "ab" * 32, folder)
    assert image.manifest["digest"] == image.digest
    assert said == []


@pytest.mark.parametrize("damage", ["rootfs.tar", "vmlinux", "manifest.json", "root"])
def test_an_image_with_a_part_missing_is_none(tmp_path: Path, damage: str) -> None:
    folder = finished(tmp_path, Recipe())
    (folder / damage).rename(folder / "elsewhere")
    assert ls(tmp_path) == []


def test_an_image_with_a_part_cut_short_is_none(tmp_path: Path) -> None:
    folder = finished(tmp_path, Recipe())
    (folder / "root.qcow2").write_bytes(b"di")
    assert ls(tmp_path) == []


@pytest.mark.parametrize("content", ["", "{", "[]", '{"schema": "image.v0"}', '{"schema": "image.v1"}'])
def test_rubbish_for_a_manifest_is_no_image(tmp_path: Path, content: str) -> None:
    (finished(tmp_path, Recipe()) / "manifest.json").write_text(content)
    assert ls(tmp_path) == []


def test_an_image_that_is_held_stays_and_who_holds_it_is_named(tmp_path: Path) -> None:
    finished(tmp_path, Recipe())
    finished(tmp_path, Recipe(name="mine"))
    finished(tmp_path, Recipe(name="mine", packages=("curl",)))
    lab, one, _ = ls(tmp_path)
    with hold(lab), hold(lab), hold(one):
        for name in ("lab", "mine"):
            with pytest.raises(HostCannot, match=f"made of this image: me {os.getpid()}"):
                rm(tmp_path, name, lambda process: f"me {process}")
        assert len(ls(tmp_path)) == 3
    assert len(rm(tmp_path, "mine")) == 2
    with pytest.raises(HostCannot, match="being removed"):
        hold(one)


def test_an_empty_cache_has_no_images(tmp_path: Path) -> None:
    assert ls(tmp_path / "nowhere") == []


def test_images_are_removed_by_name_digest_or_key(tmp_path: Path) -> None:
    recipes = [Recipe(), Recipe(name="mine"), Recipe(name="mine", packages=("curl",)), Recipe(name="last")]
    for number, recipe in enumerate(recipes):
        finished(tmp_path, recipe, f"{number:064d}")
    assert {image.key for image in rm(tmp_path, "mine")} == {recipes[1].key, recipes[2].key}
    assert [image.name for image in rm(tmp_path, recipes[0].key[:12])] == ["lab"]
    assert [image.name for image in rm(tmp_path, f"{3:064d}")] == ["last"]
    assert ls(tmp_path) == []
    assert [path.name for path in store.images(tmp_path).iterdir()] == [".lock"]


def test_the_newest_of_a_name_is_current_and_an_old_one_goes_alone(tmp_path: Path) -> None:
    recipes = [Recipe(), Recipe(packages=("curl",)), Recipe(name="mine")]
    for number, recipe in enumerate(recipes):
        os.utime(finished(tmp_path, recipe, f"{number:064d}") / "manifest.json", (1e9 + number, 1e9 + number))
    built = ls(tmp_path)
    assert [image.key for image in newest(built)] == [recipes[1].key, recipes[2].key]
    assert [image.made.timestamp() for image in built] == [1e9 + 1, 1e9, 1e9 + 2]
    assert [image.key for image in rm(tmp_path, built[1].key[:12])] == [recipes[0].key]
    assert newest(ls(tmp_path)) == ls(tmp_path)


def test_an_image_occupies_what_its_files_do(tmp_path: Path) -> None:
    folder = finished(tmp_path, Recipe())
    (image,) = ls(tmp_path)
    before = image.occupied
    (folder / "root" / "etc").mkdir()
    (folder / "root" / "etc" / "large").write_bytes(os.urandom(1 << 20))
    (folder / "root" / "etc" / "link").symlink_to("/bin/sh")
    assert image.occupied - before >= 1 << 20


@pytest.mark.parametrize("name", ["nosuch", "", "0", "../lab", "abababa"])
def test_what_is_not_there_cannot_be_removed(tmp_path: Path, name: str) -> None:
    finished(tmp_path, Recipe())
    with pytest.raises(BadInput, match="no image"):
        rm(tmp_path, name)
    assert len(ls(tmp_path)) == 1


def test_leftovers_are_swept_and_images_are_not(tmp_path: Path) -> None:
    folder = finished(tmp_path, Recipe())
    (store.images(tmp_path) / ".unfinished-lab-0123/root/etc").mkdir(parents=True)
    store.sweep(tmp_path)
    assert sorted(path.name for path in store.images(tmp_path).iterdir()) == [folder.name]


async def test_two_builds_wait_for_each_other(tmp_path: Path) -> None:
    order: list[str] = []

    async def hold(name: str) -> None:
        async with store.lock(tmp_path, order.append):
            order.append(f"{name} in")
            await asyncio.sleep(0.05)
            order.append(f"{name} out")

    await asyncio.gather(hold("a"), hold("b"))
    assert order == ["a in", "waiting for another build to end", "a out", "b in", "b out"]


def test_who_removes_while_an_image_is_built_is_told_what_is_waited_for(tmp_path: Path) -> None:
    said: list[str] = []
    with ThreadPoolExecutor() as pool, lock_file(store.images(tmp_path)) as building:
        assert try_lock(building)
        removing = pool.submit(rm, tmp_path, "nosuch", say=said.append)
        try:
            deadline = time.monotonic() + 5
            while not said and time.monotonic() < deadline:
                time.sleep(0.01)
            assert said == ["waiting for another build to end"]
        finally:
            fcntl.flock(building, fcntl.LOCK_UN)
        with pytest.raises(BadInput, match="no image"):
            removing.result(10)


def test_no_name_is_refused_without_waiting(tmp_path: Path) -> None:
    cache = tmp_path / "bare" / "cache"
    with lock_file(store.images(cache)) as building:
        assert try_lock(building)
        ended = forked("image", "rm", "", environment={"NEARMETAL_HOME": str(cache.parent)}, patience=20)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "remedy: " in ended.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may build")
async def test_building_without_root_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HostCannot, match="needs root"):
        await build(Recipe(), tmp_path, lambda line: None)


@pytest.mark.skipif(os.geteuid() != 0, reason="refused earlier without root")
async def test_missing_tools_are_named_with_their_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HostCannot, match="mmdebstrap, apt-get") as raised:
        await build(Recipe(), tmp_path, lambda line: None)
    assert "mmdebstrap" in raised.value.remedy
    assert "qemu-utils" in raised.value.remedy


def test_a_cache_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HostCannot, match="cannot be written"):
        rm(tmp_path / "file", "lab")
