"""Runs of a study before and after."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from nearmetal.commands.completion import complete_run
from nearmetal.commands.options import GatedCommand, RunPath, choose_format, format_option, gate_option, json_option
from nearmetal.errors import BadInput


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
    from nearmetal.commands.compare_output import compare_runs

    return compare_runs(*sides, margin, gates, form)


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
