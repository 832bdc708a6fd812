"""Questions in SQL to the data of runs."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nearmetal.commands.completion import complete_run
from nearmetal.commands.options import RunPath, choose_format, json_option
from nearmetal.commands.output import write_output
from nearmetal.control_characters import strip_controls

if TYPE_CHECKING:
    from nearmetal.console.tables import TextColumn
    from nearmetal.store.query import QueryResult

_WHAT_THERE_IS = """
SELECT table_name AS "table", column_name AS "column", data_type AS type FROM duckdb_columns() WHERE NOT internal"""
_NUMBERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE"}
_SHOWN = 100
"""Rows for people; scripts get all."""
_LONGEST = 2000
"""Characters of a value for people, and entries of a list. A table is laid out character by character."""


@click.command()
@click.argument("sql", required=False)
@click.option(
    "--run",
    "runs",
    multiple=True,
    type=RunPath(),
    shell_complete=complete_run,
    help="Only this run, or those in a folder.",
)
@click.option(
    "--format", "form", type=click.Choice(["json", "csv", "parquet"]), help="All rows, for scripts and spreadsheets."
)
@json_option("query.v1")
def query(sql: str | None, runs: tuple[Path, ...], form: str | None, as_json: bool) -> None:
    """Ask all runs a question in SQL.

    Without one, list the tables. The runs are those known on this host.
    """
    query_runs(sql, runs, choose_format("query", form, as_json))


def query_runs(sql: str | None, only: Sequence[Path], form: str) -> None:
    """Answer, or say what can be asked for. `form` is "text", "json", "csv" or "parquet"."""
    from nearmetal.config import Paths
    from nearmetal.console.printing import console_for, print_json, print_table, unfold_console
    from nearmetal.console.tables import fit_records
    from nearmetal.report.figures import format_count
    from nearmetal.store import query, runs
    from nearmetal.store.query_document import make_document

    query.require_duckdb()
    paths = Paths.default()
    named = [place for path in only for place in runs.find_runs(path)]
    places = named if only else runs.list_known(paths.runs, paths.state)
    beside = console_for(True)

    def say_progress(text: str) -> None:
        beside.print(strip_controls(text), style="dim")

    if form == "parquet":
        content = query.answer_as_parquet(sql or _WHAT_THERE_IS, places, paths.cache, say_progress)
        write_output(content, None, "send it to a file by >")
        return
    found = query.answer_query(
        sql or _WHAT_THERE_IS, places, paths.cache, say_progress, _SHOWN if form == "text" else None
    )
    if form == "json":
        print_json(make_document(found))
        return
    if form == "csv":
        click.echo(_write_csv(found), nl=False)
        return
    console = unfold_console(console_for(False))
    if not found.rows:
        console.print("no rows")
        return
    shown = [[_show_value(value) for value in row] for row in found.rows]
    columns = [
        _make_column(strip_controls(_cut_text(name)), kind, values)
        for (name, kind), values in zip(found.columns, zip(*shown, strict=True), strict=True)
    ]
    print_table(fit_records(columns, shown, console.width), console)
    more = found.total - len(found.rows)
    if more > 0:
        console.print(f"and {format_count(more, 'more row')}: a LIMIT shows fewer, --json all", style="yellow")


def _write_csv(found: "QueryResult") -> str:
    """With a head. What has entries is JSON, and text that a spreadsheet would run as a formula is quoted."""
    import csv
    import io
    import json

    from nearmetal.report.table_values import write_value
    from nearmetal.store.query_document import make_document

    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(write_value(name) for name, _ in found.columns)
    for row in make_document(found).rows:
        rows.writerow(json.dumps(one) if isinstance(one, bool | list | dict) else write_value(one) for one in row)
    return out.getvalue()


def _make_column(title: str, kind: str, values: Sequence[str]) -> "TextColumn":
    """Only words may be broken into lines: half a checksum or a path is of no use."""
    from nearmetal.console.tables import TextColumn

    is_of_numbers = kind.removeprefix("U") in _NUMBERS or kind.startswith("DECIMAL")
    return TextColumn(title, is_of_numbers, flows=not is_of_numbers and any(" " in value for value in values))


def _show_value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, dict):
        return _cut_text(" ".join(f"{name}={_show_value(one)}" for name, one in islice(value.items(), _LONGEST)))
    if isinstance(value, list):
        text = _cut_text(", ".join(map(_show_value, value[:_LONGEST])))
        return text if len(value) <= _LONGEST else f"{text} of {len(value):,} entries"
    if isinstance(value, bytes):
        value = value[:_LONGEST]
    return "" if value is None else strip_controls(_cut_text(str(value)))


def _cut_text(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text):,} characters)"
