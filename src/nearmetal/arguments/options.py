"""What several commands take."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from nearmetal.errors import BadInput


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
