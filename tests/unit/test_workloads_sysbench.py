"""sysbench: its options, and what is read out of what the real program printed."""

import json
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from nearmetal.errors import ToolFailed
from nearmetal.model import Completed, Measurement, Workload
from nearmetal.units import AS_WRITTEN
from nearmetal.workloads import sysbench
from nearmetal.workloads.sysbench import SLACK, Sysbench, output
from nearmetal.workloads.sysbench.parameters import SysbenchParameters
from tests.unit.workloads_stage import ScriptedMachine, ScriptedStage, golden, said

FOLDER = "/var/tmp/server0-sysbench"
CPU = golden("sysbench/cpu-1-thread.out").decode()
FILEIO = golden("sysbench/fileio-rndrw.out").decode()


def workload(**parameters: Any) -> Sysbench:
    return Sysbench(SysbenchParameters.model_validate(parameters, context=AS_WRITTEN))


def measured(file: str, **parameters: Any) -> Measurement:
    return workload(**parameters).make_measurement(said(f"sysbench/{file}.out"))


def values(measurement: Measurement) -> dict[str, float]:
    return {name: response.value for name, response in measurement.responses.items()}


# ── What it reads ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("file", "events", "rate", "latencies"),
    [
        ("cpu-1-thread", 1710, 854.24, (1.99698 / 1710, 0.00482, 0.01793)),
        ("cpu-one-event-longer-than-the-time", 1, 0.55, (1.81074, 1.80347, 1.81074)),
    ],
)
def test_cpu(file: str, events: float, rate: float, latencies: tuple[float, ...]) -> None:
    found = measured(file, test="cpu")
    assert found.events == events
    names = ("latency_mean", "latency_p95", "latency_max")
    assert values(found) == {"events": rate, **dict(zip(names, map(pytest.approx, latencies), strict=True))}
    assert found.artifacts["sysbench.txt"] == golden(f"sysbench/{file}.out")


def test_two_threads_share_the_events() -> None:
    found = values(measured("cpu-2-threads", test="cpu", threads=2))
    printed = output.parse_figures(golden("sysbench/cpu-2-threads.out").decode())
    assert found["latency_mean"] == pytest.approx(output.require_figure(printed, "Latency (ms)", "avg") / 1e3, abs=5e-6)


def test_fairness_is_jains_index_of_the_threads_events() -> None:
    """Two threads had 1152 and 1593 events, 1372.5 on average and 220.5 from it."""
    found = measured("cpu-2-threads", test="cpu", threads=2).responses["fairness"]
    assert found.value == pytest.approx((1152 + 1593) ** 2 / (2 * (1152**2 + 1593**2)))
    assert (found.unit, found.better, found.scale) == ("share", "higher", "difference")
    assert "fairness" not in workload(test="cpu", threads=1).responses


@pytest.mark.parametrize("mode", ["rndrw", "rndrd", "seqrd", "rndwr", "seqrewr", "seqwr"])
def test_fileio_in_every_mode_gives_what_the_mode_does(mode: str) -> None:
    one = workload(test="fileio", mode=mode)
    found = measured(f"fileio-{mode}", test="fileio", mode=mode)
    assert found.responses.keys() == one.responses.keys()
    assert one.primary == ("read" if mode in ("rndrw", "rndrd", "seqrd") else "written")
    printed = output.parse_figures(found.artifacts["sysbench.txt"].decode())
    for response in found.responses.keys() & {"read", "written"}:
        mebibytes = output.require_figure(printed, "Throughput", f"{response}, MiB/s")
        assert values(found)[response] / 2**20 == pytest.approx(mebibytes, abs=0.0051 + mebibytes * 1e-5)
    kinds = {"reads": "reads/s", "writes": "writes/s", "fsyncs": "fsyncs/s"}
    for response in found.responses.keys() & kinds.keys():
        assert values(found)[response] == output.require_figure(printed, "File operations", kinds[response])
    assert ("reads" in found.responses) == ("read" in found.responses)
    assert ("writes" in found.responses) == ("fsyncs" in found.responses) == ("written" in found.responses)


def test_slowest_requests_are_told_as_printed() -> None:
    found = measured("fileio-rndwr-fdatasync-2-threads", test="fileio", mode="rndwr", fsync=50, threads=2)
    assert values(found)["latency_p95"] == pytest.approx(2.07e-3)
    assert values(found)["latency_max"] == pytest.approx(19.03e-3)
    assert found.responses["latency_p95"].censored is None


