"""HTTP requests: those in captures, and those that are made."""

import os
from pathlib import Path
from typing import Any

import click

from nearmetal.commands.options import FileToWrite, json_option


@click.command()
@click.argument("captures", metavar="PCAP...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--request", "number", type=int, help="Draw this request, from 1, or print it (--json).")
@click.option("--html", type=FileToWrite(), help="Write a page with the requests over time (- prints it).")
@click.option(
    "--requests",
    type=FileToWrite(),
    help="Write each request: JSON lines (- prints them), or FILE.parquet.",
)
@json_option("trace.v1", "trace.request.v1")
def trace(captures: tuple[Path, ...], as_json: bool, **options: Any) -> int:
    """Show what captures say of HTTP requests.

    Of one end, or of both ends of the same traffic.
    """
    from nearmetal.commands.trace_output import trace_captures

    return trace_captures(captures, as_json=as_json, **options)


@click.command(context_settings={"ignore_unknown_options": True, "help_option_names": []}, add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def load(arguments: tuple[str, ...]) -> None:
    """Load a web server, and show how it answers.

    See `nearmetal load URL --help`.
    """
    from nearmetal.lab import probe

    os.execv(probe.path(), ["nearmetal", "load", *arguments])
