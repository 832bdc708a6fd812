"""What `nearmetal trace` tells: captures in words, a request as a ladder, a page, lines for notebooks."""

import os
import secrets
import shutil
import sys
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from nearmetal.console.printing import console_for, print_warning
from nearmetal.console.tables import TextColumn, fit_table
from nearmetal.errors import BadInput, ExitCode
from nearmetal.report import words
from nearmetal.report.drawing import require_engine
from nearmetal.store.run_folder import describe_change
from nearmetal.system.files import write_whole
from nearmetal.system.interrupts import run_until_done
from nearmetal.system.temporary_folders import temporary_folder
from nearmetal.trace import analyser, events, ladder, page, parquet, request_choice
from nearmetal.trace.request_choice import ChosenRequest
from nearmetal.trace.summary import TraceTable, are_strangers, list_slowest, summarise_trace

_WORDS = ("", "problem")
"""Titles of columns with words, which may be broken into lines: what a row tells of, and what went wrong."""
_SLOWEST = 5
"""Requests that are told by what they asked for."""
_STDOUT = Path("-")
_OTHERS = (".csv", ".tsv", ".xlsx")
"""Of files whose names promise what is not written."""


def trace_captures(
    captures: Sequence[Path], number: int | None, html: Path | None, requests: Path | None, as_json: bool
) -> int:
    """The exit code. BadInput for what cannot be opened, or is no capture."""
    captures = [analyser.STDIN if str(capture) == "-" else capture for capture in captures]
    printed = {"--json": as_json, "--html -": html == _STDOUT, "--requests -": requests == _STDOUT}
    if sum(printed.values()) > 1:
        both = " and ".join(option for option, is_given in printed.items() if is_given)
        raise BadInput("standard output can hold one of them", both, "leave one of them out, or write it to a file")
    if requests == _STDOUT and number is not None:
        raise BadInput("--requests - prints all of them", "--request", "leave one of the two out")
    _check(captures, html, requests)
    with _open_lines(requests) as lines:
        with console_for(as_json).status("reading " + " and ".join(words.strip_controls(one.name) for one in captures)):
            traced = run_until_done(analyser.analyse_captures(captures, lines))
        document = traced.document
        if traced.problem is not None:
            if as_json:
                click.echo(analyser.as_text(document), nl=False)
            raise BadInput(traced.problem, remedy="name captures that tcpdump or Wireshark wrote: pcap or pcapng")
        # Of a run, those that are not what was taken.
        changed = [f"{one.name}: {why}" for one in captures if one.is_file() and (why := describe_change(one))]
        document["warnings"] = [*changed, *document["warnings"]]
        if are_strangers(document) and (number is not None or requests is not None):
            what = "these captures have no TCP packet in common, so that there are no requests of both"
            option = "--request" if number is not None else "--requests"
            raise BadInput(what, option, "name one capture alone, or two of the same traffic")
        times = array("d") if are_strangers(document) else request_choice.list_totals(lines)
        picked = None if are_strangers(document) else request_choice.choose_request(lines, times, number)
        tables = summarise_trace(document)
        # Where these are not all; before what fewer people read, which is everything but what the captures are.
        if len(times) > _SLOWEST and (slow := request_choice.list_slowest(lines, times, _SLOWEST)):
            tables.insert(1, list_slowest(slow))
        if requests is not None and _is_parquet(requests):
            parquet.write(lines, requests)
        if html is not None:
            _write(html, _render_page(captures, document, tables, picked, lines))
        if requests == _STDOUT:
            with lines.open(encoding="utf-8") as each:
                shutil.copyfileobj(each, sys.stdout)
    if _STDOUT in (html, requests):
        for warning in document["warnings"]:
            print_warning(warning)
    elif as_json:
        wanted: Mapping[str, Any] = document
        if number is not None and picked is not None:
            wanted = picked.line
            for warning in changed:
                print_warning(warning)
        click.echo(analyser.as_text(wanted), nl=False)
    else:
        console = console_for(False)
        _tell_trace(console, document, tables, picked)
        for what, file in (("page", html), ("requests", requests)):
            if file is not None:
                console.print(f"{what}: {words.strip_controls(str(file))}", soft_wrap=True)
    return ExitCode.DONE


