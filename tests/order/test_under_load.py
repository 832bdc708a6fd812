"""A workload that is measured under another's load, on pretended machines: what runs when, and what fails it."""

import asyncio
from pathlib import Path

import pytest

from nearmetal.lab.mock import programs
from nearmetal.lab.mock.programs import Call
from nearmetal.model import Completed, TrialRecord, TrialStatus, WorkloadSpec
from nearmetal.run import background_load, plan_execution, study_execution
from nearmetal.store.journal import read_records as records_of
from nearmetal.store.run_folder import RunFolder
from nearmetal.study.resolve import build_workload, resolve_workload
from nearmetal.study.study_file import read
from nearmetal.study.user_files import FileReader

LOADED = """
name = "loaded"
[environments.base]
kind = "mock"
[factors]
environment = ["base"]
[[workloads]]
name = "web"
kind = "http"
server = "probe"
duration = "1s"
[[workloads]]
name = "sums"
kind = "sysbench"
test = "cpu"
duration = "1s"
under = "web"
[design]
seed = 1
blocks = 1
"""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_execution, "MOST_ATTEMPTS", 1)
    monkeypatch.setattr(background_load, "SETTLED", 0.1)


async def ran(folder: Path) -> dict[str, TrialRecord]:
    request = study_execution.RunRequest(
        read(LOADED, "loaded.toml"), LOADED, (), False, folder / "run", available=False, files=FileReader(folder)
    )
    await study_execution.start_run(request, lambda text: None, ())
    return {record.trial.workload: record for record in records_of(RunFolder(folder / "run").journal)}


def loads(argv: list[str]) -> bool:
    return "load" in argv and "--duration" in argv and float(argv[argv.index("--duration") + 1].rstrip("ms")) > 100


async def test_the_load_runs_from_before_the_other_begins_until_after_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    run = programs.run

    async def noted(call: Call) -> Completed:
        if loads(call.argv):
            seen.append("load begins")
            try:
                await asyncio.sleep(60)
            finally:
                seen.append("load ends")
        if "sysbench" in call.argv[0]:
            seen.append("sysbench")
        return await run(call)

    monkeypatch.setattr(programs, "run", noted)
    found = await ran(tmp_path)
    record = found["sums"]
    assert (record.status, record.reason) == (TrialStatus.OK, None)
    assert (seen[0], seen[-1]) == ("load begins", "load ends")
    assert seen.count("load begins") == 1 and "sysbench" in seen
    assert record.observers["under"] == {"workload": "web", "begun": 1}
    assert "events" in record.responses and "cpu_per_event" not in record.responses
    assert "under" not in found["web"].observers


async def test_a_load_that_fails_fails_the_trial_under_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = programs.run

    async def failing(call: Call) -> Completed:
        return Completed(status=3, stderr=b"it broke") if loads(call.argv) else await run(call)

    monkeypatch.setattr(programs, "run", failing)
    found = await ran(tmp_path)
    assert found["web"].status is TrialStatus.OK
    assert found["sums"].status is TrialStatus.FAILED
    assert "it broke" in str(found["sums"].reason)


def test_a_load_of_iperf3_goes_on_for_as_long_as_what_is_measured() -> None:
    """Its intervals are of a minute at most, whatever of them the study says."""
    load, ping = (
        resolve_workload(WorkloadSpec.model_validate(one))
        for one in (
            {"name": "stream", "kind": "iperf3", "duration": "5s"},
            {"name": "delay", "kind": "ping", "duration": "600s", "under": "stream"},
        )
    )
    assert background_load.BackgroundLoad(load, build_workload(ping)).name == "stream"
