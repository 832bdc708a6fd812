"""The host's disk fills under a guest: the guest's program hears of it, and whoever measures is told the folder."""

import contextlib
import mmap
from collections.abc import Iterator
from pathlib import Path

import pytest

from nearmetal.commands.by_hand import own_failures_apart
from nearmetal.environments.qemu import QemuEnvironment
from nearmetal.errors import MachineLost
from nearmetal.lab.clean import clean
from nearmetal.model import TrialStatus
from nearmetal.run.events import TrialEnded
from nearmetal.store.events import Event
from nearmetal.store.journal import Journal, read_entries, read_records, render_line
from nearmetal.store.run_folder import RunFolder
from tests.command_line import called
from tests.order import mock_run
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


@pytest.mark.long
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


@pytest.mark.long
@pytest.mark.usefixtures("one_attempt")
async def test_a_trial_that_is_lost_so_says_why(small_state: Path, tmp_path: Path) -> None:
    records = await laboratory.study(tmp_path / "run", STUDY)
    assert {record.status for record in records} == {TrialStatus.LOST}
    assert all(f"the host's disk is full: {small_state}" in str(record.reason) for record in records)


@pytest.mark.processes
@pytest.mark.parametrize("where", [pytest.param("store", marks=pytest.mark.long), "state"])
async def test_a_run_that_finds_no_room_goes_on_once_there_is_some(where: str, home: Path, tmp_path: Path) -> None:
    """Nothing that was recorded is lost or measured again, and nothing is left of what was being measured."""
    with small_disk(home / "state" if where == "state" else tmp_path / "store", "2m") as small:
        run = small / "run" if where == "store" else tmp_path / "run"

        def fill(event: Event) -> None:
            if isinstance(event, TrialEnded):
                with contextlib.suppress(OSError), (small / "much").open("ab", buffering=0) as much:
                    while True:
                        much.write(bytes(mmap.PAGESIZE))

        with pytest.raises(OSError, match="No space left") as told:
            await mock_run.run(run, mock_run.STUDY, fill)
        assert str(told.value.filename).startswith(str(small))
        (small / "much").unlink()
        known = list(read_records(RunFolder(run).journal))
        before = [record.trial.id for record in known if record.status is TrialStatus.OK]
        assert before
        assert (await clean()).left == ()
        assert await mock_run.left_over() == []
        _, after = await mock_run.resume(run)
        counted = [record.trial.id for record in after if record.status is TrialStatus.OK]
        assert len(counted) == len(set(counted)) and counted[: len(before)] == before
        assert [record.trial.id for record in after][: len(known)] == [record.trial.id for record in known]
        assert len({(record.trial.block, str(record.trial.treatment)) for record in after}) == 4


@pytest.mark.parametrize("rest", ["some", "none"])
def test_a_journal_that_finds_no_room_names_its_file(tmp_path: Path, rest: str) -> None:
    """Of a line that has room for a part of it, that part is written; of one that has none, nothing."""
    with small_disk(tmp_path / "small", "16k") as place:
        journal = Journal(place / "journal.jsonl")
        size = mmap.PAGESIZE - len(render_line({"much": ""})) - (100 if rest == "some" else 0)
        try:
            journal.append_line({"much": "x" * size})
            with pytest.raises(OSError, match="No space left"):
                (place / "other").write_bytes(b"x" * 10**5)
            with pytest.raises(OSError, match="No space left") as told:
                journal.append_line({"much": "y" * 200})
        finally:
            journal.close()
        assert told.value.filename == str(place / "journal.jsonl")
        assert list(read_entries(place / "journal.jsonl")) == [{"much": "x" * size}]


def test_a_machine_that_cannot_be_written_down_is_refused_with_the_file_and_a_remedy(home: Path) -> None:
    with small_disk(home / "state", "16k") as state:
        with pytest.raises(OSError, match="No space left"):
            (state / "much").write_bytes(b"x" * 10**5)
        ended = called("up", "mock", "--name", "one")
        assert (ended.returncode, ended.stdout) == (3, "")
        assert ended.stderr.startswith(f"nearmetal: {state}/up")
        assert "No space left on device\n  remedy: free some space" in ended.stderr


def test_what_the_system_refuses_of_exec_has_a_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    def fill() -> int:
        return Path("/dev/full").write_bytes(b"x")

    assert own_failures_apart(fill) == 125
    assert capsys.readouterr().err == (
        "nearmetal: No space left on device\n  remedy: free some space, then give the command again\n"
    )
