"""The ordinary machine's steps: taken once each, those that fail too, and told in a transcript."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.rig import __main__ as rig
from tests.rig import steps
from tests.rig.ordinary import Ordinary, StepFailed


def test_steps_go_on_where_they_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Ordinary(tmp_path, "bookworm", 2722)
    taken: list[str] = []
    broken = {"two"}

    def step(name: str) -> Callable[[Ordinary], str]:
        def take(machine: Ordinary) -> str:
            taken.append(name)
            if name in broken:
                raise StepFailed("it is broken")
            return f"{name} was seen"

        return take

    monkeypatch.setattr(steps, "STEPS", {name: step(name) for name in ("one", "two", "three")})
    broken.add("one")
    assert rig.take(machine, tmp_path, [], "697aeeae") == 1
    assert taken == ["one"]  # what all others rest on
    told = rig.make_transcript(machine, tmp_path)
    assert "it is broken" in told and "── three ──\nNOT TAKEN" in told
    broken.remove("one")
    taken.clear()
    assert rig.take(machine, tmp_path, [], "697aeeae") == 1
    assert taken == ["one", "two", "three"]
    told = rig.make_transcript(machine, tmp_path)
    assert "one was seen" in told and "it is broken" in told and "three was seen" in told
    broken.clear()
    taken.clear()
    assert rig.take(machine, tmp_path, [], "697aeeae") == 0
    assert taken == ["two"]
    assert rig.take(machine, tmp_path, ["three"], "697aeeae") == 0
    assert taken == ["two", "three"]
    told = rig.make_transcript(machine, tmp_path)
    assert "two was seen" in told and "broken" not in told and told.count("NOT TAKEN") == 1  # nothing was sent
