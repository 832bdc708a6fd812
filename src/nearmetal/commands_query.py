"""`nearmetal query`: questions in SQL to the runs that are known."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nearmetal.config import Paths
from nearmetal.printing import console_for, print_json
from nearmetal.report import figures, words
from nearmetal.store import query, runs
from nearmetal.tables import Column, fitted

_WHAT_THERE_IS = """
SELECT table_name AS "table", column_name AS "column", data_type AS type FROM duckdb_columns() WHERE NOT internal"""
_NUMBERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE"}
_SHOWN = 100
"""Rows for people; scripts get all."""


def ask(sql: str | None, only: Sequence[Path], as_json: bool) -> None:
    """Answer, or say what can be asked for."""
    query.require()
    paths = Paths.default()
    places = _places(only, paths)
    beside = console_for(True)
    found = query.ask(sql or _WHAT_THERE_IS, places, paths.cache, lambda text: beside.print(text, style="dim"))
    if as_json:
        named = [{"name": name, "type": kind} for name, kind in found.columns]
        rows = [[_plain(value) for value in row] for row in found.rows]
        print_json({"schema": "query.v1", "columns": named, "rows": rows})
        return
    console = console_for(False)
    if not found.rows:
        console.print("no rows")
        return
    columns = [Column(words.plain(name), kind in _NUMBERS, flows=kind not in _NUMBERS) for name, kind in found.columns]
    shown = [[_shown(value) for value in row] for row in found.rows[:_SHOWN]]
    console.print(fitted(columns, shown, console.width))
    more = len(found.rows) - _SHOWN
    if more > 0:
        console.print(f"and {figures.count(more, 'more row')}: a LIMIT shows fewer, --json all", style="yellow")


def _places(only: Sequence[Path], paths: Paths) -> list[Path]:
    if only:
        return [place for path in only for place in runs.inside(path)]
    usual = runs.inside(paths.runs) if paths.runs.is_dir() else []
    return list({path.resolve(): path for path in [*usual, *runs.remembered(paths.state)]}.values())


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, dict):
        return " ".join(f"{name}={_shown(one)}" for name, one in value.items())
    if isinstance(value, list):
        return ", ".join(map(_shown, value))
    return "" if value is None else words.plain(str(value))


def _plain(value: Any) -> Any:
    """As JSON has it: moments and the like as texts."""
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
