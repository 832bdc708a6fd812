"""Tables of commands, in terminals of any width: every word of a heading and of a cell is there."""

import re

import pytest
from rich.console import Console

from nearmetal.console.tables import TextColumn, fit_records, fit_table

COLUMNS = (TextColumn("image"), TextColumn("digest"), TextColumn(""), TextColumn("size", is_of_numbers=True))
ROWS = (("lab", "c7ce62bc4dca", "current", "890 MiB"), ("later-kernel", "8ef1c1bc4dca", "old", "13.4 MiB"))


def printed(columns: tuple[TextColumn, ...], rows: tuple[tuple[str, ...], ...], width: int) -> list[str]:
    console = Console(width=width, color_system=None, markup=False)
    with console.capture() as capture:
        console.print(fit_table(columns, rows, width))
    return [line.rstrip() for line in capture.get().splitlines()]


def test_a_row_is_a_line_where_that_fits() -> None:
    assert printed(COLUMNS, ROWS, 46) == [
        "image         digest                     size",
        "lab           c7ce62bc4dca  current   890 MiB",
        "later-kernel  8ef1c1bc4dca  old      13.4 MiB",
    ]


def test_its_name_stands_above_the_rest_where_it_does_not() -> None:
    assert printed(COLUMNS, ROWS, 40) == [
        "  digest                     size",
        "lab",
        "  c7ce62bc4dca  current   890 MiB",
        "later-kernel",
        "  8ef1c1bc4dca  old      13.4 MiB",
    ]


def test_everything_has_a_line_of_its_own_where_that_does_not_fit_either() -> None:
    assert printed(COLUMNS, ROWS[:1], 30) == ["lab", "  digest: c7ce62bc4dca", "  current", "  size: 890 MiB"]


def test_words_flow_beside_what_does_not_and_below_it() -> None:
    columns = (TextColumn("study"), TextColumn("question", flows=True))
    rows = (("virtual-vs-physical", "Do virtual networks carry HTTP as physical ones do?"),)
    assert printed(columns, rows, 50) == [
        "study                question",
        "virtual-vs-physical  Do virtual networks carry",
        "                     HTTP as physical ones do?",
    ]
    assert printed(columns, rows, 30) == [
        "virtual-vs-physical",
        "  Do virtual networks carry",
        "  HTTP as physical ones do?",
    ]


@pytest.mark.parametrize("width", range(8, 60))
def test_nothing_is_cut(width: int) -> None:
    lines = printed(COLUMNS, ROWS, width)
    assert max(map(len, lines)) <= width
    letters = re.sub(r"\s", "", "".join(lines))
    for row in ROWS:
        for cell in row:
            assert cell.replace(" ", "") in letters
    assert "…" not in letters


def test_records_that_do_not_fit_have_each_value_with_its_name() -> None:
    console = Console(width=30, color_system=None, markup=False)
    columns = (TextColumn("run"), TextColumn("boot"), TextColumn("reason", flows=True))
    with console.capture() as capture:
        console.print(fit_records(columns, [("one", "c7ce62bc4dca8ef1c1", ""), ("two", "8ef1", "it is lost")], 30))
    assert [line.rstrip() for line in capture.get().splitlines()] == [
        *("row 1", "  run: one", "  boot: c7ce62bc4dca8ef1c1", "  reason:"),
        *("row 2", "  run: two", "  boot: 8ef1", "  reason: it is lost"),
    ]
    with console.capture() as capture:
        console.print(fit_records(columns, [("one", "8ef1", "it is lost")], 30))
    assert capture.get().splitlines()[0].split() == ["run", "boot", "reason"]
