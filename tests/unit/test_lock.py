"""One measurement at a time on a host."""

import os
from pathlib import Path

import pytest

from nearmetal.errors import HostCannot
from nearmetal.lab.lock import exclusive


def test_who_comes_second_is_told_who_is_there(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "lock"
    with exclusive(path, "it is busy"):
        for _ in range(2):
            with (
                pytest.raises(HostCannot, match=rf"it is busy \(process {os.getpid()}\)"),
                exclusive(path, "it is busy"),
            ):
                raise AssertionError("both have it")
    with exclusive(path, "it is busy"):
        pass
