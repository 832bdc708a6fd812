"""Programs are found where root has them, whatever PATH the shell or service has that starts nearmetal."""

import shutil

import pytest

from nearmetal.system import search_path
from tests.command_line import forked


@pytest.mark.skipif(shutil.which("sysctl", path="/usr/sbin:/sbin") is None, reason="there is no sysctl")
def test_what_lies_in_sbin_is_found_by_who_has_no_sbin_in_their_path() -> None:
    ended = forked("isolate", "status", environment={"PATH": "/usr/bin:/bin"})
    assert "sysctl" not in ended.stderr
    assert "kept free by nearmetal" in ended.stdout


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("/usr/bin:/bin", "/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"),
        ("/mine:/usr/sbin:/usr/bin", "/mine:/usr/sbin:/usr/bin:/usr/local/sbin:/sbin"),
        ("/sbin:/usr/sbin:/usr/local/sbin", "/sbin:/usr/sbin:/usr/local/sbin"),
        ("", "/usr/local/sbin:/usr/sbin:/sbin"),
    ],
)
def test_what_path_says_comes_first(before: str, after: str) -> None:
    assert search_path.with_sbin(before) == after
