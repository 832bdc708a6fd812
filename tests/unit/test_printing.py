"""What is printed steers no terminal, whoever wrote it and whatever it is printed as."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from nearmetal.commands import compare_output
from nearmetal.commands import runs as runs_commands
from nearmetal.console.printing import console_for, print_beside
from tests.command_line import call
from tests.golden.make_run import FOLDER

STEERS = "tap\x1b]0;other\x07\x1b[2J\x9b\u202e 7"
MARKS = ("\x1b", "\x07", "\x9b", "\u202e")


def table(console: Console) -> None:
    shown = Table(STEERS, title=STEERS)
    shown.add_row(STEERS)
    console.print(shown)


def moving(console: Console) -> None:
    with console.status(STEERS):
        pass


@pytest.mark.parametrize(
    "shown",
    [
        lambda console: console.print(f"still there: {STEERS}"),
        lambda console: console.print(STEERS, style="yellow", soft_wrap=True),
        lambda console: console.print(Text.assemble(STEERS, (STEERS, "red"))),
        lambda console: console.print(Padding(STEERS, (0, 0, 0, 2))),
        table,
    ],
)
def test_a_console_shows_no_character_that_steers(
    shown: Callable[[Console], None], capsys: pytest.CaptureFixture[str]
) -> None:
    shown(console_for(False))
    told = capsys.readouterr().out
    assert "tap\N{REPLACEMENT CHARACTER}" in told and " 7" in told
    assert not any(mark in told for mark in MARKS)


def test_colours_and_what_moves_still_steer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    console = console_for(False)
    console.print(STEERS, style="red")
    moving(console)
    told = capsys.readouterr().out
    assert "\x1b[31mtap\N{REPLACEMENT CHARACTER}]0;other" in told and "\x1b[?25l" in told
    assert not any(mark in told for mark in ("\x1b]0", "\x1b[2J", *MARKS[1:]))


def test_what_is_said_beside_steers_none(capsys: pytest.CaptureFixture[str]) -> None:
    print_beside(STEERS)
    told = capsys.readouterr().err
    assert "tap" in told and not any(mark in told for mark in MARKS)


def test_when_a_run_was_made_steers_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Python takes any character between a day and its hours."""
    runs = [Path(shutil.copytree(FOLDER, tmp_path / name)) for name in ("before", "after")]
    for number, run in enumerate(runs):
        manifest = json.loads((run / "manifest.json").read_text())
        created = f"2026-01-0{number + 1}\x9b10:00:00+00:00"
        (run / "manifest.json").write_text(json.dumps({**manifest, "created": created}))
    call(runs_commands.show, run=runs[0], as_json=False)
    call(runs_commands.ls, folder=tmp_path, as_json=False)
    compare_output.compare_runs(runs[:1], runs[1:])
    told = capsys.readouterr().out
    assert told.count("2026-01-01") >= 3 and "\x9b" not in told


@pytest.mark.parametrize(
    "shown",
    [
        lambda console: console.print("  " + "word " * 20),
        lambda console: console.print(Text("  ").append("word " * 20, style="yellow")),
        lambda console: console.print(Padding("word " * 20, (0, 0, 0, 2), expand=False)),
    ],
    ids=["text", "styled", "padded"],
)
def test_what_goes_on_below_begins_further_in_and_no_line_ends_with_blanks(
    shown: Callable[[Console], None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    shown(console_for(False))
    first, *below = capsys.readouterr().out.splitlines()
    assert first.startswith("  word") and len(below) > 1
    assert all(line.startswith("    word") for line in below)
    assert all(len(line) <= 40 and line == line.rstrip() for line in [first, *below])


def test_the_cells_of_a_table_and_what_is_not_to_be_folded_stay_as_they_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    console = console_for(False)
    grid = Table.grid()
    grid.add_column(overflow="fold")
    grid.add_row("word " * 20)
    console.print(grid)
    assert all(line.startswith("word") for line in capsys.readouterr().out.splitlines())
    console.print("word " * 20, soft_wrap=True)
    assert len(capsys.readouterr().out.splitlines()) == 1
