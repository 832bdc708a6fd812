"""The data of runs: asked for, written for another program, or put into one file."""

import os
import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nearmetal.commands.completion import complete_run
from nearmetal.commands.options import FileToWrite, RunPath, choose_format, json_option
from nearmetal.commands.output import check_output, write_output
from nearmetal.control_characters import strip_controls
from nearmetal.errors import BadInput

if TYPE_CHECKING:
    from nearmetal.console.tables import TextColumn
    from nearmetal.store.bundle import About
    from nearmetal.store.query import QueryResult
    from nearmetal.store.run_folder import RunFolder

_WHAT_THERE_IS = """
SELECT table_name AS "table", column_name AS "column", data_type AS type FROM duckdb_columns() WHERE NOT internal"""
_NUMBERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE"}
_SHOWN = 100
"""Rows for people; scripts get all."""
_LONGEST = 2000
"""Characters of a value for people, and entries of a list. A table is laid out character by character."""
_ENDING = ".nearmetal.tar.gz"
_FIRST_USER, _NOBODY = 1000, 65534
_NAMED = 3


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


@click.command()
@click.argument("run", type=RunPath(), shell_complete=complete_run)
@click.option(
    "--table",
    type=click.Choice(["trials", "blocks", "contrasts"]),
    default="trials",
    show_default=True,
    help="A row for each value of a trial, for each block of a contrast, or for each contrast.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["csv", "parquet", "arrow", "latex"]),
    default="csv",
    show_default=True,
    help="arrow is Arrow IPC, also called Feather.",
)
@click.option("-o", "--output", type=FileToWrite(), help="Write this file, instead of standard output.")
def export(run: Path, table: Any, form: Any, output: Path | None) -> None:
    """Write a run's data for another program.

    docs/data.md says what each column is. In Python: nearmetal.open_run(RUN).
    """
    from nearmetal.report import exports
    from nearmetal.report.report_input import read_run_input
    from nearmetal.report.tidy_tables import make_table
    from nearmetal.store.run_folder import RunFolder
    from nearmetal.system.garbage_collection import without_collection

    folder = RunFolder.open(run)
    check_output(output, folder)
    with without_collection():
        tidy = make_table(read_run_input(folder), table)
    writers: dict[str, Any] = {
        "csv": exports.write_csv,
        "parquet": exports.write_parquet,
        "arrow": exports.write_arrow,
        "latex": exports.write_latex,
    }
    write_output(writers[form](tidy), output)


@click.command()
@click.argument("run", type=RunPath(), shell_complete=complete_run)
@click.option("-o", "--output", type=FileToWrite(), help="Write this file; else one here, called as the run.")
def bundle(run: Path, output: Path | None) -> None:
    """Put a run into one file, for others.

    All that its folder holds, with the SHA-256 of each file. `report`, `show`, `verify`, `compare` and `export` read a
    bundle as they read a run; `run BUNDLE` measures it once more, and compares.
    """
    import tempfile

    from nearmetal.console.printing import print_beside
    from nearmetal.report.figures import format_count, join_listing
    from nearmetal.store import runs
    from nearmetal.store.bundle import pack_bundle
    from nearmetal.store.journal_lock import make_taken_error
    from nearmetal.store.run_folder import RunFolder
    from nearmetal.store.verify import verify
    from nearmetal.system.files import name_file

    folder = RunFolder.open(run)
    if folder.bundle is not None:
        raise BadInput("this is a bundle already", str(run), "name the run's folder")
    if runs.find_state(folder.journal) == "running":
        raise make_taken_error(folder.journal)
    output = output or Path(folder.path.resolve().name + _ENDING)
    check_output(output, folder)
    place = output.resolve()
    if output.name == "-" or (place.exists() and not place.is_file()):
        raise BadInput("a bundle is written to a file", str(output), "name one by -o")
    if place.exists():
        raise BadInput("a file is there already", str(output), "name another by -o, or remove it")
    pattern = find_homes()
    parts, homes = _collect_parts(folder, pattern)
    about = _describe_run(folder)
    with tempfile.TemporaryDirectory(prefix=".nearmetal-", dir=place.parent) as temporary:
        new = Path(temporary) / place.name
        with name_file(output), new.open("wb") as to:
            pack_bundle(about, parts, to)
        if (found := verify(new, lambda what: None)).damaged:
            first = found.damaged[0]
            remedy = "name files by paths outside of a home folder" if homes else f"nearmetal verify {run}"
            raise BadInput(f"it cannot be packed: {first.what}", first.file, remedy)
        new.replace(place)
    if homes:
        print_beside(f"{format_count(homes, 'path')} in a home folder: only what follows it is in the bundle, after ~")
    telling = [name for name, part in parts.items() if isinstance(part, Path) and _contains_pattern(part, pattern)]
    if telling:
        shown = join_listing(telling[:_NAMED]) + (" and more" if len(telling) > _NAMED else "")
        print_beside(
            f"{format_count(len(telling), 'file')} of trials name a home folder, and are packed as they are: {shown}"
        )
    click.echo(output)