def test_a_percentile_that_was_printed_as_0_is_only_known_to_be_small() -> None:
    found = measured("fileio-rndrd-direct", test="fileio", mode="rndrd").responses["latency_p95"]
    assert (found.value, found.censored) == (5e-6, "left")


def test_the_block_size_is_part_of_the_bytes() -> None:
    options = {"test": "fileio", "block_size": "4KiB", "cache": "direct", "fsync": 0, "threads": 2}
    found = measured("fileio-rndrw-4k-direct-2-threads", **options)
    printed = output.parse_figures(found.artifacts["sysbench.txt"].decode())
    assert values(found)["read"] / 2**20 == pytest.approx(
        output.require_figure(printed, "Throughput", "read, MiB/s"), abs=0.006
    )


def test_a_latency_too_small_for_sysbenchs_two_decimals_is_still_told() -> None:
    found = values(measured("fileio-rndrd-direct", test="fileio", mode="rndrd"))
    assert found["latency_mean"] == pytest.approx(0.93010 / 322924)


def test_every_figure_is_kept() -> None:
    kept = json.loads(measured("fileio-rndrw", test="fileio").artifacts["sysbench.json"])
    assert {
        section: len(labels) for section, labels in kept.items() if section != "Running the test with following options"
    } == {
        "File operations": 3,
        "Throughput": 2,
        "General statistics": 2,
        "Latency (ms)": 5,
        "Threads fairness": 2,
    }
    assert kept["General statistics"]["total time"] == [1.3674]
    assert kept["Threads fairness"]["events (avg/stddev)"] == [5232.0, 0.0]


@pytest.mark.parametrize(
    ("file", "given", "fsyncs"),
    [
        ("fileio-rndwr-fsync-all", {"fsync_all": True}, 277.62),
        ("fileio-rndwr-fdatasync-2-threads", {"fsync": 50, "fsync_end": False, "fsync_mode": "fdatasync"}, 491.81),
        ("fileio-rndwr-no-fsync", {"fsync": 0, "fsync_end": False}, None),
    ],
)
def test_fsyncs_are_counted_where_the_run_has_them(file: str, given: dict[str, Any], fsyncs: float | None) -> None:
    found = values(measured(file, test="fileio", mode="rndwr", **given))
    assert found.get("fsyncs") == fsyncs
    assert (found["writes"] == fsyncs) == ("fsync_all" in given)


# ── What it does not read ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("file", ["fileio-no-files", "fileio-bigger-than-prepared", "unknown-test", "fileio-prepare"])
def test_output_without_figures_is_a_tool_that_failed(file: str) -> None:
    for test in ("cpu", "fileio"):
        with pytest.raises(ToolFailed, match="no figure"):
            measured(file, test=test)


def test_output_of_another_test_is_a_tool_that_failed() -> None:
    with pytest.raises(ToolFailed, match="'events per second'"):
        measured("fileio-rndrw", test="cpu")
    with pytest.raises(ToolFailed, match="'reads/s'"):
        measured("cpu-1-thread", test="fileio")


@given(st.integers(0, len(CPU.splitlines()) - 1))
def test_a_line_that_is_missing_is_noticed_or_was_not_needed(index: int) -> None:
    lines = CPU.splitlines()
    without = "\n".join(lines[:index] + lines[index + 1 :])
    try:
        found = workload(test="cpu").make_measurement(Completed(status=0, stdout=without.encode()))
    except ToolFailed:
        return
    assert values(found) == values(measured("cpu-1-thread", test="cpu"))


@given(st.integers(0, len(FILEIO)), st.sampled_from(["cpu", "fileio"]))
def test_output_that_was_cut_off_never_reads_as_zero(length: int, test: str) -> None:
    try:
        found = workload(test=test).make_measurement(Completed(status=0, stdout=FILEIO[:length].encode()))
    except ToolFailed:
        return
    assert all(value > 0 for value in values(found).values())
    assert found.events > 0


@given(st.text(alphabet=st.sampled_from("0123456789.-/: \nsnaeinf()%"), max_size=30), st.sampled_from([CPU, FILEIO]))
def test_rubbish_in_the_place_of_a_number_never_reads_as_zero(rubbish: str, text: str) -> None:
    for number in ("854.24", "1710", "1996.98", "1008.52", "5232", "997.04"):
        damaged = text.replace(f" {number}\n", f" {rubbish}\n")
        for test in ("cpu", "fileio"):
            try:
                found = workload(test=test).make_measurement(Completed(status=0, stdout=damaged.encode()))
            except ToolFailed:
                continue
            assert all(value > 0 for value in values(found).values())


