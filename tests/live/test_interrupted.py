"""Ctrl-C, a full disk and a second run at once: one clear message, nothing lost, nothing left behind."""

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from nearmetal.store.journal import read_records
from nearmetal.store.run_folder import RunFolder
from tests import one_picture
from tests.order import mock_run
from tests.small_disk import small_disk
from tests.waiting import until

PATIENCE = 240.0
"""Seconds for a run to tidy up and write its report, which takes some four on a free host: others may use it too."""

LONG = mock_run.STUDY.replace("blocks = 2", "blocks = 200")


@asynccontextmanager
async def started(
    *arguments: str, before: Sequence[str] = (), **environment: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    """It is over when this is left, whatever was found of it. A run's report has one picture for all."""
    # What a command does while it is imported is asked of the real one.
    command = one_picture.COMMAND if arguments[0] == "run" else (sys.executable, "-m", "nearmetal")
    process = await asyncio.create_subprocess_exec(
        *(*before, *command, *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "COLUMNS": "200", **environment},
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def ended(process: asyncio.subprocess.Process) -> tuple[int, str, str]:
    stdout, stderr = await asyncio.wait_for(process.communicate(), PATIENCE)
    return process.returncode or 0, stdout.decode(), stderr.decode()


async def ran(*arguments: str, **environment: str) -> tuple[int, str, str]:
    """To its end, without anybody's doing."""
    async with started(*arguments, **environment) as process:
        return await ended(process)


async def until_trials(folder: Path, count: int) -> None:
    """Wait until a run has that many finished trials."""
    journal = RunFolder(folder).journal
    for _ in range(600):
        if sum(1 for _ in read_records(journal)) >= count:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"the run has not come to {count} trials")


@pytest.fixture
def study(tmp_path: Path) -> Path:
    file = tmp_path / "study.toml"
    file.write_text(LONG)
    return file


SIGNALS = [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)]


@pytest.mark.parametrize("number", SIGNALS)
async def test_once_interrupted_it_tidies_up_and_says_how_to_go_on(
    study: Path, tmp_path: Path, number: signal.Signals
) -> None:
    folder = tmp_path / "run"
    async with started("run", str(study), "-o", str(folder), "--json") as process:
        await until_trials(folder, 3)
        process.send_signal(number)
        status, stdout, stderr = await ended(process)
    assert status == 4
    assert stderr.count("stopping: ") == 1
    assert f"nearmetal resume {folder}" in stderr
    assert "Traceback" not in stderr
    summary = json.loads(stdout.splitlines()[-1])
    finished = list(read_records(RunFolder(folder).journal))
    assert summary["trials"]["ok"] == len(finished) >= 3
    assert await mock_run.left_over() == []


SLOW = """
import asyncio, pathlib
from nearmetal.environments import mock

class Slow(mock.Mock):
    kind = "theirs"

    async def destroy(self, handle, site):
        while pathlib.Path({slow!r}).exists():
            pathlib.Path({begun!r}).touch()
            await asyncio.sleep(0.1)
        await super().destroy(handle, site)

plugin = Slow()
"""


def of_others(folder: Path, group: str, plugin: str) -> str:
    """A PYTHONPATH with somebody else's plugin, `theirs`, of which this is the module."""
    described = folder / "theirs-1.dist-info"
    described.mkdir(parents=True)
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1\n")
    (described / "entry_points.txt").write_text(f"[nearmetal.{group}]\ntheirs = theirs:plugin\n")
    (folder / "theirs.py").write_text(plugin)
    return f"{folder}:{':'.join(sys.path)}"


@pytest.mark.parametrize("first", SIGNALS)
async def test_interrupted_once_more_it_leaves_at_once_and_clean_puts_the_rest_right(
    tmp_path: Path, first: signal.Signals
) -> None:
    """While a machine takes forever to be removed, so that it is known what is going on."""
    slow, begun, folder, study = (tmp_path / name for name in ("slow", "begun", "run", "study.toml"))
    path = of_others(tmp_path / "theirs", "environments", SLOW.format(slow=str(slow), begun=str(begun)))
    study.write_text(LONG.replace('"mock"', '"theirs"'))
    async with started("run", str(study), "-o", str(folder), "--json", PYTHONPATH=path) as running:
        await until_trials(folder, 3)
        slow.touch()
        await until(begun.exists)
        running.send_signal(first)
        assert running.stderr and running.stdout
        said = (await asyncio.wait_for(running.stderr.readuntil(b"leaves at once\n"), PATIENCE)).decode()
        assert "stopping: what was made or changed is put right first" in said
        running.send_signal(signal.SIGTERM)  # as a terminal's and its shell's, which are one
        for _ in range(2):  # the first may have been on its way before it was told
            begun.unlink()
            await until(begun.exists)
        assert running.returncode is None
        running.send_signal(signal.SIGINT)
        status, stdout, stderr = await ended(running)
    assert (status, stdout) == (4, "")
    assert [line for line in stderr.splitlines() if line] == [
        f"interrupted; go on with: nearmetal resume {folder}",
        "nearmetal: left at once; what is not put right yet: nearmetal clean",
    ]
    assert await mock_run.left_over() != []
    finished = len(list(read_records(RunFolder(folder).journal)))
    slow.unlink()
    # Or the block's own process, which goes on with it: that is waited for.
    status, stdout, _ = await ran("clean", "--json", PYTHONPATH=path)
    assert status == 0 and json.loads(stdout)["left"] == []
    assert await mock_run.left_over() == []
    status, _, stderr = await ran("show", str(folder), PYTHONPATH=path)
    assert (status, stderr) == (0, "")
    assert len(list(read_records(RunFolder(folder).journal))) == finished >= 3


