"""Processes that need not import: they are forked from one that has imported all. `nearmetal WORDS` is one.

To import takes half a second of a CPU, and tests ask hundreds of times. A test process has one such server, which
imports what `preload` named until the first process is forked.
"""

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from pkgutil import iter_modules

from nearmetal import cli, commands, environments, workloads
from nearmetal.report import write
from tests.one_picture import OnePicture

FORKING = multiprocessing.get_context("forkserver")
_PRELOADED = [
    __name__,
    *(one.name for of in (commands, environments, workloads) for one in iter_modules(of.__path__, f"{of.__name__}.")),
    *("nearmetal.by_hand.program", "nearmetal.by_hand.up", "nearmetal.lab.clean"),
]


def preload(*modules: str) -> None:
    """Have the server import these too. To be called on import: Python has one list, which the last call replaces."""
    _PRELOADED.extend(modules)
    FORKING.set_forkserver_preload(_PRELOADED)


preload()


def run(
    *words: str,
    given: bytes = b"",
    patience: float,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
    one_picture: bool = False,
) -> "subprocess.CompletedProcess[bytes]":
    """As `subprocess.run`, in this folder and environment if no others are given. What PYTHONPATH there names is
    imported from, too; other variables that Python reads as it starts do nothing. TimeoutExpired after `patience`
    seconds. Its reports can have one picture for all.
    """
    (stdin, feed), (out, stdout), (err, stderr) = (FORKING.Pipe(duplex=False) for _ in range(3))
    command = ("nearmetal", *words)
    process = FORKING.Process(
        target=_be_command,
        args=(command, dict(environment or os.environ), str(cwd or Path.cwd()), (stdin, stdout, stderr), one_picture),
    )
    process.start()
    for end in (stdin, stdout, stderr):
        end.close()
    with ThreadPoolExecutor(3) as threads:
        said = [threads.submit(_read, end) for end in (out, err)]
        threads.submit(_feed, feed, given)
        process.join(patience)
        if process.exitcode is None:
            process.kill()
            raise subprocess.TimeoutExpired(command, patience)
    return subprocess.CompletedProcess(command, process.exitcode, *(one.result() for one in said))


def _feed(end: Connection, given: bytes) -> None:
    # A command need not read all.
    with end, suppress(BrokenPipeError), open(end.fileno(), "wb", buffering=0, closefd=False) as file:
        left = memoryview(given)
        while left:
            left = left[file.write(left) :]


def _read(end: Connection) -> bytes:
    with end, open(end.fileno(), "rb", closefd=False) as file:
        return file.read()


def _be_command(
    command: tuple[str, ...],
    environment: dict[str, str],
    folder: str,
    ends: tuple[Connection, ...],
    one_picture: bool,
) -> None:
    if one_picture:
        vars(write)["Drawers"] = OnePicture
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.path[:0] = [one for one in environment.get("PYTHONPATH", "").split(":") if one and one not in sys.path]
    for number, end in enumerate(ends):
        os.dup2(end.fileno(), number)
        end.close()
    sys.argv = list(command)
    sys.stdin, sys.stdout, sys.stderr = (open(number, mode, closefd=False) for number, mode in enumerate("rww"))  # noqa: SIM115
    cli.main()
