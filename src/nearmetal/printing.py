"""What commands print: for people by a console, for scripts as JSON."""

import json
import sys

import click
from rich.console import Console


def console_for(as_json: bool) -> Console:
    """Words for people go to stderr when stdout is for a script.

    What the terminal's encoding lacks is written by its number, as Python does on stderr: it is no reason to end.
    """
    if reconfigure := getattr(sys.stdout, "reconfigure", None):
        reconfigure(errors="backslashreplace")
    return Console(stderr=as_json, markup=False, highlight=False)


def print_json(value: object) -> None:
    click.echo(json.dumps(value))
