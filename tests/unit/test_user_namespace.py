"""Users that are set aside for a user, as subuid(5) has them. What is made of them: tests/live/test_rootless.py."""

import os
import pwd
from pathlib import Path

import pytest

from nearmetal.errors import HostCannot
from nearmetal.system.user_namespace import _find_range


def test_the_largest_range_counts_by_name_or_number(tmp_path: Path) -> None:
    name = pwd.getpwuid(os.geteuid()).pw_name
    (file := tmp_path / "subuid").write_text(
        f"other:1:99999999\n{name}:100000:65536\n{os.geteuid()}:300000:70000\n{name}\n{name}:1\n"
    )
    assert _find_range(file) == (300000, 70000)


@pytest.mark.parametrize("text", ["", "other:100000:65536\n", None])
def test_a_user_for_whom_none_are_is_told_how_to_have_some(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "subuid"
    if text is not None:
        file.write_text(text)
    with pytest.raises(HostCannot) as refused:
        _find_range(file)
    assert "usermod --add-subuids" in refused.value.remedy
