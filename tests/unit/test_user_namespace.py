"""Users that are set aside for a user, as subuid(5) has them, and how a process sees that it is root for one user only.

What is made of them: tests/live/test_rootless.py.
"""

import os
import pwd
from pathlib import Path

import pytest

from nearmetal.errors import HostCannot
from nearmetal.system import user_namespace
from nearmetal.system.user_namespace import _find_range, is_map_of_one_user


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


@pytest.mark.parametrize(
    ("users", "is_one"),
    [
        ("         0          0 4294967295\n", False),  # the host's
        ("         0       1000          1\n         1     100000      65536\n", True),
        ("         0       1000          1\n", True),  # unshare --map-root-user
        ("         0     100000      65536\n", False),  # a container's
        ("         0          0          1\n", False),  # root's own
        ("      1000          0          1\n", False),
        ("", False),
    ],
)
def test_the_kernels_map_tells_root_of_a_namespace_from_the_hosts(users: str, is_one: bool) -> None:
    assert is_map_of_one_user(users) is is_one


_IS_DUMPABLE = 4
"""Of prctl(2). Who takes another user's number loses its files in /proc otherwise."""


def test_root_of_a_users_own_namespace_is_seen_whatever_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEARMETAL_USER", "1000")  # as `sudo -E` might pass it on
    if os.geteuid() == 0 and not is_map_of_one_user(Path("/proc/self/uid_map").read_text()):
        assert not user_namespace.is_entered()
    child = os.fork()
    if child == 0:
        os._exit(_enter_alone())
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status == 2:
        pytest.skip("this host lets no ordinary user make a user namespace: entering one was NOT tried")
    assert status == 0


def _enter_alone() -> int:
    """0 if it is seen, 1 if not, 2 if the kernel forbids it."""
    try:
        if os.geteuid() == 0:
            os.setuid(65534)
            user_namespace._libc.prctl(_IS_DUMPABLE, 1)
        user = os.geteuid()
        if user_namespace.is_entered():
            return 1
        user_namespace._call(user_namespace._libc.unshare, user_namespace._NEW_USER)
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        return 0 if user_namespace.is_entered() else 1
    except OSError:
        return 2
    except BaseException:
        return 1
