"""A study that observes usage: what its records and its folder have of it, on pretended machines."""

import json
from pathlib import Path

import pytest

from nearmetal.errors import ToolFailed
from nearmetal.model import Observation, Stage
from nearmetal.observers.capture import CaptureWatch
from nearmetal.observers.usage import UsageObserver, UsageWatch
from tests.order import mock_run

STUDY = mock_run.STUDY.replace("[design]", "[observe]\nusage = true\n[design]")


async def test_a_trial_keeps_the_samples_and_their_averages(tmp_path: Path) -> None:
    _, records = await mock_run.run(tmp_path / "run", STUDY)
    assert len(records) == 4
    for record in records:
        assert record.status == "ok", record.reason
        assert record.observers["usage"].keys() == {"host", "server-0", "client-0"}
        server, host = (record.observers["usage"][name] for name in ("server-0", "host"))
        assert (server["cpu.all.usr"], server["cpu.0.idle"], server["interval"]) == (40, 50, 1)
        assert sum(value for name, value in host.items() if name.startswith("cpu.all.")) == pytest.approx(100, abs=0.1)
        assert "problem" not in server and "problem" not in host
        kept = {Path(artifact.path).name: artifact.path for artifact in record.artifacts}
        for name in ("usage-server-0.jsonl", "usage-host.jsonl"):
            lines = (tmp_path / "run" / kept[name]).read_text().splitlines()
            schemas = [json.loads(line)["schema"] for line in lines]
            assert (schemas[0], schemas[-1]) == ("sample.header.v1", "sample.end.v1")
            assert set(schemas[1:-1]) == {"sample.v1"}


async def test_usage_can_be_a_factor(tmp_path: Path) -> None:
    text = mock_run.STUDY.replace('["base", "slow"]', '["base", "slow"]\nusage = [false, true]')
    _, records = await mock_run.run(tmp_path / "run", text)
    assert all(("usage" in record.observers) == record.trial.treatment["usage"] for record in records)


async def test_what_was_started_is_stopped_when_another_observer_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def start(self: UsageObserver, stage: Stage) -> UsageWatch:
        raise ToolFailed("no sampler today", "here")

    stopped: list[CaptureWatch] = []

    async def stop(self: CaptureWatch) -> Observation:
        stopped.append(self)
        return Observation()

    monkeypatch.setattr(UsageObserver, "start", start)
    monkeypatch.setattr(CaptureWatch, "stop", stop)
    _, records = await mock_run.run(tmp_path / "run", STUDY.replace("usage = true", "usage = true\ncapture = true"))
    assert {(record.status, record.reason) for record in records} == {("failed", "here: no sampler today")}
    assert len(stopped) == len(records)


async def test_each_observer_is_stopped_though_another_cannot_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped: list[CaptureWatch] = []

    async def fail(self: UsageWatch) -> Observation:
        raise ToolFailed("its samples are gone", "here")

    async def stop(self: CaptureWatch) -> Observation:
        stopped.append(self)
        return Observation(counters={"packets": 3})

    monkeypatch.setattr(UsageWatch, "stop", fail)
    monkeypatch.setattr(CaptureWatch, "stop", stop)
    _, records = await mock_run.run(tmp_path / "run", STUDY.replace("usage = true", "usage = true\ncapture = true"))
    assert {(record.status, record.reason) for record in records} == {("failed", "here: its samples are gone")}
    assert len(stopped) == len(records)
    assert all(record.observers["capture"] == {"packets": 3} for record in records)
