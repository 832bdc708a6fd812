"""`nearmetal query`: questions in SQL to the runs that are known."""

import csv
import io
import json
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import click

from nearmetal.commands.output import write_output
from nearmetal.config import Paths
from nearmetal.console.printing import console_for, print_json
from nearmetal.console.tables import TextColumn, fit_table
from nearmetal.report import figures, words
from nearmetal.report.cells import for_programs
from nearmetal.store import query, runs
from nearmetal.store.answered import document_of

_WHAT_THERE_IS = """
SELECT table_name AS "table", column_name AS "column", data_type AS type FROM duckdb_columns() WHERE NOT internal"""
_NUMBERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE"}
_SHOWN = 100
"""Rows for people; scripts get all."""
_LONGEST = 2000
"""Characters of a value for people, and entries of a list. A table is laid out character by character."""


def ask_runs(sql: str | None, only: Sequence[Path], form: str) -> None:
    """Answer, or say what can be asked for. `form` is "text", "json", "csv" or "parquet"."""
    query.require_duckdb()
    paths = Paths.default()
    places = _list_runs(only, paths)
    beside = console_for(True)

    def say_progress(text: str) -> None:
        beside.print(words.strip_controls(text), style="dim")

    if form == "parquet":
        content = query.answer_as_parquet(sql or _WHAT_THERE_IS, places, paths.cache, say_progress)
        write_output(content, None, "send it to a file by >")
        return
    found = query.answer_query(
        sql or _WHAT_THERE_IS, places, paths.cache, say_progress, _SHOWN if form == "text" else None
    )
    if form == "json":
        print_json(document_of(found))
        return
    if form == "csv":
        click.echo(_write_csv(found), nl=False)
        return
    console = console_for(False)
    if not found.rows:
        console.print("no rows")
        return
    columns = [_make_column(words.strip_controls(_cut_text(name)), kind) for name, kind in found.columns]
    shown = [[_show_value(value) for value in row] for row in found.rows]
    console.print(fit_table(columns, shown, console.width))
    more = found.total - len(found.rows)
    if more > 0:
        console.print(f"and {figures.format_count(more, 'more row')}: a LIMIT shows fewer, --json all", style="yellow")


def _write_csv(found: query.QueryResult) -> str:
    """With a head. What has entries is JSON, and text that a spreadsheet would run as a formula is quoted."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(for_programs(name) for name, _ in found.columns)
    rows.writerows(map(_write_value, row) for row in document_of(found).rows)
    return out.getvalue()


def _write_value(value: Any) -> str:
    if isinstance(value, bool | list | dict):
        return json.dumps(value)
    return for_programs(value)


def _make_column(title: str, kind: str) -> TextColumn:
    is_of_numbers = kind.removeprefix("U") in _NUMBERS or kind.startswith("DECIMAL")
    return TextColumn(title, is_of_numbers, flows=not is_of_numbers)


def _list_runs(only: Sequence[Path], paths: Paths) -> list[Path]:
    if only:
        return [place for path in only for place in runs.find_runs(path)]
    return runs.list_known(paths.runs, paths.state)


def _show_value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, dict):
        return _cut_text(" ".join(f"{name}={_show_value(one)}" for name, one in islice(value.items(), _LONGEST)))
    if isinstance(value, list):
        text = _cut_text(", ".join(map(_show_value, value[:_LONGEST])))
        return text if len(value) <= _LONGEST else f"{text} of {figures.format_count(len(value), 'entry', 'entries')}"
    if isinstance(value, bytes):
        value = value[:_LONGEST]
    return "" if value is None else words.strip_controls(_cut_text(str(value)))


def _cut_text(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({figures.format_count(len(text), 'character')})"
