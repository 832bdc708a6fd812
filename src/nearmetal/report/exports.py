"""A run's tidy tables as files for other programs: CSV, Parquet, Arrow, LaTeX."""

import csv
import io
import math
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from types import NoneType
from typing import Any, Final

from nearmetal.errors import HostCannot
from nearmetal.optional_dependencies import describe_install
from nearmetal.report import table_values
from nearmetal.report.tidy_tables import Cell, Row, TidyTable, find_columns
from nearmetal.system.duckdb_interrupt import run_interruptibly

_TYPES: Final = {bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE", str: "VARCHAR"}
_LATEX = re.compile(r"[\\{}$&#^_~%<>|\"]")
_LATEX_NAMES: Final = {
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
}
_DIGITS = 4
"""Of a number in a table for people; other formats have all."""
_WRITTEN_OUT = 1e9
"""From here on such a number has a power of ten."""


def write_csv(table: TidyTable) -> str:
    """Numbers in full, true and false as words, nothing for what is missing. A text that a spreadsheet would run has a
    quote before it."""
    write: dict[type, Callable[[Any], str]] = {
        int: repr,
        float: repr,
        bool: {True: "true", False: "false"}.__getitem__,
        NoneType: {None: ""}.__getitem__,
        str: _Texts().__getitem__,
    }
    befores = _write_rows([before for before, _ in table.groups], write)
    rest = iter(_write_rows([row for _, rows in table.groups for row in rows], write))
    rows = [
        (before + row)[1:]
        for before, (_, rows) in zip(befores, table.groups, strict=True)
        for row in islice(rest, len(rows))
    ]
    return "\n".join([",".join(map(write[str], table.columns)), *rows, ""])


def _write_rows(rows: Sequence[Row], write: Mapping[type, Callable[[Any], str]]) -> Iterable[str]:
    """Each row's cells, a comma before each."""
    columns = [_write_cells(column, write) for column in zip(*rows, strict=True)]
    return map(",".join, zip([""] * len(rows), *columns, strict=True))


def _write_cells(column: Sequence[Cell], write: Mapping[type, Callable[[Any], str]]) -> Sequence[str]:
    """By column, since most have cells of one kind: in two thirds of the time that a writer of CSV takes."""
    kinds = set(map(type, column))
    if len(kinds) == 1:
        return list(map(write[kinds.pop()], column))
    return [write[type(cell)](cell) for cell in column]


class _Texts(dict[str, str]):
    """What a text is written as in CSV. A table has few, in a million cells."""

    def __missing__(self, text: str) -> str:
        if text.isalnum():
            self[text] = text
            return text
        out = io.StringIO()
        csv.writer(out, lineterminator="").writerow((table_values.write_value(text), ""))
        self[text] = out.getvalue()[:-1]
        return self[text]


def write_parquet(table: TidyTable) -> bytes:
    """Each column with its type. HostCannot without the library that writes it."""
    try:
        import duckdb
    except ImportError:
        remedy = f"{describe_install('duckdb')}; or --format csv"
        raise HostCannot("Parquet is written by duckdb, which is not installed", remedy=remedy) from None
    columns = find_columns(table)
    with tempfile.TemporaryDirectory() as folder, duckdb.connect() as database:
        source, to = Path(folder) / "table.csv", Path(folder) / "table.parquet"
        with source.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            writer.writerows(zip(*columns.values(), strict=True))
        types = {name: _find_type(values) for name, values in columns.items()}
        read = database.read_csv(str(source), header=True, columns=types, na_values="")
        run_interruptibly(database, lambda: read.write_parquet(str(to)))
        return to.read_bytes()


def write_arrow(table: TidyTable) -> bytes:
    """Arrow IPC as a file, which is Feather of version 2, each column with its type. HostCannot if neither pyarrow nor
    polars is installed."""
    columns = find_columns(table)
    types = {name: _find_type(values) for name, values in columns.items()}
    out = io.BytesIO()
    if find_spec("pyarrow"):
        pyarrow: Any = import_module("pyarrow")
        kinds = {"BOOLEAN": "bool", "BIGINT": "int64", "DOUBLE": "float64", "VARCHAR": "string"}
        schema = pyarrow.schema([(name, pyarrow.type_for_alias(kinds[kind])) for name, kind in types.items()])
        frame = pyarrow.table(dict(columns), schema=schema)
        with import_module("pyarrow.ipc").new_file(out, schema) as writer:
            writer.write_table(frame)
    elif find_spec("polars"):
        polars: Any = import_module("polars")
        ours = {"BOOLEAN": polars.Boolean, "BIGINT": polars.Int64, "DOUBLE": polars.Float64, "VARCHAR": polars.String}
        schema = {name: ours[kind] for name, kind in types.items()}
        # without views, which readers of before 2024 do not know
        polars.DataFrame(columns, schema=schema).write_ipc(out, compat_level=polars.CompatLevel.oldest())
    else:
        remedy = f"{describe_install('pyarrow')}, or polars; or --format csv"
        raise HostCannot("Arrow is written by pyarrow or polars, and neither is installed", remedy=remedy)
    return out.getvalue()


def _find_type(values: Sequence[Cell]) -> str:
    return _TYPES[next((type(value) for value in values if value is not None), str)]


def write_latex(table: TidyTable) -> str:
    """A `tabular` with the rules of the package booktabs, of the columns that a paper prints.

    A column that says the same in all rows becomes a comment: a caption has room for it.
    """
    table, same = _choose_printed(table)
    numeric = [_find_type(values) in ("BIGINT", "DOUBLE") for values in find_columns(table).values()]
    lines = [
        "% needs \\usepackage{booktabs}",
        *(f"% in all rows: {_escape_latex(name)} {_write_latex(value)}" for name, value in same),
        f"\\begin{{tabular}}{{{''.join('r' if one else 'l' for one in numeric)}}}",
        "\\toprule",
        " & ".join(map(_escape_latex, table.columns)) + r" \\",
        "\\midrule",
        *(" & ".join(map(_write_latex, row)) + r" \\" for row in table.rows),
        "\\bottomrule",
        "\\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


_NEVER_PRINTED = frozenset(
    (
        *("trial", "attempt", "position", "repeat", "reason", "blame", "cause", "better", "scale", "censored"),
        *("contrast", "treatment_censored", "reference_censored", "treatment_failed", "reference_failed"),
        *("level", "warnings"),
    )
)
"""What is for programs, and what a table beside the text has no room for. The other formats have all."""
_ALWAYS_PRINTED = frozenset(("response", "treatment", "estimate", "value", "verdict"))


def _choose_printed(table: TidyTable) -> tuple[TidyTable, Sequence[tuple[str, Cell]]]:
    """The columns that a paper prints, and what other such columns have in all rows."""
    kept, same = [], []
    for place, name in enumerate(table.columns):
        if name in _NEVER_PRINTED:
            continue
        values = {row[place] for row in table.rows}
        if len(table.rows) > 1 and len(values) == 1 and name not in _ALWAYS_PRINTED:
            same += [(name, value) for value in values if value not in (None, "")]
        else:
            kept.append(place)
    rows = [tuple(row[place] for place in kept) for row in table.rows]
    return TidyTable(tuple(table.columns[place] for place in kept), [((), rows)]), same


def _write_latex(value: Cell) -> str:
    if value is None:
        return "--"
    if isinstance(value, float):
        return _write_latex_number(value) if math.isfinite(value) else "unbounded" if math.isinf(value) else "--"
    return _escape_latex(str(value))


def _write_latex_number(value: float) -> str:
    """In a column that has 9,863 and 10,030, both are written out: "1.003e+04" is no number of a paper."""
    if 10 ** (_DIGITS - 1) <= abs(value) < _WRITTEN_OUT:
        return f"{value:.0f}"
    mantissa, _, exponent = f"{value:.{_DIGITS}g}".partition("e")
    return f"${mantissa} \\times 10^{{{int(exponent)}}}$" if exponent else mantissa


def _escape_latex(text: str) -> str:
    """Nothing in it that LaTeX would act on."""
    plain = " ".join(text.split())
    return _LATEX.sub(lambda found: _LATEX_NAMES.get(found[0], f"\\{found[0]}"), plain)
