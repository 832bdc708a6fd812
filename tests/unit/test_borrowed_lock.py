"""The lock on a machine that is somebody's: root's alone, or any user of it could keep us out, and say why."""

import fcntl
import os
from pathlib import Path

import pytest

from nearmetal.errors import HostCannot
from nearmetal.lab.borrowed import lock
from nearmetal.lab.site import LocalSite


def test_no_other_user_can_have_it() -> None:
    assert Path(lock.FOLDER).stat().st_uid == 0
    assert Path(lock.FOLDER).stat().st_mode & 0o007 == 0, "who can open a folder can lock it"


async def test_it_leaves_no_file_and_names_its_holder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "root"
    folder.mkdir()
    monkeypatch.setattr(lock, "FOLDER", str(folder))
    monkeypatch.setattr(lock, "HOLDER", f"NEARMETAL_HOLDER_OF_{tmp_path.name}")
    site = LocalSite()
    await lock.hold(site)
    assert (await lock.found(site)).ok, "it is we who have it"
    held = lock._held.pop(next(iter(lock._held)))[site.boot_id]
    try:
        assert lock._me() in (await lock.found(site)).detail
        with pytest.raises(HostCannot, match="measures on it"):
            await lock.hold(site)
    finally:
        await held.stop()
    assert (await lock.found(site)).ok
    assert list(folder.iterdir()) == []


async def test_a_holder_without_a_name_is_somebody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "FOLDER", str(tmp_path))
    monkeypatch.setattr(lock, "HOLDER", f"NEARMETAL_HOLDER_OF_{tmp_path.name}")
    folder = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    assert "somebody measures on it" in (await lock.found(LocalSite())).detail
    os.close(folder)
    assert (await lock.found(LocalSite())).ok
