"""Hosts that are closed more than most: what is measured there all the same, and what is refused by name."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from nearmetal.lab.image import Image
from nearmetal.store.journal import read_records
from nearmetal.store.run_folder import RunFolder

pytestmark = [pytest.mark.live]

STUDY = f"""
name = "hardened"
[factors]
environment = ["host", "qemu"]
[machine]
memory = "256MiB"
accel = "{os.environ.get("NEARMETAL_TEST_ACCEL", "tcg")}"
[[workloads]]
name = "page"
kind = "http"
duration = "500ms"
[design]
blocks = 1
"""
_NO_EXEC = "mount --bind $1 $1; mount -o remount,bind,noexec $1"
_DROP = "for chain in INPUT FORWARD OUTPUT; do iptables -P $chain DROP; done"
_ACCEPT_LO = "iptables -A INPUT -i lo -j ACCEPT; iptables -A OUTPUT -o lo -j ACCEPT"


def call_there(
    script: str, folder: Path, *words: str, namespaces: Sequence[str] = ()
) -> "subprocess.CompletedProcess[str]":
    """Call nearmetal in namespaces of its own, once a script has made the host what the test is about.

    `folder` is the script's `$1`.
    """
    argv = ["unshare", "--mount", "--propagation", "private", *namespaces, "sh", "-ec", f'{script}; shift; exec "$@"']
    command = [*argv, "harden", str(folder), sys.executable, "-m", "nearmetal", *words]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.fixture
def study(tmp_path: Path) -> str:
    path = tmp_path / "hardened.toml"
    path.write_text(STUDY)
    return str(path)


@pytest.mark.long
@pytest.mark.parametrize(
    ("script", "namespaces"),
    [
        pytest.param("for f in /run /var/tmp /dev/shm; do mount -t tmpfs -o noexec none $f; done", (), id="noexec"),
        pytest.param("mount --bind /usr /usr; mount -o remount,bind,ro /usr", (), id="usr is read only"),
        pytest.param(
            "mount -t tmpfs none /mnt; mount --bind /mnt /proc/sys/net/ipv6; mount --bind /dev/null /proc/net/if_inet6",
            (),
            id="no IPv6",
        ),
        pytest.param("mount --bind /proc/sys /proc/sys; mount -o remount,bind,ro /proc/sys", (), id="settings stand"),
        pytest.param(f"ip link set lo up; {_DROP}; {_ACCEPT_LO}", ("--net",), id="a firewall drops by default"),
        pytest.param("umask 077; ulimit -n 256; exec <&-", (), id="little is allowed"),
    ],
)
def test_it_is_measured(script: str, namespaces: Sequence[str], study: str, lab_image: Image, tmp_path: Path) -> None:
    if "iptables" in script and shutil.which("iptables") is None:
        pytest.skip("this host has no iptables (apt-get install iptables): a firewall is NOT tried")
    run = tmp_path / "run"
    ended = call_there(script, tmp_path, "run", study, "-o", str(run), namespaces=namespaces)
    assert ended.returncode == 0, ended.stderr
    assert [record.status for record in read_records(RunFolder(run).journal)] == ["ok", "ok"], ended.stderr


@pytest.mark.parametrize(
    ("script", "namespaces", "why", "remedy"),
    [
        pytest.param(_NO_EXEC, (), "it is mounted noexec", "NEARMETAL_HOME", id="noexec"),
        pytest.param(
            "mount -t tmpfs none /mnt; mkdir /mnt/a /mnt/b; "
            "mount -t overlay -o lowerdir=$1,upperdir=/mnt/a,workdir=/mnt/b none $1",
            (),
            "an overlay cannot write to its file system, overlay",
            "NEARMETAL_HOME",
            id="overlay",
        ),
        pytest.param("true", ("--net",), "Network is unreachable", "ip link set lo up", id="no loopback"),
        pytest.param(
            f"ip link set lo up; {_DROP}",
            ("--net",),
            "a firewall drops",
            "iptables -I INPUT -i lo",
            id="closed loopback",
        ),
    ],
)
def test_it_is_refused_before_it_measures(
    script: str, namespaces: Sequence[str], why: str, remedy: str, study: str, lab_image: Image, home: Path
) -> None:
    if "iptables" in script and shutil.which("iptables") is None:
        pytest.skip("this host has no iptables (apt-get install iptables): a firewall is NOT tried")
    ended = call_there(script, home, "run", study, "-o", str(home / "run"), namespaces=namespaces)
    assert ended.returncode == 3, ended.stderr
    assert why in ended.stderr and remedy in ended.stderr
    journal = RunFolder(home / "run").journal
    assert not journal.exists() or list(read_records(journal)) == []
