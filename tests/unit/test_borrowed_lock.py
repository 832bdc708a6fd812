"""The lock on a machine that is somebody's: root's alone, or any user of it could keep us out, and say why."""

import stat
from pathlib import Path

import pytest

from nearmetal.lab.borrowed import lock
from nearmetal.lab.site import LocalSite


async def test_no_other_user_can_make_it_or_have_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(lock.FILE).parent.stat()
    assert folder.st_uid == 0 and not stat.S_IMODE(folder.st_mode) & (stat.S_IWGRP | stat.S_IWOTH)
    file = tmp_path / "lock"
    monkeypatch.setattr(lock, "FILE", str(file))
    site = LocalSite()
    await lock.hold(site)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600, "who can read a file can lock it"
    assert (await lock.found(site)).ok, "it is we who have it"
    await lock._held.pop(next(iter(lock._held)))[site.boot_id].stop()
