"""The ordinary machine's steps: taken once each, those that fail too, and told in a transcript."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.rig import __main__ as rig
from tests.rig import emulator, steps
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


def test_only_named_steps_are_taken_in_the_order_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[str] = []

    def step(name: str) -> Callable[[Ordinary], str]:
        def take(machine: Ordinary) -> str:
            taken.append(name)
            return name

        return take

    monkeypatch.setattr(steps, "STEPS", {name: step(name) for name in ("one", "two", "three")})
    machine = Ordinary(tmp_path, "bookworm", 2722)
    assert rig.take(machine, tmp_path, ["three", "two"], "697aeeae", only=True) == 0
    assert rig.take(machine, tmp_path, ["two"], "697aeeae", only=True) == 0
    assert taken == ["one", "three", "two", "two"]


def test_what_an_earlier_transcript_has_stays_until_it_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "STEPS", dict.fromkeys(("one", "two", "three"), lambda machine: "it was seen again"))
    machine = Ordinary(tmp_path, "bookworm", 2722)
    earlier = "Debian 12\n\n── one ──\nok, at 1\n\n── two ──\nFAILED, at 1\nit is broken\n\n── three ──\nNOT TAKEN\n"
    rig.take(machine, tmp_path, ["one"], "697aeeae", only=True)
    told = rig.make_transcript(machine, tmp_path, earlier)
    assert "it was seen again" in told and "ok, at 1" not in told
    kept = "── two ──\n(taken with an earlier wheel)\nFAILED, at 1\nit is broken\n\n── three ──\nNOT TAKEN\n"
    assert told.endswith(kept)
    assert rig.make_transcript(machine, tmp_path, told) == told


@pytest.mark.parametrize(
    ("told", "version"),
    [
        ("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)\nCopyright (c) 2003-2022", (7, 2)),
        ("QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2+deb13u1~bpo12+1)", (10, 0)),
    ],
)
def test_the_version_of_the_emulator_is_read(told: str, version: tuple[int, int]) -> None:
    assert emulator.parse_version(told) == version


def test_what_tells_no_version_is_refused() -> None:
    with pytest.raises(ValueError, match="no version"):
        emulator.parse_version("bash: command not found")
