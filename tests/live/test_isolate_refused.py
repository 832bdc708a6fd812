"""`nearmetal isolate` where it may change little: in namespaces of its own with /proc and /sys read-only, as containers
have them. It sees no processes but its own, so that this host is left alone.
"""

import json
import os
import subprocess
import sys

import pytest

from nearmetal.isolate import standing

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="of one CPU none can be kept free"),
]

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
    script = READ_ONLY + first + CONTAINED
    argv = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script, "sh", *verbs]
    environment = {**os.environ, "PYTHON": sys.executable, "WITHOUT": without}
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=120, env=environment)
    assert ended.returncode == 0, ended.stderr
    assert "Traceback" not in ended.stderr
    return ended


def test_what_may_not_be_changed_is_told_and_the_rest_is_done() -> None:
    lines = contained("on --json", "status --json", "off --json").stdout.splitlines()
    on, status, off = (json.loads(line) for line in lines[::2])
    assert lines[1::2] == ["status 1", "status 1", "status 0"]
    assert any("kernel.timer_migration could not be set" in warning for warning in on["warnings"])
    assert "interrupts to come" in on["warnings"][-1]
    assert {one["kind"]: one["state"] for one in status["changes"]} == {"sysctl": "as before", "bystanders": "in part"}
    assert (off["left"], off["failed"]) == ([], [])


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
    assert not standing.ledger_path().exists()
