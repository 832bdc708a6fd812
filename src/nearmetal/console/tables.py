"""Tables for a terminal of any width: where a line does not fit, its name stands above the rest; nothing is cut."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

_GAP = 2
_INDENT = 2
_LEAST = 16
"""Columns of the terminal below which words that are broken into lines are hard to read."""


@dataclass(frozen=True)
class TextColumn:
    title: str
    is_of_numbers: bool = False
    """They stand at the right."""
    flows: bool = False
    """Words, which may be broken into lines; anything else is of no use in pieces."""

    @property
    def side(self) -> Literal["left", "right"]:
        return "right" if self.is_of_numbers else "left"


Row = Sequence[str]


def fit_table(
    columns: Sequence[TextColumn], rows: Iterable[Row], width: int, style: str = "bold", whole: bool = False
) -> RenderableType:
    """Rows that have their name first, for a terminal `width` columns wide; headings in a `style`.

    A line each; else the name on a line of its own and below it the rest; else each of that on a line of its own.
    A name that is to be copied `whole` is left for the terminal to break, by who prints without cropping.
    """
    listed = list(rows)
    natural = [max(map(cell_len, texts)) for texts in zip([one.title for one in columns], *listed, strict=True)]
    if _measure_needed(columns, natural) <= width:
        return _make_beside(columns, listed, natural, style)
    if _INDENT + _measure_needed(columns[1:], natural[1:]) <= width:
        return _make_below(columns[1:], listed, _share_width(columns[1:], natural[1:], width - _INDENT), style, whole)
    return Group(*(line for row in listed for line in _make_list(columns, row, whole)))


def fit_records(columns: Sequence[TextColumn], rows: Iterable[Row], width: int) -> RenderableType:
    """Rows without a name: a line each if the terminal is wide enough, else a line for each value below its number."""
    listed = list(rows)
    natural = [max(map(cell_len, texts)) for texts in zip([one.title for one in columns], *listed, strict=True)]
    if _measure_needed(columns, natural) <= width:
        return _make_beside(columns, listed, natural, "bold")
    lines: list[RenderableType] = []
    for number, row in enumerate(listed, 1):
        lines.append(Text(f"row {number}", style="bold"))
        for one, cell in zip(columns, row, strict=True):
            lines.append(
                Padding(Text(f"{one.title}: {cell}".rstrip(), overflow="fold"), (0, 0, 0, _INDENT), expand=False)
            )
    return Group(*lines)


def _measure_needed(columns: Sequence[TextColumn], natural: Sequence[int]) -> int:
    least = (min(_LEAST, size) if one.flows else size for one, size in zip(columns, natural, strict=True))
    return sum(least) + _GAP * (len(columns) - 1)


def _share_width(columns: Sequence[TextColumn], natural: Sequence[int], width: int) -> list[int]:
    """What each column gets, where words take what the others leave."""
    flowing = [size for one, size in zip(columns, natural, strict=True) if one.flows]
    left = width - _GAP * (len(columns) - 1) - (sum(natural) - sum(flowing))
    return [min(size, left // len(flowing)) if one.flows else size for one, size in zip(columns, natural, strict=True)]


def _make_beside(columns: Sequence[TextColumn], rows: Sequence[Row], natural: Sequence[int], style: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style=style)
    for one, size in zip(columns, natural, strict=True):
        least = min(_LEAST, size)
        table.add_column(one.title, justify=one.side, no_wrap=not one.flows, min_width=least, overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def _make_name(name: str, whole: bool) -> Text:
    return Text(name, no_wrap=whole, overflow="ignore" if whole else "fold")


def _make_below(
    columns: Sequence[TextColumn], rows: Sequence[Row], sizes: Sequence[int], style: str, whole: bool
) -> Group:
    lines: list[RenderableType] = []
    if len(columns) > 1:
        lines.append(_make_line(columns, [Text(one.title, style=style) for one in columns], sizes))
    for name, *rest in rows:
        lines += [_make_name(name, whole), _make_line(columns, [Text(cell) for cell in rest], sizes)]
    return Group(*lines)


def _make_line(columns: Sequence[TextColumn], cells: Sequence[Text], sizes: Sequence[int]) -> Padding:
    grid = Table.grid(padding=(0, _GAP, 0, 0), pad_edge=False)
    for one, size in zip(columns, sizes, strict=True):
        grid.add_column(justify=one.side, width=size, overflow="fold")
    grid.add_row(*cells)
    return Padding(grid, (0, 0, 0, _INDENT), expand=False)


def _make_list(columns: Sequence[TextColumn], row: Row, whole: bool) -> Iterable[RenderableType]:
    yield _make_name(row[0], whole)
    for one, cell in zip(columns[1:], row[1:], strict=True):
        text = Text(f"{one.title}: {cell}" if one.title else cell, overflow="fold")
        yield Padding(text, (0, 0, 0, _INDENT), expand=False)
