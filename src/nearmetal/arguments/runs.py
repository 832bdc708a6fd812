"""Runs that have been made, or go on."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from nearmetal.arguments.completion import complete_run
from nearmetal.arguments.gates import GatedCommand, choose_format, format_option, gate_option
from nearmetal.arguments.options import FileToWrite, RunPath, json_option
from nearmetal.errors import BadInput


@click.command()
@click.argument("run", type=RunPath(), shell_complete=complete_run)
@click.option(
    "--format",
    "form",
    type=click.Choice(["html", "md", "json", "csv", "svg", "png", "vega"]),
    default="html",
    show_default=True,
    help="html writes the report; svg, png and vega write each chart into report/charts. These print where it is; "
    "others are printed. Of json the schema is analysis.v1.",
)
@click.option("-o", "--output", type=FileToWrite(), help="Write this file alone; of charts, the verdicts.")
@json_option("report.v1")
def report(run: Path, form: Any, output: Path | None, as_json: bool) -> None:
    """Write the report of a run, or its charts.

    From its folder alone.
    """
    from nearmetal.commands import runs as command

    command.report(run, form, output, as_json)


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
    from nearmetal.commands import export as command

    command.export_table(run, table, form, output)


@click.command()
@click.argument("run", type=RunPath(), shell_complete=complete_run)
@click.option("-o", "--output", type=FileToWrite(), help="Write this file; else one here, called as the run.")
def bundle(run: Path, output: Path | None) -> None:
    """Put a run into one file, for others.

    All that its folder holds, with the SHA-256 of each file. `report`, `show`, `verify`, `compare` and `export` read a
    bundle as they read a run; `run BUNDLE` measures it once more, and compares.
    """
    from nearmetal.commands import bundle as command

    command.write_bundle(run, output)


@click.command()
@click.argument("run", type=RunPath(), shell_complete=complete_run)
@json_option("summary.v1")
def show(run: Path, as_json: bool) -> None:
    """Show the verdicts of a run."""
    from nearmetal.commands import runs as command

    command.show(run, as_json)


@click.command()
@click.argument("run", type=RunPath(), shell_complete=complete_run)
@json_option("verify.v1")
def verify(run: Path, as_json: bool) -> int:
    """Check that a run is as it was written.

    Its manifest, each line, each trial against the plan, each file of a trial. Exits with 2 if anything is damaged.
    """
    from nearmetal.commands import verify as command

    return command.verify(run, as_json)


def _parse_share(context: click.Context, parameter: click.Parameter, text: str | None) -> float | None:
    if text is None:
        return None
    from nearmetal import units

    try:
        share = units.parse_share(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    if not 0 < share <= 1:
        raise click.BadParameter(f"{text!r} is not above 0 and at most 100%; write it like '2%'")
    return share


class _ComparesRuns(GatedCommand):
    """`--before RUN RUN` is as `--before RUN --before RUN`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, _repeat_options(args, ("--before", "--after")))


def _repeat_options(args: Sequence[str], names: Sequence[str]) -> list[str]:
    written: list[str] = []
    name, has_value = "", False
    for word in args:
        if word.startswith("-"):
            name, has_value = (word if word in names else ""), False
        elif name:
            written += [name] * has_value
            has_value = True
        written.append(word)
    return written


def _runs_option(name: str, parameter: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option(
        name,
        parameter,
        metavar="RUN...",
        multiple=True,
        type=RunPath(),
        shell_complete=complete_run,
        help=f"Runs {name.removeprefix('--')}, several.",
    )


@click.command(cls=_ComparesRuns)
@click.argument("before", required=False, type=RunPath(), shell_complete=complete_run)
@click.argument("after", required=False, type=RunPath(), shell_complete=complete_run)
@_runs_option("--before", "befores")
@_runs_option("--after", "afters")
@click.option(
    "--margin", metavar="SHARE", callback=_parse_share, help="Closer than this is the same; else the study's own."
)
@gate_option()
@format_option()
@json_option("compare.v1")
def compare(
    before: Path | None,
    after: Path | None,
    befores: tuple[Path, ...],
    afters: tuple[Path, ...],
    margin: float | None,
    gates: Any,
    form: Any,
    as_json: bool,
) -> int:
    """Compare runs of a study.

    What each treatment gives now and gave before, and what else was not the same. Name one run before and one after, or
    several each: --before RUN RUN --after RUN RUN.
    """
    sides = _choose_sides(before, after, befores, afters)
    form = choose_format("compare", form, as_json, bool(gates))
    from nearmetal.commands import compare as command

    return command.compare_runs(*sides, margin, gates, form)


def _choose_sides(
    before: Path | None, after: Path | None, befores: tuple[Path, ...], afters: tuple[Path, ...]
) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """BadInput where a side is missing, or both ways of naming them are used at once."""
    remedy = "write `nearmetal compare BEFORE AFTER`, or `nearmetal compare --before RUN... --after RUN...`"
    if befores or afters:
        if before:
            raise BadInput(f"{str(before)!r} is named beside --before and --after", "compare", remedy)
        if not (befores and afters):
            raise BadInput(f"{'--after' if befores else '--before'} is missing", "compare", remedy)
        return befores, afters
    if before is None or after is None:
        raise BadInput(f"{'AFTER' if before else 'BEFORE'} is missing", "compare", remedy)
    return (before,), (after,)


@click.command()
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@json_option("ls.v1")
def ls(folder: Path | None, as_json: bool) -> None:
    """List machines that are up, and runs.

    The runs are those known on this host, or those in a FOLDER.
    """
    from nearmetal.commands import runs as command

    command.list_runs(folder, as_json)


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
    from nearmetal.commands import query as command

    command.ask_runs(sql, runs, choose_format("query", form, as_json))


@click.command()
@click.argument("run", required=False, type=RunPath(), shell_complete=complete_run)
@click.option("--port", type=click.IntRange(0, 65535), help="Of 127.0.0.1; else one that is free.")
@json_option("dashboard.v1")
def dashboard(run: Path | None, port: int | None, as_json: bool) -> int:
    """Show runs in a browser, as they go on.

    Serves on 127.0.0.1 until Ctrl-C. Without a RUN, all that are known on this host.
    """
    from nearmetal.commands import dashboard as command

    return command.serve_runs(run, port, as_json)