def _describe_run(folder: "RunFolder") -> "About":
    from nearmetal.store.bundle import About

    manifest = folder.read_manifest()
    version = manifest.versions.get("nearmetal", "unknown")
    about = manifest.study.question or f"A run of the study {manifest.study.name}, measured by nearmetal."
    return About(f"{manifest.study.name} of {manifest.created[:10]}", about, manifest.created, version)


def find_homes() -> re.Pattern[bytes]:
    """Where the homes of people stand, which name them. That of root names nobody."""
    import pwd

    people = (one.pw_dir for one in pwd.getpwall() if one.pw_uid >= _FIRST_USER and one.pw_uid != _NOBODY)
    homes = {home for home in (str(Path.home()), *people) if home.count("/") > 1}
    names = b"|".join(map(re.escape, map(os.fsencode, sorted(homes, key=len, reverse=True))))
    return re.compile(rb"(?<![\w./~-])(?:" + names + rb")(?![\w.-])" if names else rb"(?!)")


def _collect_parts(folder: "RunFolder", homes: re.Pattern[bytes]) -> tuple[dict[str, bytes | Path], int]:
    """What a bundle holds, by path, and how many paths of homes were shortened."""
    from nearmetal.store import journal
    from nearmetal.study.user_files import collect_files
    from nearmetal.system import files

    parts: dict[str, bytes | Path] = {}
    shortened = 0
    for name in ("manifest.json", folder.journal.name):
        if (file := folder.path / name).exists():
            content = files.read_regular(file, "restore it from a copy of the run's folder")
            parts[name], found = _shorten_homes(content, homes)
            shortened += found
    carried = {one.sha256 for one in collect_files(folder.read_manifest().plan.resolved)}
    parts |= {f"files/{sha256}": folder.files / sha256 for sha256 in carried}
    for record in journal.read_records(folder.journal):
        for artifact in record.artifacts:
            try:
                parts[artifact.path] = folder.place_artifact(artifact.path)
            except OSError as error:
                remedy = f"nearmetal verify {folder.path} names all; restore them from a copy of the run's folder"
                raise BadInput(f"a file of a trial is gone: {error.strerror}", artifact.path, remedy) from None
    return parts, shortened


def _shorten_homes(content: bytes, homes: re.Pattern[bytes]) -> tuple[bytes, int]:
    """Lines of JSON objects, each with its checksum renewed where it names a home folder."""
    if not homes.search(content):
        return content, 0
    if content.startswith(b"{\n"):  # a manifest is one object on several lines
        return _shorten_in_object(content, homes)
    lines = [_shorten_in_object(line, homes) for line in content.splitlines(keepends=True)]
    return b"".join(line for line, _ in lines), sum(found for _, found in lines)


def _shorten_in_object(content: bytes, homes: re.Pattern[bytes]) -> tuple[bytes, int]:
    from nearmetal.store.checksum import add_checksum, without_checksum

    whole = content.removesuffix(b"\n")
    bare = without_checksum(whole)
    short, found = homes.subn(b"~", bare)
    if not found:
        return content, 0
    return (add_checksum(short) if bare != whole else short) + content[len(whole) :], found


def _contains_pattern(file: Path, pattern: re.Pattern[bytes]) -> bool:
    import mmap

    with file.open("rb") as content:
        if not file.stat().st_size:
            return False
        with mmap.mmap(content.fileno(), 0, access=mmap.ACCESS_READ) as held:
            return pattern.search(held) is not None
