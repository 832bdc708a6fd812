"""`nearmetal WORDS` in a process that need not import: it is forked from one that has imported all.

To import takes half a second of a CPU, and some tests ask dozens of times.
"""

import multiprocessing
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

from nearmetal import cli

_FORKING = multiprocessing.get_context("forkserver")
_FORKING.set_forkserver_preload(
    [__name__, "nearmetal.commands.by_hand", "nearmetal.by_hand.enter", "nearmetal.by_hand.up", "nearmetal.lab.clean"]
)


def run(*words: str, given: bytes, patience: float) -> "subprocess.CompletedProcess[bytes]":
    """As `subprocess.run` with this environment and folder. TimeoutExpired after `patience` seconds."""
    (stdin, feed), (out, stdout), (err, stderr) = (_FORKING.Pipe(duplex=False) for _ in range(3))
    command = ("nearmetal", *words)
    process = _FORKING.Process(
        target=_be_command, args=(command, dict(os.environ), str(Path.cwd()), (stdin, stdout, stderr))
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
    command: tuple[str, ...], environment: dict[str, str], folder: str, ends: tuple[Connection, ...]
) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for number, end in enumerate(ends):
        os.dup2(end.fileno(), number)
        end.close()
    sys.argv = list(command)
    sys.stdin, sys.stdout, sys.stderr = (open(number, mode, closefd=False) for number, mode in enumerate("rww"))  # noqa: SIM115
    cli.main()