@given(st.binary(max_size=300))
def test_anything_at_all_is_read_or_refused(text: bytes) -> None:
    for test in ("cpu", "fileio"):
        with pytest.raises(ToolFailed):
            workload(test=test).make_measurement(Completed(status=0, stdout=text))


# ── What it runs ──────────────────────────────────────────────────────────────────────────────────────────────────


def server(run: Completed, other: Completed | None = None) -> ScriptedMachine:
    def answer(argv: list[str]) -> Completed:
        return run if argv[-1] == "run" else other or Completed(status=0)

    return ScriptedMachine("server0", "10.0.0.1", answer)


async def life(one: Workload, machine: ScriptedMachine) -> tuple[Measurement, ScriptedStage]:
    stage = ScriptedStage([machine], [])
    try:
        await one.prepare(stage)
        return await one.run(stage), stage
    finally:
        await one.finish(stage)


async def test_cpu_runs_one_command() -> None:
    machine = server(said("sysbench/cpu-2-threads.out"))
    _, stage = await life(workload(test="cpu", threads=2, duration="3s"), machine)
    assert machine.ran == [["sysbench", "cpu", "--cpu-max-prime=20000", "--threads=2", "--time=3", "run"]]
    assert stage.limits == [3.0 + SLACK]


async def test_a_number_of_events_takes_as_long_as_it_takes() -> None:
    machine = server(said("sysbench/cpu-1-thread.out"))
    one = workload(test="cpu", events=1710)
    found, stage = await life(one, machine)
    options = ["--cpu-max-prime=20000", "--threads=1", "--events=1710", "--time=0"]
    assert machine.ran == [["sysbench", "cpu", *options, "run"]]
    assert stage.limits == [1710 / 20 + SLACK]
    assert one.duration == pytest.approx(1.71)
    assert workload(test="cpu", events=1710, max_prime=80_000).duration == pytest.approx(8 * 1.71)
    assert (found.responses["elapsed"].value, found.responses["elapsed"].better) == (2.0008, "lower")
    assert found.responses.keys() == one.responses.keys()
    assert "elapsed" not in workload(test="cpu").responses


async def test_fileio_always_makes_its_folder_prepares_runs_and_cleans() -> None:
    machine = server(said("sysbench/fileio-rndrw.out"))
    one = workload(test="fileio", total_size="64MiB", duration="1s", cache="direct", fsync=0)
    await life(one, machine)
    remove = ["rm", "-rf", FOLDER]
    assert (machine.ran[:2], machine.ran[-1]) == ([remove, ["mkdir", "-m", "700", FOLDER]], remove)
    assert [argv[-1] for argv in machine.ran[2:-1]] == ["prepare", "run"]
    for argv in machine.ran[2:-1]:
        assert argv[:4] == ["env", f"--chdir={FOLDER}", "sysbench", "fileio"]
        assert {"--file-total-size=67108864", "--file-num=128", "--file-block-size=16384"} < set(argv)
        assert {"--file-test-mode=rndrw", "--file-fsync-freq=0", "--file-extra-flags=direct", "--time=1"} < set(argv)


@pytest.mark.parametrize(
    ("parameters", "options"),
    [
        ({}, ("freq=100", "all=off", "end=on", "mode=fsync")),
        ({"fsync": 0, "fsync_end": False}, ("freq=0", "all=off", "end=off", "mode=fsync")),
        ({"fsync_all": True, "fsync_mode": "fdatasync"}, ("freq=100", "all=on", "end=on", "mode=fdatasync")),
        ({"fsync": 0, "fsync_mode": "fdatasync"}, ("freq=0", "all=off", "end=on", "mode=fdatasync")),
    ],
)
async def test_when_and_how_files_are_synced_is_said_to_sysbench(
    parameters: dict[str, Any], options: tuple[str, ...]
) -> None:
    machine = server(said("sysbench/fileio-rndrw.out"))
    await life(workload(test="fileio", **parameters), machine)
    (ran,) = [argv for argv in machine.ran if argv[-1] == "run"]
    assert tuple(word.removeprefix("--file-fsync-") for word in ran if "-fsync-" in word) == options


