"""`nearmetal isolate` where it may change little: in namespaces of its own with /proc and /sys read-only, as containers
have them. It sees no processes but its own, so that this host is left alone.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nearmetal.isolate import active_isolation

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="of one CPU none can be kept free"),
]

REMEMBERS = tuple(map(int, os.uname().release.split(".")[:2])) >= (6, 2)
"""Whether this kernel remembers what tasks asked for when their cpuset changes."""

READ_ONLY = """
set -e
for folder in /proc/sys /proc/irq; do mount --bind $folder $folder; mount -o remount,bind,ro $folder; done
mount -o remount,bind,ro /sys
"""

CONTAINED = """
for verb; do $WITHOUT "$PYTHON" -m nearmetal isolate $verb && status=0 || status=$?; echo "status $status"; done
"""


# Without the capability that moving a stranger's task takes.
STRANGER = """
setpriv --reuid 1234 --clear-groups sleep 60 &
until grep -q sleep /proc/$!/comm; do sleep 0.01; done
"""
WITHOUT = "setpriv --bounding-set=-sys_nice,-sys_admin --inh-caps=-sys_nice,-sys_admin"


def contained(*verbs: str, first: str = "", without: str = "") -> "subprocess.CompletedProcess[str]":
    return namespaced(first + CONTAINED, *verbs, WITHOUT=without)


def namespaced(script: str, *words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    own = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    argv = [*own, "sh", "-c", READ_ONLY + script, "sh", *words]
    told = {**os.environ, "PYTHON": sys.executable, **environment}
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=120, env=told)
    assert ended.returncode == 0, ended.stderr
    assert "Traceback" not in ended.stderr
    return ended


def test_what_may_not_be_changed_is_told_and_the_rest_is_done() -> None:
    lines = contained("on --json", "status --json", "off --json").stdout.splitlines()
    on, status, off = (json.loads(line) for line in lines[::2])
    assert lines[1::2] == ["status 1", "status 1", "status 0"]
    assert any("kernel.timer_migration could not be set" in warning for warning in on["warnings"])
    assert on["warnings"][-1].startswith("CPU ") and "could not be cleared of all others" in on["warnings"][-1]
    assert ("interrupts to come" in on["warnings"][-1]) == _are_served_by_the_last()
    assert {one["kind"]: one["state"] for one in status["changes"]} == {"sysctl": "as before", "bystanders": "in part"}
    assert (off["left"], off["failed"]) == ([], [])
    assert on["way"]["by"] == "affinities"


def _are_served_by_the_last() -> bool:
    """Whether interrupts to come may be served by the last CPU, which is the one kept free: hosts differ in it."""
    mask = int(Path("/proc/irq/default_smp_affinity").read_text().replace(",", ""), 16)
    return bool(mask >> max(os.sched_getaffinity(0)) & 1)


CPUSETS = "/sys/fs/cgroup/cpuset" if Path("/sys/fs/cgroup/cpuset").exists() else "/sys/fs/cgroup"


@pytest.mark.skipif(not REMEMBERS, reason="this kernel forgets what tasks asked for: that alone is told")
@pytest.mark.parametrize(
    ("namespace", "hidden", "told"),
    [
        ("--mount", "mount --bind $1 $1; mount -o remount,bind,ro $1", "are mounted read-only"),
        ("--mount", "mount -t tmpfs none /sys/fs/cgroup", "no control groups with cpusets are to be seen"),
        ("--pid", ":", "processes have a namespace of their own"),
    ],
)
def test_why_no_cpuset_can_be_used_is_told(namespace: str, hidden: str, told: str) -> None:
    """It only looks: nobody is moved."""
    inside = f'{hidden}; exec "$2" -m nearmetal isolate plan'
    argv = ["unshare", namespace, "--fork", "sh", "-c", inside, "sh", CPUSETS, sys.executable]
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    (line,) = [one for one in ended.stdout.splitlines() if one.startswith("programs are moved by")]
    assert line.startswith("programs are moved by their affinities, not by a cpuset: ") and told in line


MOVED_SINCE = """
sleep 60 & sleeper=$!
"$PYTHON" -m nearmetal isolate on --json >/dev/null || [ $? = 1 ]
taskset -pc "$CPU" $sleeper >/dev/null
"$PYTHON" -m nearmetal isolate off || echo "status $?"
taskset -pc $sleeper
"""


def test_a_task_that_somebody_moved_meanwhile_is_told_and_stays() -> None:
    """Where programs are moved by their affinities; a cpuset refuses it."""
    cpu = str(max(os.sched_getaffinity(0)))
    lines = namespaced(MOVED_SINCE, CPU=cpu).stdout.splitlines()
    assert lines[0].startswith("changed by somebody else meanwhile, and left: ")
    assert f"sleep: it may run on {cpu} now" in lines[0]
    assert (lines[2], lines[3].rsplit(":", 1)[1].strip()) == ("status 1", cpu)


def test_a_task_that_may_not_be_moved_is_named() -> None:
    lines = contained("on --json", "status", "off --json", first=STRANGER, without=WITHOUT).stdout.splitlines()
    assert lines[1] == "status 1"
    assert " sleep" in json.loads(lines[0])["warnings"][-1]
    assert any(line.startswith("  in part        everybody else: not clear of ") for line in lines)
    assert lines[-1] == "status 0"


def test_strictly_nothing_is_done() -> None:
    ended = contained("on --strict", "status")
    assert ended.stdout.splitlines()[0] == "status 3"
    assert "kernel.timer_migration could not be set" in ended.stderr
    assert "everything was put back" in ended.stderr and "leave out --strict" in ended.stderr
    assert "kept free by nearmetal: none" in ended.stdout
    assert not active_isolation.ledger_path().exists()
