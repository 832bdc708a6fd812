"""Where the probe is looked for, and where nearmetal's folders are."""

import os
from pathlib import Path

import pytest

from nearmetal.config import Paths
from nearmetal.errors import HostCannot
from nearmetal.lab import probe


@pytest.fixture(autouse=True)
def nothing_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("NEARMETAL_PROBE", "container"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.executable", str(tmp_path / "bin" / "python"))
    monkeypatch.setattr(probe, "__file__", str(tmp_path / "package" / "probe.py"))
    monkeypatch.setattr(probe, "path", probe.path.__wrapped__)


def put(folder: Path, mode: int = 0o755) -> Path:
    folder.mkdir()
    place = folder / "nearmetal-probe"
    place.write_bytes(b"a program")
    place.chmod(mode)
    return place


def test_the_package_has_its_own_before_one_beside_its_python(tmp_path: Path) -> None:
    beside = put(tmp_path / "bin")
    assert probe.path() == beside
    own = put(tmp_path / "package")
    assert probe.path() == own


def test_one_that_was_unpacked_as_no_program_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEARMETAL_HOME", str(tmp_path / "own"))
    own = put(tmp_path / "package", 0o644)
    copy = probe.path()
    assert copy != own and copy.read_bytes() == b"a program" and os.access(copy, os.X_OK)
    assert probe.path() == copy


def test_a_container_has_it_in_the_cache_which_its_host_has_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEARMETAL_HOME", str(tmp_path / "own"))
    monkeypatch.setenv("container", "oci")
    put(tmp_path / "package")
    assert probe.path().is_relative_to(tmp_path / "own/cache")


def test_none_is_told_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(HostCannot, match="the probe is missing") as told:
        probe.path()
    assert "install the package again" in str(told.value)


def test_root_has_the_hosts_folders_unless_somebody_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NEARMETAL_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert (Paths.default().cache, Paths.default().state) == (Path("/var/cache/nearmetal"), Path("/var/lib/nearmetal"))
    monkeypatch.setenv("XDG_CACHE_HOME", "/elsewhere")
    assert (Paths.default().cache, Paths.default().state) == (Path("/elsewhere/nearmetal"), Path("/var/lib/nearmetal"))
