"""VM exits and their reasons, as KVM counts them for a host, if its kernel does."""

from pathlib import Path

import pytest

from nearmetal.lab.local_site import LocalSite
from nearmetal.observers import usage as usage_exits
from nearmetal.observers.usage import _rates


@pytest.mark.parametrize(
    ("files", "counted"),
    [
        ({"exits": "182736455\n"}, {"exits": 182736455}),
        (
            {"exits": "70\n", "io_exits": "40\n", "irq_window_exits": "0\n", "halt_wakeup": "9\n"},
            {"exits": 70, "exits.io": 40, "exits.irq_window": 0},
        ),
        ({"exits": "", "io_exits": "no such counter\n"}, {}),
        ({}, {}),
    ],
)
async def test_exits_are_read_where_they_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, files: dict[str, str], counted: dict[str, int]
) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    monkeypatch.setattr(usage_exits, "FOLDER", str(tmp_path))
    assert await usage_exits.read_exits(LocalSite()) == counted
    monkeypatch.setattr(usage_exits, "FOLDER", str(tmp_path / "none"))
    assert await usage_exits.read_exits(LocalSite()) == {}


def test_exits_are_told_for_each_second() -> None:
    before = {"exits": 10, "exits.io": 4, "exits.halt": 5}
    assert _rates(before, {"exits": 30, "exits.io": 4, "exits.halt": 15}, 500_000_000) == {
        "exits": 40.0,
        "exits.halt": 20.0,
    }
    assert _rates(before, before, 1) == {"exits": 0.0}
    assert _rates(before, {}, 1) == _rates({}, before, 1) == {}
