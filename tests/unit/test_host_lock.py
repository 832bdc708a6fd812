"""The lock on a machine that is somebody's: root's alone, or any user of it could keep us out, and say why."""

import fcntl
import os
from pathlib import Path

import pytest

from nearmetal.errors import HostCannot
from nearmetal.lab import concurrent_runs
from nearmetal.lab import host_lock as lock
from nearmetal.lab.local_site import LocalSite


def test_no_other_user_can_have_it() -> None:
    assert Path(lock.FOLDER).stat().st_uid == 0
    assert Path(lock.FOLDER).stat().st_mode & 0o007 == 0, "who can open a folder can lock it"


async def _return(site: LocalSite) -> LocalSite:
    return site


async def test_it_leaves_no_file_and_names_its_holder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "root"
    folder.mkdir()
    monkeypatch.setattr(lock, "FOLDER", str(folder))
    monkeypatch.setattr(lock, "HOLDER", f"NEARMETAL_HOLDER_OF_{tmp_path.name}")
    site = LocalSite()
    await lock.hold_host(site)
    assert (await lock.check_holder(site)).ok, "it is we who have it"
    held = lock._held.pop(next(iter(lock._held)))[site.boot_id, site.name]
    try:
        assert (await lock.check_holder(site)).ok, "by another name of the host, too"
        await lock.hold_all(["local"], lambda _: _return(site))
        assert lock._held == {}, "our own run has it, and no more is needed"
        monkeypatch.setattr(concurrent_runs, "_acting_for", [1])
        assert f"(process {os.getpid()}) measures on it" in (await lock.check_holder(site)).detail
        with pytest.raises(HostCannot, match="measures on it") as refused:
            await lock.hold_host(site)
        assert "wait until that ends" in refused.value.remedy
        with pytest.raises(HostCannot, match="measures on it"), lock.share_here():
            pass
    finally:
        await held.stop()
    assert (await lock.check_holder(site)).ok
    assert list(folder.iterdir()) == []


async def test_a_holder_without_a_name_is_somebody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "FOLDER", str(tmp_path))
    monkeypatch.setattr(lock, "HOLDER", f"NEARMETAL_HOLDER_OF_{tmp_path.name}")
    folder = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    assert "somebody measures on it" in (await lock.check_holder(LocalSite())).detail
    os.close(folder)
    assert (await lock.check_holder(LocalSite())).ok


async def test_runs_of_a_host_share_it_and_keep_others_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "FOLDER", str(tmp_path))
    monkeypatch.setattr(lock, "HOLDER", f"NEARMETAL_HOLDER_OF_{tmp_path.name}")
    site = LocalSite()
    with lock.share_here(), lock.share_here():
        await lock.hold_host(site)  # a run that reaches its own host by SSH
        monkeypatch.setattr(concurrent_runs, "_acting_for", [1])
        with pytest.raises(HostCannot, match=rf"\(process {os.getpid()}\) measures on it"):
            await lock.hold_host(site)
    await lock.hold_host(site)
    await lock._held.pop(next(iter(lock._held)))[site.boot_id, site.name].stop()


def test_who_may_not_lock_it_measures_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "FOLDER", str(tmp_path / "none"))
    with lock.share_here():
        pass
