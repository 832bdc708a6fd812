"""Doctor on this host: what it says was tried, is so."""

import json
import subprocess
import sys

import pytest

from nearmetal.lab.image import Image
from tests.live.remains import after_a_moment
from tests.live.snapshot import changed, snapshot

pytestmark = [pytest.mark.live, pytest.mark.alone]


def test_it_tries_what_it_says_and_leaves_nothing(lab_image: Image, home: object) -> None:
    before = snapshot()
    ended = subprocess.run(
        [sys.executable, "-m", "nearmetal", "doctor", "--json"], capture_output=True, text=True, timeout=200
    )
    assert ended.returncode == 0, ended.stderr
    found = {one["what"]: one for one in json.loads(ended.stdout)["findings"]}
    assert found["environment host: a machine that runs a command"]["ok"]
    tcg = found["accelerator tcg"]
    assert tcg["ok"]
    assert "a guest booted in" in tcg["detail"]
    kvm = found["accelerator kvm"]
    assert kvm["ok"] or (kvm["remedy"] and "guests are emulated by tcg" in kvm["detail"])
    assert after_a_moment(lambda: changed(before, snapshot())) == []
