"""What commands print: for people by a console, for scripts as JSON."""

import json
import sys
import textwrap

import click
from rich.console import Console


def console_for(as_json: bool) -> Console:
    """Words for people go to stderr when stdout is for a script.

    What the terminal's encoding lacks is written by its number, as Python does on stderr: it is no reason to end.
    """
    if reconfigure := getattr(sys.stdout, "reconfigure", None):
        reconfigure(errors="backslashreplace")
    return Console(stderr=as_json, markup=False, highlight=False)


def folded(text: str) -> str:
    """For the terminal that stderr is: lines folded between words, and what goes on below begins further in."""
    width = Console(stderr=True).width
    lines = text.splitlines()
    indents = [" " * (len(line) - len(line.lstrip()) + 2) for line in lines]
    return "\n".join(
        textwrap.fill(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
        for line, indent in zip(lines, indents, strict=True)
    )


def print_json(value: object) -> None:
    click.echo(json.dumps(value))
