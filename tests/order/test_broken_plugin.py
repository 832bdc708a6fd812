"""A trial in which a plugin breaks says which one it was, and keeps the trace for whoever wrote it."""

from pathlib import Path
from typing import Any

import pytest

from nearmetal import plugins
from nearmetal.environments.mock import MockMachine
from nearmetal.model import Cause, Measurement, ResolvedWorkload, Stage, TrialStatus, Workload
from nearmetal.observers.usage import UsageObserver, UsageWatch
from nearmetal.run import trial
from nearmetal.treatments.offload import Offload
from nearmetal.workloads.http import Http
from tests.order import mock_run

STUDY = mock_run.STUDY.replace('["base", "slow"]', '["base", "slow"]\noffload = [true]') + "[observe]\nusage = true\n"


@pytest.mark.parametrize(
    ("who", "owner", "method", "times"),
    [
        pytest.param("the observer 'usage'", UsageObserver, "start", 1, marks=pytest.mark.long),
        ("the observer 'usage'", UsageWatch, "stop", 1),
        pytest.param("the workload 'http'", Http, "prepare", 1, marks=pytest.mark.long),
        ("the workload 'http'", Http, "run", 1),
        pytest.param("the workload 'http'", Http, "finish", 1, marks=pytest.mark.long),
        ("the treatment 'offload'", Offload, "verify", 2),
    ],
)
async def test_it_is_named(
    who: str, owner: Any, method: str, times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A treatment is asked before a trial too, by whoever boots: it breaks when it is asked after it."""
    whole, calls = getattr(owner, method), list[object]()

    async def breaks(self: object, *words: Any) -> Any:
        found = await whole(self, *words)
        calls.append(found)
        if len(calls) % times == 0:
            raise IndexError("list index out of range")
        return found

    monkeypatch.setattr(owner, method, breaks)
    _, records = await mock_run.run(tmp_path / "run", STUDY)
    assert {record.status for record in records} == {TrialStatus.FAILED}
    for record in records:
        assert record.reason == f"{who} broke: IndexError: list index out of range"
        trace = next(kept for kept in record.artifacts if kept.path.endswith("traceback.txt"))
        text = (tmp_path / "run" / trace.path).read_text()
        assert "in breaks" in text and text.endswith("IndexError: list index out of range\n")


async def test_a_workload_that_breaks_as_it_is_built_for_a_trial_keeps_its_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(spec: ResolvedWorkload) -> Workload:
        with plugins.blame_package("workloads", spec.kind):
            raise IndexError("list index out of range")

    monkeypatch.setattr(plugins, "package_of", lambda group, name: "theirs")
    monkeypatch.setattr(trial, "build_workload", breaks)
    _, records = await mock_run.run(tmp_path / "run", STUDY)
    assert {(record.status, record.cause) for record in records} == {(TrialStatus.FAILED, Cause.BROKE)}
    why = "the workload 'http' of the package theirs broke: IndexError: list index out of range"
    assert all(str(record.reason).startswith(why) for record in records)
    trace = next(kept for kept in records[0].artifacts if kept.path.endswith("traceback.txt"))
    assert "in breaks" in (tmp_path / "run" / trace.path).read_text()


async def test_a_response_that_its_workload_does_not_promise_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing would judge it, and the one that it was meant to be would be missing."""
    whole = Http.run

    async def misspells(self: Http, stage: Stage) -> Measurement:
        found = await whole(self, stage)
        return found.model_copy(update={"responses": {"thruput": found.responses["throughput"]}})

    monkeypatch.setattr(Http, "run", misspells)
    _, records = await mock_run.run(tmp_path / "run", STUDY)
    why = "the workload 'http' broke: ValueError: it measured thruput, and its `responses` do not have that"
    assert {record.reason for record in records} == {why}


async def test_the_last_that_broke_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its error is what is told of, and the other's stands in the trace."""

    async def start(self: object, *words: Any) -> Any:
        raise IndexError("of the observer")

    async def finish(self: object, *words: Any) -> Any:
        raise KeyError("of the workload")

    monkeypatch.setattr(UsageObserver, "start", start)
    monkeypatch.setattr(Http, "finish", finish)
    _, records = await mock_run.run(tmp_path / "run", STUDY)
    assert {record.reason for record in records} == {"the workload 'http' broke: KeyError: 'of the workload'"}
    trace = next(kept for kept in records[0].artifacts if kept.path.endswith("traceback.txt"))
    assert "of the observer" in (tmp_path / "run" / trace.path).read_text()


async def test_a_machine_without_a_method_is_told_as_it_is_attached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not first in the middle of a trial that asks for it."""
    monkeypatch.delattr(MockMachine, "cost")
    _, records = await mock_run.run(tmp_path / "run", STUDY)
    assert {record.status for record in records} == {TrialStatus.FAILED}
    assert all("of what 'mock' attaches: it is no Machine: it has no cost" in str(one.reason) for one in records)
