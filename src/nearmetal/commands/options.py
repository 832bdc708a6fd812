"""What several commands take."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nearmetal.errors import BadInput

if TYPE_CHECKING:
    from nearmetal.analysis.gates import Gate


class NumberWithin(click.FloatRange):
    """NaN is neither below a range nor above it, and the library lets it pass."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a number", param, ctx)
        return number


class FileToWrite(click.Path):
    """A path as it is written: of one that ends with a slash, which stands for a folder, a `Path` keeps no trace."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not str(value):
            raise BadInput("nothing can be written there: the path is empty", remedy="name a file")
        if str(value).endswith("/") and not Path(value).is_dir():
            raise BadInput("nothing can be written there: there is no such folder", str(value), "name a file")
        return super().convert(value, param, ctx)


class RunPath(click.Path):
    """A run's folder, or its name where it lies with the other runs that this host knows: "quickstart-1"."""

    name = "run"

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        text = str(value)
        if "/" in text or not text or Path(text).exists():
            return super().convert(value, param, ctx)
        from nearmetal.config import Paths
        from nearmetal.store import runs

        paths = Paths.default()
        found = [place for place in runs.list_known(paths.runs, paths.state) if place.name == text]
        if len(found) > 1:
            remedy = f"name one by its folder: {', '.join(map(str, found))}"
            raise BadInput(f"{len(found)} runs have this name", text, remedy)
        return found[0] if found else super().convert(value, param, ctx)


def json_option(*schemas: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """What it prints is told by name: see docs/json.md."""
    text = f"Print one JSON document for scripts: {' or '.join(schemas)}."
    return click.option("--json", "as_json", is_flag=True, help=text)


lab_option = click.option(
    "--lab", type=click.Path(path_type=Path), metavar="FILE", help="Take hosts from this lab file (docs/hosts.md)."
)


def strip_separator(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    """A program's, without what may part them from ours."""
    own = given[1:] if given[:1] == ("--",) else given
    if parameter.required and not own:
        raise click.MissingParameter(ctx=context, param=parameter)
    return own


_GATE_HELP = (
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
    return click.option("--gate", "gates", multiple=True, metavar="[=GATE]", callback=_parse_gates, help=_GATE_HELP)


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
