"""Have the probe take captures apart."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearmetal.errors import BadInput, ToolFailed
from nearmetal.lab import probe
from nearmetal.lab.commands import process
from nearmetal.lab.commands.background_commands import limit_output

Document = dict[str, Any]
"""A `trace.v1`, see docs/trace.md."""

STDIN = Path("/dev/stdin")

PATIENCE = 600.0
"""Seconds: at a gigabyte a second and more, enough for any capture that a disk holds."""


@dataclass(frozen=True)
class TraceResult:
    """What is told of captures. `problem` says why a file of them is none, or could not be read to its end."""

    document: Document
    problem: str | None = None


async def analyse_captures(captures: Sequence[Path], requests: Path | None = None) -> TraceResult:
    """One capture, or both ends of the same traffic; to `requests` goes a line for each request.

    A capture can be what is piped in here, by the path that it has in /dev: the probe is given it. BadInput for a file
    that cannot be opened. ToolFailed when the probe tells nothing that can be read.
    """
    wanted = [] if requests is None else ["--requests", str(requests)]
    piped = [number for capture in captures if (number := find_descriptor(capture)) is not None]
    # What our own program tells of a capture is as long as that asks for.
    with limit_output(sys.maxsize):
        ended = await process.run(
            [str(probe.path()), "trace", "--json", *wanted, "--", *map(str, captures)],
            stdin=0 if 0 in piped else b"",
            pass_fds=[number for number in piped if number],
            timeout=PATIENCE,
        )
    said = ended.complaint.removeprefix("nearmetal-probe: ")
    try:
        document: Document = json.loads(ended.stdout)
    except ValueError:
        if not ended.stdout and said:
            remedy = "name a capture, or two of the same traffic: pcap or pcapng"
            if requests is not None and said.startswith("cannot write requests"):
                remedy = f"make room in {requests.parent}"
            elif requests is not None and said.startswith(f"cannot write {requests}"):
                remedy = "name a file in a folder that can be written to"
            raise BadInput(said, remedy=remedy) from None
        raise ToolFailed(f"the probe told nothing of the captures: {said[-300:] or 'no word'}", "trace") from None
    return TraceResult(document, said or None if ended.status else None)


def find_descriptor(capture: Path) -> int | None:
    """Of what this process has open already: 0 of /dev/stdin, 63 of /dev/fd/63."""
    name = "0" if capture == STDIN else capture.name if capture.parent == Path("/dev/fd") else ""
    return int(name) if name.isdecimal() else None


def as_text(document: Mapping[str, Any]) -> str:
    """A document, or a request's line, as the probe prints it."""
    return json.dumps(document, separators=(",", ":")) + "\n"