def _check(captures: Sequence[Path], html: Path | None, requests: Path | None) -> None:
    if len(captures) > 2:
        what = f"{len(captures)} captures are more than the two ends of one traffic"
        raise BadInput(what, remedy="name one capture, or the client's and the server's")
    for capture in captures:
        if capture == analyser.STDIN and os.isatty(0):
            raise BadInput("nothing is piped in here", str(capture), "tcpdump -w - … | nearmetal trace -")
        if len(captures) > 1 and (capture.is_fifo() or capture.is_socket()):
            what = "two captures are read twice, and what another program pipes in can be read once"
            raise BadInput(what, str(capture), "write it to a file: tcpdump -w FILE")
    if len({capture.resolve() for capture in captures}) < len(captures):
        raise BadInput(
            "this is one capture twice, not both ends", str(captures[0]), "name the other end's, or one alone"
        )
    if html is not None:
        require_engine()
    if _is_parquet(requests):
        parquet.require_duckdb()
    elif requests is not None and requests.suffix in _OTHERS:
        remedy = f"name it {requests.stem}.jsonl or {requests.stem}{parquet.SUFFIX}"
        raise BadInput("requests are written as JSON lines or Parquet", str(requests), remedy)
    written = [file for file in (html, requests) if file is not None and file != _STDOUT]
    for file in written:
        try:
            _check_place(file, captures)
        except OSError as error:
            what = f"cannot write: {error.strerror or error}"
            raise BadInput(what, str(file), "name a file in a folder that can be written to") from None
    if len({file.resolve() for file in written}) < len(written):
        raise BadInput("the page and the lines cannot be one file", str(html), "name a file for each")


def _check_place(written: Path, captures: Sequence[Path]) -> None:
    """Whether a file can be made there. One that is there is replaced, unless it is a capture or no file at all."""
    another = "name another file to be written"
    if written.is_dir():
        raise BadInput("cannot write: this is a folder", str(written), "name a file in it")
    if not written.parent.is_dir():
        raise BadInput(f"cannot write: there is no folder {written.parent}", str(written), "make it, or " + another)
    if written.exists():
        if not written.is_file():
            raise BadInput("cannot write: this is not a regular file", str(written), another)
        if any(capture.exists() and written.samefile(capture) for capture in captures):
            raise BadInput("this is a capture to be read", str(written), another)


def _write(html: Path, page: str) -> None:
    if html == _STDOUT:
        click.echo(page, nl=False)
        return
    try:
        write_whole(html, page.encode())
    except OSError as error:
        what = f"cannot write the page: {error.strerror or error}"
        raise BadInput(what, str(html), "name a file in a folder that can be written to") from None


@contextmanager
def _open_lines(requests: Path | None) -> Iterator[Path]:
    """Where a line for each request goes: beside the user's file, which is replaced when all went well, or into one
    that is needed no longer afterwards."""
    if requests is None or requests == _STDOUT or _is_parquet(requests):
        with temporary_folder() as folder:
            yield folder / "requests.jsonl"
        return
    # A name that can be guessed could be a link in somebody else's folder, and the probe would write where it leads.
    unfinished = requests.with_name(f".{requests.name}.{secrets.token_hex(4)}")
    try:
        yield unfinished
        unfinished.replace(requests)
    finally:
        unfinished.unlink(missing_ok=True)


def _is_parquet(requests: Path | None) -> bool:
    return requests is not None and requests.suffix == parquet.SUFFIX


def _find_events(picked: ChosenRequest, document: analyser.Document) -> dict[str, float]:
    return events.find_events(picked.line, events.Clocks.from_document(document))


def _render_page(
    captures: Sequence[Path],
    document: analyser.Document,
    tables: Sequence[TraceTable],
    picked: ChosenRequest | None,
    lines: Path,
) -> str:
    one = (picked, told) if picked and len(told := _find_events(picked, document)) > 1 else None
    names = [capture.name for capture in captures]
    requests = [] if are_strangers(document) else request_choice.list_first(lines, page.MOST)
    return page.render_page(names, tables, one, requests, document["requests"], document["warnings"])


def _tell_trace(
    console: Console, document: analyser.Document, tables: Sequence[TraceTable], picked: ChosenRequest | None
) -> None:
    for one in tables:
        console.print(words.strip_controls(one.caption), style="bold")
        columns = [
            TextColumn(title, one.is_of_numbers(index), flows=title in _WORDS)
            for index, title in enumerate(one.columns)
        ]
        rows = [tuple(map(words.strip_controls, row)) for row in one.rows]
        console.print(fit_table(columns, rows, console.width, style=""))
        console.print()
    if picked is not None:
        console.print(f"Request {picked.number}: {words.strip_controls(ladder.describe_request(picked.line))}")
        for line in ladder.draw_ladder(_find_events(picked, document), console.width):
            console.print(line)
    for warning in document["warnings"]:
        console.print(f"warning: {words.strip_controls(warning)}")
