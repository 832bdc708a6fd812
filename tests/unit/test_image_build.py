"""A build that fails half way."""

import errno
import os
from pathlib import Path

import pytest

from nearmetal.errors import HostCannot
from nearmetal.lab.image import Recipe, bootstrap, build, store

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
