"""A run's tidy tables as files for other programs: CSV, Parquet, LaTeX."""

import csv
import io
import math
import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from nearmetal.errors import HostCannot
from nearmetal.report import cells
from nearmetal.report.tidy import Cell, TidyTable, find_columns

_TYPES: Final = {bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE", str: "VARCHAR"}
_LATEX = re.compile(r"[\\{}$&#^_~%<>|\"]")
_LATEX_NAMES: Final = {"\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}"}
_DIGITS = 4
"""Of a number in a table for people; other formats have all."""


def write_csv(table: TidyTable) -> str:
    """Numbers in full, true and false as words, nothing for what is missing. A text that a spreadsheet would run has a
    quote before it."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(table.columns)
    texts = _Texts()
    columns = [_write_texts(column, texts) for column in zip(*table.rows, strict=True)]
    writer.writerows(zip(*columns, strict=True))
    return out.getvalue()


def _write_texts(column: Sequence[Cell], texts: "_Texts") -> Sequence[Cell]:
    """By column, since most have numbers alone."""
    if _OTHERS.isdisjoint(map(type, column)):
        return column
    return [texts[cell] if type(cell) in _OTHERS else cell for cell in column]


_OTHERS: Final = frozenset({str, bool})
"""Kinds of cells that the writer of CSV would write another way. Numbers and nothing it writes in full by itself."""


class _Texts(dict[Cell, str]):
    """What a cell is written as. A table has few texts, in a million cells."""

    def __missing__(self, cell: Cell) -> str:
        written = ("true" if cell else "false") if isinstance(cell, bool) else cells.for_programs(cell)
        self[cell] = written
        return written


def write_parquet(table: TidyTable) -> bytes:
    """Each column with its type. HostCannot without the library that writes it."""
    try:
        import duckdb
    except ImportError:
        remedy = "pip install duckdb; or --format csv"
        raise HostCannot("Parquet is written by duckdb, which is not installed", remedy=remedy) from None
    columns = find_columns(table)
    with tempfile.TemporaryDirectory() as folder, duckdb.connect() as database:
        source, to = Path(folder) / "table.csv", Path(folder) / "table.parquet"
        with source.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            writer.writerows(zip(*columns.values(), strict=True))
        types = {name: _find_type(values) for name, values in columns.items()}
        database.read_csv(str(source), header=True, columns=types, na_values="").write_parquet(str(to))
        return to.read_bytes()


def _find_type(values: Sequence[Cell]) -> str:
    return _TYPES[next((type(value) for value in values if value is not None), str)]


def write_latex(table: TidyTable) -> str:
    """A `tabular` with the rules of the package booktabs."""
    numeric = [_find_type(values) in ("BIGINT", "DOUBLE") for values in find_columns(table).values()]
    return "\n".join(_lines_of_latex(table, numeric)) + "\n"


def _lines_of_latex(table: TidyTable, numeric: Sequence[bool]) -> Iterator[str]:
    yield "% needs \\usepackage{booktabs}"
    yield f"\\begin{{tabular}}{{{''.join('r' if one else 'l' for one in numeric)}}}"
    yield "\\toprule"
    yield " & ".join(map(_escape_latex, table.columns)) + r" \\"
    yield "\\midrule"
    for row in table.rows:
        yield " & ".join(map(_write_latex, row)) + r" \\"
    yield "\\bottomrule"
    yield "\\end{tabular}"


def _write_latex(value: Cell) -> str:
    if value is None:
        return "--"
    if isinstance(value, float) and not isinstance(value, bool):
        return f"{value:.{_DIGITS}g}" if math.isfinite(value) else "unbounded" if math.isinf(value) else "--"
    return _escape_latex(str(value))


def _escape_latex(text: str) -> str:
    """Nothing in it that LaTeX would act on."""
    plain = " ".join(text.split())
    return _LATEX.sub(lambda found: _LATEX_NAMES.get(found[0], _escape_one(found[0])), plain)


def _escape_one(sign: str) -> str:
    return {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"\textquotedbl{}"}.get(
        sign, f"\\{sign}"
    )
