"""A build that fails half way, and what one that does not leaves."""

import errno
import os
from importlib import import_module
from pathlib import Path

import pytest

from nearmetal.errors import HostCannot, ToolFailed
from nearmetal.lab.image import Recipe, bootstrap, build, store
from nearmetal.model import DebianPackage
from tests.unit.test_image_store import finished

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="refused earlier without root")


async def test_a_disk_that_fills_up_is_one_clear_error_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fill(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/cache/vmlinux")

    monkeypatch.setattr("nearmetal.lab.image.build_tools.require", lambda: None)
    monkeypatch.setattr(bootstrap, "make_debian", fill)
    with pytest.raises(HostCannot, match="No space left on device") as raised:
        await build(Recipe(), tmp_path, lambda line: None)
    assert raised.value.where == "/cache/vmlinux"
    assert [path.name for path in store.images(tmp_path).iterdir()] == [".lock"]


async def test_nobody_but_root_gets_at_the_set_user_id_programs_of_an_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def whole(work: Path, recipe: Recipe, progress: object) -> None:
        finished(tmp_path / "elsewhere", recipe).rename(work / "image")

    monkeypatch.setattr("nearmetal.lab.image.build_tools.require", lambda: None)
    monkeypatch.setattr(import_module("nearmetal.lab.image.build"), "_build_in", whole)
    image = await build(Recipe(), tmp_path, lambda line: None)
    assert image.root.stat().st_mode & 0o777 == 0o700
    # QEMU, which libvirt may start as another user, has to get to the disk beside it.
    assert image.folder.stat().st_mode & 0o777 == 0o755


LISTED = """Package: lighttpd
Version: 1.4.69-1
SHA256: {}

Package: adduser
Version: 3.134
{}
"""


def test_an_image_knows_the_hash_of_each_package_it_was_made_of(tmp_path: Path) -> None:
    (tmp_path / "packages").write_text(LISTED.format("1c" * 32, f"SHA256: {'2d' * 32}"))
    assert bootstrap.read_packages(tmp_path) == {
        "adduser": DebianPackage(version="3.134", sha256="2d" * 32),
        "lighttpd": DebianPackage(version="1.4.69-1", sha256="1c" * 32),
    }
    (tmp_path / "packages").write_text(LISTED.format("1c" * 32, ""))
    with pytest.raises(ToolFailed, match="no SHA-256 of the package adduser"):
        bootstrap.read_packages(tmp_path)


def test_an_image_of_an_earlier_version_knows_no_hashes(tmp_path: Path) -> None:
    finished(tmp_path, Recipe())
    (image,) = store.ls(tmp_path)
    assert image.packages == {}
