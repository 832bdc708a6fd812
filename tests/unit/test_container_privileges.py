"""What a container keeps from nearmetal, by what /proc and /sys show. With an engine: live/test_container_image.py."""

import os
from pathlib import Path

import pytest

from nearmetal.lab import container_privileges
from nearmetal.lab.container_privileges import GROUPS, NETWORK, PRIVILEGED, find_lacking, find_missing, is_contained
from nearmetal.lab.local_site import LocalSite
from nearmetal.model import HostSpec

WHOLE = "Name:\tx:y\nCapEff:\t000001ffffffffff\nSeccomp:\t0\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Of a container that lacks nothing, on a host with control groups of version 2."""
    group = "sys/fs/cgroup/system.slice/docker-1.scope"
    for folder in ("proc/1/net", "proc/self/net", "run", group):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/cgroup.controllers").touch()
    (tmp_path / "proc/self/cgroup").write_text("0::/system.slice/docker-1.scope\n")
    for process in ("1", "self"):
        (tmp_path / f"proc/{process}/mountinfo").write_text(f"of {process}")
    (tmp_path / "proc/self/status").write_text(WHOLE)
    (tmp_path / "proc/1/net/dev").touch()
    os.link(tmp_path / "proc/1/net/dev", tmp_path / "proc/self/net/dev")
    return tmp_path


def test_one_that_was_given_all_lacks_nothing(root: Path) -> None:
    assert list(find_lacking(root)) == []


def test_each_flag_that_was_not_given_is_found(root: Path) -> None:
    for status in (WHOLE.replace("1ffffffffff", "000a80425fb"), WHOLE.replace("Seccomp:\t0", "Seccomp:\t2")):
        (root / "proc/self/status").write_text(status)
        assert list(find_lacking(root)) == ["--privileged"]
    (root / "proc/self/status").write_text(WHOLE)
    (root / "proc/self/net/dev").unlink()
    (root / "proc/self/net/dev").touch()
    assert list(find_lacking(root)) == ["--network=host"]
    (root / "proc/1/mountinfo").write_text("of self")
    assert list(find_lacking(root)) == ["--pid=host", "--network=host"]


@pytest.mark.parametrize(
    ("told", "version"),
    [
        ("0::/\n", 2),  # a namespace of its own
        ("0::/elsewhere\n", 2),
        ("3:cpuset:/docker/1\n0::/\n", 1),  # only the container's own groups are mounted
        ("3:cpuset:/\n", 1),
    ],
)
def test_groups_of_its_own_are_not_the_hosts(told: str, version: int, root: Path) -> None:
    (root / "proc/self/cgroup").write_text(told)
    if version == 1:
        (root / "sys/fs/cgroup/cgroup.controllers").unlink()
        (root / "sys/fs/cgroup/cpuset").mkdir()
    assert list(find_lacking(root)) == [GROUPS]


def test_the_hosts_groups_of_version_1_are_seen(root: Path) -> None:
    (root / "sys/fs/cgroup/cgroup.controllers").unlink()
    (root / "sys/fs/cgroup/cpuset/docker/1").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text("9:name=systemd:/x\n3:cpuset:/docker/1\n0::/\n")
    assert list(find_lacking(root)) == []


def test_a_container_says_that_it_is_one(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("container", raising=False)
    assert not is_contained(root)
    (root / "run/.containerenv").touch()
    assert is_contained(root)
    (root / "run/.containerenv").unlink()
    monkeypatch.setenv("container", "oci")
    assert is_contained(root)


@pytest.mark.parametrize(("major", "is_one"), [(254, False), (0, True)])
def test_dockers_file_counts_if_the_root_lies_on_no_device(
    major: int, is_one: bool, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("container", raising=False)
    (root / ".dockerenv").touch()
    monkeypatch.setattr(os, "major", lambda device: major)
    assert is_contained(root) == is_one


def test_machines_of_this_host_need_flags_and_those_of_others_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("container", "oci")
    monkeypatch.setattr(container_privileges, "find_lacking", lambda: iter((NETWORK, GROUPS)))
    site = LocalSite()
    (found,) = find_missing(site, PRIVILEGED, GROUPS)
    assert (found.what, found.ok, found.remedy) == ("the host's control groups", False, f"docker run {GROUPS}")
    site.spec = HostSpec(ssh="root@far")
    assert list(find_missing(site, PRIVILEGED, GROUPS)) == []
