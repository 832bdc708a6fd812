"""A build that fails half way, and what one that does not leaves."""

import errno
import os
from importlib import import_module
from pathlib import Path

import pytest

from nearmetal.errors import HostCannot
from nearmetal.lab.image import Recipe, bootstrap, build, store
from tests.unit.test_image_store import finished

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="refused earlier without root")


async def test_a_disk_that_fills_up_is_one_clear_error_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fill(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/cache/vmlinux")

    monkeypatch.setattr("nearmetal.lab.image.tools.require", lambda: None)
    monkeypatch.setattr(bootstrap, "debian", fill)
    with pytest.raises(HostCannot, match="No space left on device") as raised:
        await build(Recipe(), tmp_path, lambda line: None)
    assert raised.value.where == "/cache/vmlinux"
    assert [path.name for path in store.images(tmp_path).iterdir()] == [".lock"]


async def test_nobody_but_root_gets_at_the_set_user_id_programs_of_an_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def whole(work: Path, recipe: Recipe, progress: object) -> None:
        finished(tmp_path / "elsewhere", recipe).rename(work / "image")

    monkeypatch.setattr("nearmetal.lab.image.tools.require", lambda: None)
    monkeypatch.setattr(import_module("nearmetal.lab.image.build"), "_build_in", whole)
    image = await build(Recipe(), tmp_path, lambda line: None)
    assert image.root.stat().st_mode & 0o777 == 0o700
    # QEMU, which libvirt may start as another user, has to get to the disk beside it.
    assert image.folder.stat().st_mode & 0o777 == 0o755