async def test_a_full_disk_is_told_and_cleaned_up() -> None:
    full = Completed(status=1, stdout=golden("sysbench/fileio-disk-full.out"))

    def answer(argv: list[str]) -> Completed:
        return full if argv[-1] == "prepare" else Completed(status=0)

    machine = ScriptedMachine("server0", "10.0.0.1", answer)
    with pytest.raises(ToolFailed, match=r"(?s)server0: its disk is full: 2 GiB .*`total_size`"):
        await life(workload(test="fileio"), machine)
    assert machine.ran[-1] == ["rm", "-rf", FOLDER]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In the place of the usual one, for commands that are really run."""
    monkeypatch.setattr(sysbench, "file_folder", lambda _: str(tmp_path / "files"))
    return tmp_path / "files"


def really(argv: list[str]) -> Completed:
    if argv[0] == "env":
        return Completed(status=0)
    ended = subprocess.run(argv, capture_output=True, check=False)
    return Completed(status=ended.returncode, stdout=ended.stdout, stderr=ended.stderr)


@pytest.mark.parametrize("is_a_link", [False, True])
async def test_a_folder_that_somebody_else_made_is_not_written_to(is_a_link: bool, folder: Path) -> None:
    """Of a machine of the user's own: its links would lead root anywhere."""
    theirs = folder.with_name("theirs") if is_a_link else folder
    theirs.mkdir(mode=0o777)
    (theirs / "test_file.0").symlink_to("/dev/null")
    if is_a_link:
        folder.symlink_to(theirs)
    await workload(test="fileio").prepare(ScriptedStage([ScriptedMachine("server0", "10.0.0.1", really)], []))
    assert not folder.is_symlink() and not list(folder.iterdir())
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


async def test_a_folder_that_comes_in_between_is_refused(folder: Path) -> None:
    def slower(argv: list[str]) -> Completed:
        if argv[0] == "mkdir":
            folder.mkdir()
        return really(argv)

    machine = ScriptedMachine("server0", "10.0.0.1", slower)
    with pytest.raises(ToolFailed, match=r"mkdir .*File exists"):
        await workload(test="fileio").prepare(ScriptedStage([machine], []))
    assert machine.ran[-1][0] == "mkdir"


async def test_finish_takes_a_lost_machine_as_it_is() -> None:
    machine = server(Completed(status=0))
    machine.lost = True
    await workload(test="fileio").finish(ScriptedStage([machine], []))


async def test_a_run_that_fails_is_told_with_sysbenchs_words() -> None:
    with pytest.raises(ToolFailed, match=r"(?s)sysbench ended with status 1.*invalid option: --prime=5"):
        await life(workload(test="cpu"), server(Completed(status=1, stderr=golden("sysbench/unknown-option.err"))))


# ── What a study file may say ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "Field required"),
        ({"test": "memory"}, "'cpu' or 'fileio'"),
        ({"test": "cpu", "duration": "1.5s"}, 'whole seconds; write "2s"'),
        ({"test": "cpu", "mode": "rndrw"}, '`mode` needs test = "fileio"'),
        ({"test": "fileio", "max_prime": 100}, '`max_prime` needs test = "cpu"'),
        ({"test": "fileio", "events": 100}, '`events` needs test = "cpu"'),
        ({"test": "cpu", "events": 100, "duration": "2s"}, "`duration` and `events` exclude each other"),
        ({"test": "fileio", "total_size": "1MiB", "block_size": "16KiB"}, "smaller than a block"),
        ({"test": "fileio", "total_size": 4}, "has no unit"),
        ({"test": "fileio", "fsync": True}, "valid integer"),
        ({"test": "cpu", "threads": 0}, "greater than or equal to 1"),
        ({"test": "cpu", "max_prime": 2}, "greater than or equal to 3"),
        ({"test": "cpu", "seconds": 2}, "Extra inputs"),
        ({"test": "cpu", "fsync_all": True}, '`fsync_all` needs test = "fileio"'),
        ({"test": "fileio", "fsync_all": True, "fsync": 10}, "`fsync` means nothing with `fsync_all`"),
        ({"test": "fileio", "fsync_all": True, "fsync_end": False}, "`fsync_end` means nothing with `fsync_all`"),
        ({"test": "fileio", "mode": "rndrd", "fsync_all": True}, '`fsync_all` means nothing with mode = "rndrd"'),
        ({"test": "fileio", "mode": "seqrd", "fsync_mode": "fdatasync"}, "`fsync_mode` means nothing with mode"),
        (
            {"test": "fileio", "fsync": 0, "fsync_end": False, "fsync_mode": "fdatasync"},
            "`fsync_mode` means nothing where nothing is synced",
        ),
        ({"test": "fileio", "fsync_mode": "sync"}, "'fsync' or 'fdatasync'"),
        ({"test": "fileio", "fsync_end": "off"}, "valid boolean"),
    ],
)
def test_bad_parameters_are_refused_with_what_would_be_right(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        workload(**given)
    assert message in caught.value.errors()[0]["msg"]
