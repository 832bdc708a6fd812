"""kill -9 of the controller at every step: no finished trial is lost or run twice, and nothing stays behind."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from nearmetal.lab.mock.world import World
from nearmetal.model import TrialStatus
from nearmetal.store.events import Event
from nearmetal.store.journal import read_records
from nearmetal.store.run_folder import RunFolder
from tests import fork_server
from tests.order import mock_run

fork_server.preload(__name__)


def controller(home: str, folder: Path, text: str, step: int) -> None:
    """A run that kills its own process at its n-th event."""
    os.environ["NEARMETAL_HOME"] = home
    left = step

    def kill(event: Event) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    asyncio.run(mock_run.run(folder, text, kill))


async def count_events(folder: Path, text: str) -> int:
    events: list[Event] = (await mock_run.run(folder, text))[0]
    return len(events)


BORROWED = """
name = "borrowed"
[environments.metal]
kind = "mock"
borrowed = true
address = "lab3"
provision = "reuse"
[factors]
environment = ["metal"]
isolation = ["none", "kernel"]
[machine]
vcpus = 2
[clients]
environment = "mock"
[[workloads]]
name = "web"
kind = "http"
duration = "1s"
[design]
blocks = 1
"""
"""A machine that is not ours, isolated by a reboot: what is changed there must be put back, whatever happens."""


def run_and_kill(folder: Path, text: str, step: int) -> None:
    killed = fork_server.FORKING.Process(target=controller, args=(os.environ["NEARMETAL_HOME"], folder, text, step))
    killed.start()
    killed.join(60)
    assert killed.exitcode == -signal.SIGKILL


STUDIES = pytest.mark.parametrize("text", [mock_run.STUDY, BORROWED], ids=["made", "borrowed"])


@STUDIES
async def test_killed_at_four_steps(tmp_path: Path, text: str) -> None:
    await killed_at_each(4, tmp_path, text)


@pytest.mark.long
@STUDIES
async def test_killed_at_every_step(tmp_path: Path, text: str) -> None:
    await killed_at_each(None, tmp_path, text)


async def killed_at_each(steps: int | None, tmp_path: Path, text: str) -> None:
    """At so many events spread over a run; None for all of them."""
    total = await count_events(tmp_path / "whole", text)
    for step in range(2, total, max(1, total // steps) if steps else 1):
        folder = tmp_path / f"killed-{step}"
        run_and_kill(folder, text, step)
        finished = {record.trial.id: record for record in read_records(RunFolder(folder).journal)}
        cleaned = await mock_run.cleaned()
        assert cleaned.left == ()
        assert await mock_run.left_over() == [], f"killed at event {step}"
        borrowed = World("local").read("lab3")
        assert borrowed is None or (borrowed["running_arguments"] == [] and borrowed["files"] == {})
        _, after = await mock_run.resume(folder)
        assert len({record.trial.id for record in after}) == len(after), "a trial was run twice"
        assert all(record.status is TrialStatus.OK for record in after)
        assert {record.trial.id: record for record in after if record.trial.id in finished} == finished
        planned = RunFolder(folder).read_manifest().plan
        assert len(after) == planned.trials
