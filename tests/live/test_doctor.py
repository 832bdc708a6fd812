"""Doctor on this host: what it says was tried, is so."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nearmetal.lab.changes.ledger import ledgers_folder
from nearmetal.lab.image import Image
from nearmetal.study.kernel_table import TABLE
from tests.live.leftovers import after_a_moment
from tests.live.snapshot import changed, snapshot
from tests.waiting import wait_until

pytestmark = [pytest.mark.live, pytest.mark.alone]


def test_it_tries_what_it_says_and_leaves_nothing(lab_image: Image, home: object) -> None:
    before = snapshot()
    ended = subprocess.run(
        [sys.executable, "-m", "nearmetal", "doctor", "--json"], capture_output=True, text=True, timeout=200
    )
    assert ended.returncode == 0, ended.stderr
    found = {one["what"]: one for one in json.loads(ended.stdout)["findings"]}
    assert found["environment host: a machine that runs a command"]["ok"]
    assert found["environment qemu"]["ok"]
    tcg = found["accelerator tcg"]
    assert tcg["ok"]
    assert "a guest booted in" in tcg["detail"]
    kvm = found["accelerator kvm"]
    assert kvm["ok"] or (kvm["remedy"] and "guests are emulated by tcg" in kvm["detail"])
    warned = found["network settings"]
    for one in TABLE.values:
        here = " ".join(Path("/proc/sys", *one.name.split(".")).read_text().split())
        assert (f"{one.name} = {here} (table: {one.value})" in warned["detail"]) == (here != one.value)
    assert after_a_moment(lambda: changed(before, snapshot())) == []


@pytest.mark.parametrize(
    ("number", "more"),
    [
        (signal.SIGINT, 0.0),
        (signal.SIGTERM, 1.0),
        pytest.param(signal.SIGINT, 1.0, marks=pytest.mark.long),
        pytest.param(signal.SIGTERM, 0.0, marks=pytest.mark.long),
    ],
)
def test_one_that_is_told_to_end_leaves_nothing(
    number: signal.Signals, more: float, lab_image: Image, home: Path
) -> None:
    """From the first machine on that it makes, whatever it is at."""
    before = snapshot()
    with subprocess.Popen([sys.executable, "-m", "nearmetal", "doctor"], stderr=subprocess.PIPE) as doctor:
        wait_until(lambda: list(ledgers_folder().glob("*.jsonl")))
        time.sleep(more)
        doctor.send_signal(number)
        _, said = doctor.communicate(timeout=60)
    assert doctor.returncode == 4
    assert b"nothing is left of what was tried" in said
    assert after_a_moment(lambda: changed(before, snapshot())) == []
    assert not list(ledgers_folder().iterdir())
