"""Which clock goes on while a host is suspended: a time namespace may shift it as the sleep would."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.live

TOLD = "from nearmetal.run.pause_detection import measure_sleep; print(measure_sleep())"


def asleep(*shifted: str) -> float:
    done = subprocess.run([*shifted, sys.executable, "-c", TOLD], capture_output=True, text=True, check=True)
    return float(done.stdout)


def test_the_time_for_which_this_host_was_suspended_is_told_by_its_clocks() -> None:
    unshared = ("unshare", "--time", "--fork")
    here = asleep()
    assert asleep(*unshared) == pytest.approx(here, abs=0.5)
    assert asleep(*unshared, "--boottime", "1000") == pytest.approx(here + 1000, abs=0.5)
    assert asleep(*unshared, "--boottime", "1000", "--monotonic", "1000") == pytest.approx(here, abs=0.5)
