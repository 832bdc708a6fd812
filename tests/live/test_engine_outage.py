"""An engine that goes away in the middle of a run: what it leaves is told once, and not that it was removed."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from nearmetal.console.run_progress_display import RunProgressDisplay
from nearmetal.environments import docker
from nearmetal.lab.clean import clean
from nearmetal.lab.image import Image
from nearmetal.run.events import TrialEnded
from nearmetal.store.events import Event, LeftBehind, Withdrawn
from tests.live.leftovers import stays
from tests.order import mock_run

pytestmark = pytest.mark.live

STUDY = """
name = "away"
[environments.docker]
engine = "unix://{}"
[machine]
memory = "256MiB"
[factors]
environment = ["docker"]
[clients]
environment = "docker"
[design]
blocks = 2
[[workloads]]
name = "nothing"
kind = "command"
argv = ["echo", "{{\\"seconds\\": 1}}"]
response = "seconds"
better = "lower"
json = "seconds"
"""


async def test_what_an_engine_that_went_away_leaves_is_told_once(
    engine: str, lab_image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docker, "_AWAY", 0.5)
    socket = tmp_path / "socket"
    socket.symlink_to(engine.removeprefix("unix://"))
    out = io.StringIO()
    watcher = RunProgressDisplay(Console(file=out, width=500), trials=2, blocks=2, estimate=1.0)

    def see(event: Event) -> None:
        watcher(event)
        if isinstance(event, TrialEnded):
            socket.unlink(missing_ok=True)

    events, records = await mock_run.run(tmp_path / "run", STUDY.format(socket), see)
    assert [record.boot is not None for record in records] == [True, False, False, False]
    told = [event.what for event in events if isinstance(event, LeftBehind)]
    made = {word for what in told for word in what.split() if word.startswith("nm-")}
    token = min(made).rpartition("-")[0]
    assert made == {f"{token}-1", f"{token}-2"}, "those that were made, and none that could not be"
    for name in made:
        assert sum(what.split().count(name) for what in told) == 1
    assert len(told) == 1, "for the same reason, with the same remedy"
    said = out.getvalue()
    assert said.count("left behind") == 1
    assert said.count("environment=docker: made, and not all of it removed, in ") == 1
    assert said.count("environment=docker: not made, given up after ") == 3
    assert "made and removed" not in said
    socket.symlink_to(engine.removeprefix("unix://"))
    cleaned = await clean()
    assert cleaned.left == ()
    assert stays(token) == []


async def test_an_engine_that_comes_back_costs_one_attempt(engine: str, lab_image: Image, tmp_path: Path) -> None:
    """As one does that is started anew. All of its environment's attempts would fail meanwhile, within seconds."""
    socket = tmp_path / "socket"
    socket.symlink_to(engine.removeprefix("unix://"))
    ended: list[str] = []

    def see(event: Event) -> None:
        if isinstance(event, TrialEnded):
            ended.append(str(event.record.status))
            if len(ended) == 1:
                socket.unlink()

    waited: list[str] = []

    def say(text: str) -> None:
        """It comes back as soon as it is waited for."""
        if text.startswith("still waiting"):
            waited.append(text)
            if not socket.exists():
                socket.symlink_to(engine.removeprefix("unix://"))

    events, records = await mock_run.run(tmp_path / "run", STUDY.format(socket), see, say)
    assert waited == ["still waiting for the Docker engine to answer again"]
    assert ended == ["ok", "failed", "ok"]
    assert not [event for event in events if isinstance(event, Withdrawn)]
    assert "it did again after" in str(records[1].reason)
    assert (await clean()).left == ()
