"""The host's disk fills under a guest: the guest's program hears of it, and whoever measures is told the folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from nearmetal.environments.qemu import QemuEnvironment
from nearmetal.errors import MachineLost
from nearmetal.model import TrialStatus
from tests.small_disk import small_disk

from . import laboratory
from .conftest import Make

pytestmark = pytest.mark.live

TOO_MUCH = ["dd", "if=/dev/urandom", "of=/root/much", "bs=1M", "count=60", "conv=fsync"]
STUDY = f"""
name = "full"
[machine]
memory = "256MiB"
accel = "tcg"
[factors]
environment = ["qemu"]
[design]
blocks = 1
[[workloads]]
name = "fill"
kind = "command"
argv = {TOO_MUCH}
response = "seconds"
better = "lower"
json = "seconds"
"""


@pytest.fixture
def environment() -> QemuEnvironment:
    return QemuEnvironment()


@pytest.fixture
def small_state(home: Path) -> Iterator[Path]:
    """The folder in which machines' disks lie, with room for 40 MB."""
    with small_disk(home / "state", "40m") as place:
        yield place


async def test_a_guest_whose_host_has_a_full_disk_is_lost_at_once_and_the_folder_is_told(
    small_state: Path, make: Make
) -> None:
    machine = await make(laboratory.spec())
    idle = await machine.spawn(["sleep", "300"])
    with pytest.raises(MachineLost, match="the host's disk is full") as caught:
        await machine.exec(TOO_MUCH, timeout=60)
    assert caught.value.what == f"the host's disk is full: {small_state}"
    assert caught.value.remedy
    for asked in (idle.wait(5), machine.exec(["true"]), machine.spawn(["true"])):
        with pytest.raises(MachineLost, match=f"the host's disk is full: {small_state}"):
            await asked


async def test_a_trial_that_is_lost_so_says_why(small_state: Path, tmp_path: Path) -> None:
    records = await laboratory.study(tmp_path / "run", STUDY)
    assert {record.status for record in records} == {TrialStatus.LOST}
    assert all(f"the host's disk is full: {small_state}" in str(record.reason) for record in records)
