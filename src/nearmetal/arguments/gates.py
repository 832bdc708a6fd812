"""`--gate`, whose value may be left out."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from nearmetal.errors import BadInput

if TYPE_CHECKING:
    from nearmetal.analysis.gates import Gate

_HELP = (
    "Exit with 5 if anything is surely worse, cannot be judged any more, or nothing can be judged at all; with "
    "=strict also if anything is undecided; with ='throughput > -3%' unless the interval shows it. May be repeated."
)


class GatedCommand(click.Command):
    """Takes a bare `--gate` anywhere: a word that follows it is its value only if it is a gate."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, _write_values(args))


def _write_values(args: Sequence[str]) -> list[str]:
    """With `--gate=worse` for each bare one. What follows `--` are no options."""
    written: list[str] = []
    for number, word in enumerate(args):
        if word == "--":
            return [*written, *args[number:]]
        following = args[number + 1] if number + 1 < len(args) else ""
        is_gate = following == "strict" or (not following.startswith("-") and bool({"<", ">"} & set(following)))
        is_bare = word == "--gate" and not is_gate
        written.append("--gate=worse" if is_bare else word)
    return written


def gate_option() -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option("--gate", "gates", multiple=True, metavar="[=GATE]", callback=_parse_gates, help=_HELP)


def format_option() -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option(
        "--format",
        "form",
        type=click.Choice(["text", "md", "junit", "json"]),
        help="md is for a comment, junit has a test case for each comparison that a gate is about.",
    )


def choose_format(command: str, form: str | None, as_json: bool, is_gated: bool = True) -> str:
    """What `--format` and `--json` ask for together. BadInput."""
    if form and as_json:
        raise BadInput("--json and --format are two words for one thing", command, "write one of them")
    if form == "junit" and not is_gated:
        raise BadInput(
            "junit has a test case for each comparison of a gate, and there is no gate", command, "add --gate"
        )
    return "json" if as_json else form or "text"


def _parse_gates(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> "tuple[Gate, ...]":
    """Each once."""
    if not given:
        return ()
    from nearmetal.analysis.gates import parse_gate

    try:
        return tuple(dict.fromkeys(map(parse_gate, given)))
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
