"""What commands print: for people by a console, for scripts as JSON."""

import json
import math
import os
import sys
import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from nearmetal.control_characters import strip_controls

if TYPE_CHECKING:
    from nearmetal.model import Document


_UNKNOWN = 80
"""Columns of a terminal that says it has none, as some do by COLUMNS=0."""

_ENDLESS = 1_000_000
"""Columns of what has no width: no line of ours is as long."""


_FURTHER_IN = 2
"""Columns by which a line that is folded begins further in where it goes on."""
_NARROWEST = 20
"""Columns that must be left for what goes on below."""


class _Plain(Console):
    """Shows nothing that steers a terminal but what it draws itself, and folds lines so that each is seen to go on: no
    place that prints has to think of it."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        options = options or self.options
        # The cell of a table has its own overflow: there the column shows what belongs together.
        if isinstance(renderable, str | Text) and not options.no_wrap and options.overflow is None:
            text = self.render_str(renderable) if isinstance(renderable, str) else renderable
            renderable = self._hang_lines(text, options.max_width)
        yield from _drop_blank_ends(
            segment if segment.control else Segment(strip_controls(segment.text), segment.style)
            for segment in super().render(renderable, options)
        )

    def _hang_lines(self, text: Text, width: int) -> Text:
        """Lines folded between words, and what goes on below begins further in."""
        if text.no_wrap or text.overflow not in (None, "fold"):
            return text
        if "\n" not in text.plain and text.cell_len <= width:
            return text
        folded = list[Text]()
        for line in text.split(allow_blank=True):
            indent = len(line.plain) - len(line.plain.lstrip()) + _FURTHER_IN
            if line.cell_len <= width or width < indent + _NARROWEST:
                folded.append(line)
                continue
            first = line.wrap(self, width)[0]
            rest = line[len(first.plain) :]
            rest = rest[len(rest.plain) - len(rest.plain.lstrip()) :]
            below = rest.wrap(self, width - indent)
            for one in below:
                one.pad_left(indent)
            folded += [first, *below]
        return text.blank_copy("\n").join(folded)


def _drop_blank_ends(segments: Iterable[Segment]) -> Iterable[Segment]:
    """What is drawn, without the blanks at the ends of lines that nobody sees."""
    blanks: list[Segment] = []
    for segment in segments:
        if segment.control:
            yield segment
            continue
        for number, part in enumerate(segment.text.split("\n")):
            if number:
                blanks = []
                yield Segment("\n", segment.style)
            seen = part if _has_ground(segment) else part.rstrip(" ")
            if seen:
                yield from blanks
                yield Segment(seen, segment.style)
                blanks = []
            if len(seen) < len(part):
                blanks.append(Segment(part[len(seen) :], segment.style))
    yield from blanks


def _has_ground(segment: Segment) -> bool:
    """Whether its blanks are seen."""
    style = segment.style
    return style is not None and (style.bgcolor is not None or bool(style.reverse or style.underline))


def console_for(as_json: bool) -> Console:
    """Words for people go to stderr when stdout is for a script.

    What the terminal's encoding lacks is written by its number, as Python does on stderr: it is no reason to end.
    """
    if reconfigure := getattr(sys.stdout, "reconfigure", None):
        reconfigure(errors="backslashreplace")
    console = _Plain(stderr=as_json, markup=False, highlight=False)
    if console.width < 1:
        console.width = _UNKNOWN
    return console


def unfold_console(console: Console) -> Console:
    """For a pipe or a file lines stay whole, so that what reads them finds each word, unless COLUMNS says how wide."""
    if not console.is_terminal and os.environ.get("COLUMNS", "0") in ("", "0"):
        console.width = _ENDLESS
    return console


def print_table(table: RenderableType, console: Console) -> None:
    """In a pipe without the blanks with which a terminal's table is filled up."""
    if console.is_terminal:
        console.print(table)
        return
    with console.capture() as laid_out:
        console.print(table)
    lines = "".join(f"{line.rstrip()}\n" for line in laid_out.get().splitlines())
    console.out(lines, end="", highlight=False)


def print_beside(text: str) -> None:
    """On stderr, without characters that steer a terminal."""
    click.echo(strip_controls(text), err=True)


def print_warning(text: str) -> None:
    print_beside(f"warning: {text}")


def fold_text(text: str) -> str:
    """For the terminal that stderr is: lines folded between words, and what goes on below begins further in."""
    return _fold_lines(text, console_for(True).width)


def folded_for_stdout(text: str) -> str:
    """Lines folded for stdout as `fold_text` does for stderr, if stdout is a terminal."""
    return _fold_lines(text, unfold_console(console_for(False)).width)


def _fold_lines(text: str, width: int) -> str:
    lines = text.splitlines()
    indents = [" " * (len(line) - len(line.lstrip()) + 2) for line in lines]
    return "\n".join(
        textwrap.fill(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
        for line, indent in zip(lines, indents, strict=True)
    )


def print_json(document: "Document") -> None:
    """In one line, of ASCII alone."""
    value = document.model_dump(mode="json")
    try:
        text = json.dumps(value, allow_nan=False)
    except ValueError:
        text = json.dumps(_replace_infinite(value))
    click.echo(text)


def _replace_infinite(value: Any) -> Any:
    """With null for numbers that are not finite, of which there are seldom any: JSON has no word for them."""
    if isinstance(value, dict):
        return {name: _replace_infinite(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_replace_infinite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
