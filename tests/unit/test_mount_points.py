"""Folders that several engines of our own need at once."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nearmetal.errors import HostCannot
from nearmetal.lab.containers import mount_points
from nearmetal.lab.process_locks import try_lock


def test_what_was_made_goes_with_the_last_who_needs_it(tmp_path: Path) -> None:
    made = [tmp_path / "run/one", tmp_path / "run/two"]
    first = mount_points.make_needed(made)
    second = mount_points.make_needed(made)
    mount_points.let_go(first)
    assert all(place.is_dir() for place in made)
    third = mount_points.make_needed(made)
    mount_points.let_go(second)
    assert all(place.is_dir() for place in made)
    mount_points.let_go(third)
    assert list((tmp_path / "run").iterdir()) == []


def test_what_was_there_stays(tmp_path: Path) -> None:
    """Empty as it is, it may be that of an engine which is installed."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    mount_points.let_go(mount_points.make_needed([theirs]))
    mount_points.remove_unneeded([theirs])
    assert list(theirs.iterdir()) == []


def test_what_moved_in_stays_and_is_its_own_from_then_on(tmp_path: Path) -> None:
    place = tmp_path / "place"
    needed = mount_points.make_needed([place])
    (place / "socket").touch()
    mount_points.let_go(needed)
    mount_points.let_go(mount_points.make_needed([place]))
    assert list(place.iterdir()) == [place / "socket"]


def test_what_one_left_who_was_killed_goes_unless_another_needs_it(tmp_path: Path) -> None:
    place = tmp_path / "place"
    script = "import os, pathlib, signal, sys; from nearmetal.lab.containers import mount_points; "
    script += "needed = mount_points.make_needed([pathlib.Path(sys.argv[1])]); os.kill(os.getpid(), signal.SIGKILL)"
    for _ in range(2):
        subprocess.run([sys.executable, "-c", script, str(place)], check=False)
        assert place.is_dir()
    needed = mount_points.make_needed([place])
    mount_points.remove_unneeded([place])
    assert place.is_dir()
    mount_points.let_go(needed)
    assert not place.exists()
    subprocess.run([sys.executable, "-c", script, str(place)], check=False)
    mount_points.remove_unneeded([place, tmp_path / "never"])
    assert not place.exists()


def test_one_that_cannot_be_made_leaves_none_of_the_others(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        mount_points.make_needed([tmp_path / "place", tmp_path / "file" / "below"])
    assert not (tmp_path / "place").exists()


def test_one_that_cannot_be_removed_keeps_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mount_points, "_PATIENCE", 0.1)
    made = [tmp_path / name / "place" for name in ("first", "held", "last")]
    needed = mount_points.make_needed(made)
    held = os.open(made[1].parent, os.O_RDONLY)
    assert try_lock(held)
    with pytest.raises(HostCannot, match="another program holds its lock"):
        mount_points.let_go(needed)
    assert [place.exists() for place in made] == [False, True, False]
    os.close(held)
    mount_points.remove_unneeded(made)  # and its mark is nobody's any more
    assert not made[1].exists()
