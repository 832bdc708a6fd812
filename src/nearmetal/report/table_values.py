"""How a value of a table is written: for people, and for programs."""

from collections.abc import Iterable
from dataclasses import replace

from nearmetal.report import figures, words
from nearmetal.report.blocks import Badge, Column, Quantity, Table, Value

_LEAST = 0.0001
"""What is less is told by this, and not by a power of ten."""

_SIGNS = {"left": "≤", "right": "≥"}


def show_value(value: Value) -> str:
    if value is None:
        return "–"
    if isinstance(value, Badge):
        return value.text
    if isinstance(value, Quantity):
        if value.unit == "p":
            return f"{value.value:.2g}" if value.value >= _LEAST else f"< {_LEAST}"
        text = figures.format_quantity(figures.round_off(value.value, value.place), value.unit, value.decimals)
        return f"{_SIGNS[value.bound]} {text}" if value.bound else text
    if isinstance(value, float):
        if 0 < abs(value) < _LEAST:
            return f"< {_LEAST}" if value > 0 else f"> −{_LEAST}"
        return figures.format_rounded(value)
    if isinstance(value, int):
        return f"{value:,}"
    return words.strip_controls(value)


def align_decimals(rows: Iterable[tuple[Value, ...]]) -> tuple[tuple[Value, ...], ...]:
    """Rows of which the rates of a column have one number of decimals."""
    columns = [_align_column(column) for column in zip(*rows, strict=True)]
    return tuple(zip(*columns, strict=True))


def _align_column(column: tuple[Value, ...]) -> list[Value]:
    decimals = figures.common_decimals(value.value for value in column if isinstance(value, Quantity))
    return [replace(value, decimals=decimals) if isinstance(value, Quantity) else value for value in column]


def write_value(value: Value) -> str:
    """The number itself, in full; text that a spreadsheet would run as a formula is quoted."""
    if value is None:
        return ""
    if isinstance(value, Badge):
        return value.text
    if isinstance(value, Quantity):
        return repr(value.value)
    if isinstance(value, int | float):
        return repr(value)
    text = words.strip_controls(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t")) else text


def list_columns(table: Table, where: str) -> list[tuple[int, Column]]:
    """The columns that people ("page") or programs ("data") see, with their places in a row."""
    return [(index, column) for index, column in enumerate(table.columns) if column.where in ("both", where)]


def count_repeated(table: Table) -> list[int]:
    """For each row, how many of its first columns say the same as in the row above: no need to read them again."""
    columns = [index for index, column in list_columns(table, "page") if not column.numeric]
    above: tuple[Value, ...] | None = None
    found = []
    for row in table.rows:
        same = 0
        while above is not None and same < len(columns) - 1 and row[columns[same]] == above[columns[same]]:
            same += 1
        found.append(same)
        above = row
    return found