AT_ITS_START = {
    "importing the command line": ("click.py", "begin()"),
    "importing what a command needs": ("pydantic.py", "class Slow:\n    x = Described()"),
    "ending": ("sitecustomize.py", "import atexit\natexit.register(begin)"),
}
"""Modules that Python finds before those of that name."""
BEGIN = """
import pathlib, time

def begin():
    pathlib.Path({begun!r}).touch()
    time.sleep(600)

class Described:
    def __set_name__(self, owner, name):  # where Python makes an error of its own of whatever is raised
        begin()
"""


@pytest.mark.parametrize("moment", AT_ITS_START)
async def test_an_interruption_before_or_after_all_is_no_traceback(tmp_path: Path, moment: str) -> None:
    name, content = AT_ITS_START[moment]
    begun, module = tmp_path / "begun", tmp_path / "path" / name
    module.parent.mkdir()
    module.write_text(f"{BEGIN.format(begun=str(begun))}\n{content}\n")
    async with started("studies", PYTHONPATH=f"{module.parent}:{':'.join(sys.path)}") as process:
        await until(begun.exists)
        process.send_signal(signal.SIGINT)
        status, _, stderr = await ended(process)
    assert (status, stderr) == (4, "nearmetal: interrupted\n")


async def test_one_that_nohup_started_runs_on_when_its_terminal_is_closed(study: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    async with started("run", str(study), "--blocks", "3", "-o", str(folder), before=("nohup",)) as process:
        await until_trials(folder, 1)
        process.send_signal(signal.SIGHUP)
        status, _, _ = await ended(process)
    assert status == 0
    assert len(list(read_records(RunFolder(folder).journal))) == 6


async def test_a_second_run_at_once_is_none_of_the_first_ones_if_both_pretend(study: Path, tmp_path: Path) -> None:
    async with started("run", str(study), "-o", str(tmp_path / "one")) as first:
        await until_trials(tmp_path / "one", 1)
        assert (await ran("run", str(study), "--blocks", "2", "-o", str(tmp_path / "two")))[0] == 0
        status, _, stderr = await ran("resume", str(tmp_path / "one"))
        assert status == 3 and "this run is measured by another process" in stderr
        first.send_signal(signal.SIGINT)
        assert (await ended(first))[0] == 4


async def test_who_does_not_wait_for_the_report_is_told_that_all_is_recorded(study: Path, tmp_path: Path) -> None:
    """Interrupted while a chapter takes its time, which is somebody else's: so it is known what is going on."""
    begun, folder = tmp_path / "begun", tmp_path / "run"
    slow = f"import pathlib, time\npathlib.Path({str(begun)!r}).touch()\ntime.sleep(60)\n"
    path = of_others(tmp_path / "theirs", "sections", slow)
    async with started("run", str(study), "--blocks", "2", "-o", str(folder), PYTHONPATH=path) as running:
        await until(begun.exists)
        running.send_signal(signal.SIGINT)
        status, _, stderr = await ended(running)
    assert status == 4, stderr
    assert f"all trials are recorded; write the report by: nearmetal report {folder}" in stderr
    assert "resume" not in stderr and "Traceback" not in stderr


@pytest.fixture
def full_soon(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for a manifest and some records."""
    with small_disk(tmp_path / "small", "200k") as place:
        yield place


@pytest.mark.live
async def test_a_home_without_room_is_named_and_nothing_is_said_of_a_run(study: Path, tmp_path: Path) -> None:
    with small_disk(tmp_path / "full", "8k") as place:
        with suppress(OSError), (place / "all").open("wb") as all_of_it:
            all_of_it.write(bytes(100_000))
        for words in (("run", str(study), "-o", str(tmp_path / "out")), ("up", "mock")):
            status, _, stderr = await ran(*words, NEARMETAL_HOME=str(place))
            assert status == 3
            assert stderr.startswith(f"nearmetal: {place}/"), stderr
            assert "No space left on device\n  remedy: free some space, then give the command again" in stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.live
async def test_a_run_without_room_for_its_manifest_leaves_no_folder(study: Path, tmp_path: Path) -> None:
    with small_disk(tmp_path / "full", "8k") as place:
        (place / "theirs").mkdir()
        for folder in (place / "new" / "run", place / "theirs"):
            status, _, stderr = await ran("run", str(study), "-o", str(folder))
            assert status == 3
            assert stderr.startswith(f"nearmetal: {folder}/manifest.json: No space left on device\n  remedy: "), stderr
        assert list(place.iterdir()) == [place / "theirs"]
        assert list((place / "theirs").iterdir()) == []


@pytest.mark.live
async def test_a_full_disk_ends_the_run_with_what_is_recorded_safe(study: Path, full_soon: Path) -> None:
    folder = full_soon / "run"
    status, _, stderr = await ran("run", str(study), "-o", str(folder))
    assert status == 3
    assert re.search(rf"^nearmetal: {folder}/\S+: No space left on device$", stderr, re.MULTILINE)
    assert "nearmetal resume" in stderr
    assert "Traceback" not in stderr
    assert len(list(read_records(RunFolder(folder).journal))) > 0
    await mock_run.cleaned()
    assert await mock_run.left_over() == []
