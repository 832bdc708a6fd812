"""The processes that draw: each picture as drawn here, in the order that was asked for, and an end where one fails."""

import os
import signal
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from nearmetal.errors import ToolFailed
from nearmetal.report import drawing
from nearmetal.report.drawing import Drawers, Picture, Spec, collect_drawn, draw_picture, draw_svg


def spec(values: int) -> Spec:
    return {"mark": "point", "data": {"values": [{"a": value} for value in range(values)]}, "encoding": X}


X = {"x": {"field": "a", "type": "quantitative"}}


@pytest.fixture(scope="module")
def shared_drawers() -> Iterator[Drawers]:
    """To start the engine takes half a second of a CPU."""
    with Drawers() as found:
        yield found


@pytest.fixture
def drawers() -> Iterator[Drawers]:
    with Drawers() as found:
        yield found


def processes() -> set[int]:
    """Children of this one, whatever else they do."""
    return set(map(int, Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()))


def test_pictures_come_in_the_order_that_was_asked_for_whoever_drew_them(shared_drawers: Drawers) -> None:
    """The first takes longer than the three after it."""
    specs = [spec(5000), spec(1), spec(2), spec(3)]
    begun = [
        shared_drawers.begin_drawing(spec, png) for spec, png in zip(specs, [True, False, True, False], strict=True)
    ]
    assert collect_drawn(begun) == [
        draw_picture(specs[0]),
        Picture(draw_svg(specs[1])),
        draw_picture(specs[2]),
        Picture(draw_svg(specs[3])),
    ]


def test_what_is_begun_waits_for_nothing_and_needs_no_thread(shared_drawers: Drawers) -> None:
    """Far more than a pipe holds is on its way both ways before anybody looks, and this process may fork."""
    threads = threading.active_count()
    begun = [shared_drawers.begin_drawing(spec(3000), False) for _ in range(3)]
    assert threading.active_count() == threads
    assert collect_drawn(begun) == [Picture(draw_svg(spec(3000)))] * 3


def test_a_process_that_is_killed_ends_in_an_error_and_not_in_waiting() -> None:
    before = processes()
    with Drawers() as drawers:
        for process in processes() - before:
            os.kill(process, signal.SIGKILL)
        with pytest.raises(ToolFailed, match=r"the charts could not be drawn: it ended with -9"):
            collect_drawn([drawers.begin_drawing(spec(1), False)])
    assert processes() == before


def test_no_folder_is_needed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with Drawers() as drawers:
        assert collect_drawn([drawers.begin_drawing(spec(1), False)]) == [Picture(draw_svg(spec(1)))]


@pytest.mark.parametrize("character", ["\x01", "\x1b", "\x85", "\ufffe", "\ud800"])
def test_characters_that_no_picture_can_hold_are_replaced(character: str, shared_drawers: Drawers) -> None:
    """The engine ends its process where it meets some of them."""
    titled = {**spec(1), "title": f"a{character}b"}
    (picture,) = collect_drawn([shared_drawers.begin_drawing(titled, True)])
    assert isinstance(picture, Picture) and picture.png
    assert "a\N{REPLACEMENT CHARACTER}b" in picture.svg


def test_pictures_that_take_too_long_end_in_an_error(drawers: Drawers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "_PATIENCE", 0.001)
    with pytest.raises(ToolFailed, match="not drawn within"):
        collect_drawn([drawers.begin_drawing(spec(1), False)])


def test_what_was_begun_and_is_not_wanted_any_more_is_not_waited_for() -> None:
    before = processes()
    with Drawers() as drawers:
        for _ in range(50):
            drawers.begin_drawing(spec(5000), True)
    assert processes() == before


def test_a_picture_of_many_rows_has_no_png_and_one_of_few_has(shared_drawers: Drawers) -> None:
    def of_height(height: int) -> Spec:
        rows = [{"y": 1}]
        return {"width": 400, "height": height, "data": {"values": rows}, "mark": "point", "encoding": {}}

    few, many = collect_drawn([shared_drawers.begin_drawing(of_height(height), True) for height in (300, 2500)])
    assert isinstance(few, Picture) and isinstance(many, Picture)
    assert few.png and not many.png
    assert few.svg.startswith("<svg") and many.svg.startswith("<svg")
