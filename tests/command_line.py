"""`nearmetal WORDS`, with what it said and its exit code: in this process, or in one of its own.

Starting a process and importing what it needs takes half a second of a CPU, and tests ask hundreds of times. So what a
command says and returns is asked here. What it does to its process, or starts from it, is asked of one that is forked.
Only signals, pipes, terminals, encodings, and whether a command finds all that it imports when it is the first, are
asked of processes that start.
"""

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import pytest

from nearmetal import cli
from nearmetal.report import drawing, write
from tests import fork_server
from tests.one_picture import OnePicture

Ended = subprocess.CompletedProcess[str]

_COLUMNS = {"COLUMNS": "250"}


_BREAKS = "and the report is without it"
"""What is said of a section of the report that breaks, where others go on."""


def called(*words: str, cwd: Path | None = None, environment: Mapping[str, str] | None = None) -> Ended:
    """In this process. A traceback is the test's. Reports have one picture, unless the test chose what draws them."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="", write_through=True) for _ in range(2))
    with (
        pytest.MonkeyPatch.context() as patched,
        contextlib.chdir(cwd or "."),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        if vars(write)["Drawers"] is drawing.Drawers:
            patched.setattr(write, "Drawers", OnePicture)
        patched.setattr(sys, "argv", ["nearmetal", *words])
        for name, value in {**_COLUMNS, **(environment or {})}.items():
            patched.setenv(name, value)
        with pytest.raises(SystemExit) as ended:
            cli.main()
    said = [stream.buffer.getvalue().decode() for stream in (out, err)]
    assert _BREAKS not in said[1]
    return Ended(["nearmetal", *words], int(ended.value.code or 0), *said)


def call(command: click.Command, **given: Any) -> Any:
    """What a command does, with these arguments; what it raises is the test's."""
    assert command.callback is not None
    return command.callback(**given)


def forked(
    *words: str,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
    broken: bool = False,
    patience: float = 120,
) -> Ended:
    """In a process of its own, which need not import. The rest as of `started`."""
    ended = fork_server.run(
        *words, cwd=cwd, environment={**os.environ, **_COLUMNS, **(environment or {})}, patience=patience
    )
    said = [stream.decode() for stream in (ended.stdout, ended.stderr)]
    assert (_BREAKS in said[1]) == broken
    return Ended(ended.args, ended.returncode, *said)


def started(
    *words: str,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
    broken: bool = False,
    patience: float = 120,
    program: Sequence[str] = (sys.executable, "-m", "nearmetal"),
) -> Ended:
    """In a process of its own. `broken` where a section of the report is to break; `patience` in seconds."""
    ended = subprocess.run(
        [*program, *words],
        capture_output=True,
        text=True,
        timeout=patience,
        cwd=cwd,
        env={**os.environ, **_COLUMNS, **(environment or {})},
    )
    assert (_BREAKS in ended.stderr) == broken
    return ended
