"""What is said and done when a program is told to end."""

import asyncio
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Coroutine, Iterator
from pathlib import Path

import pytest

from nearmetal.errors import LeftAtOnce
from nearmetal.progress_messages import Say, ignore_text
from nearmetal.system.interrupts import until_interrupted


@pytest.fixture(autouse=True)
def asyncio_warns_again() -> Iterator[None]:
    logger = logging.getLogger("asyncio")
    level = logger.level
    yield
    logger.setLevel(level)


def tell(number: signal.Signals = signal.SIGINT) -> None:
    os.kill(os.getpid(), number)


def is_finished(work: Coroutine[object, object, object], say: Say) -> bool:
    """Here, where leaving at once would be Ctrl-C to all tests."""
    try:
        return until_interrupted(work, say)
    except LeftAtOnce:
        pytest.fail("it left at once")


def test_whoever_waits_is_told_once_what_is_going_on_and_what_was_begun_is_tidied_up() -> None:
    said: list[str] = []
    done: list[str] = []

    async def work() -> None:
        try:
            tell(signal.SIGTERM)
            await asyncio.sleep(60)
        finally:
            tell(signal.SIGHUP)
            await asyncio.sleep(0.05)
            done.append("tidied up")

    assert not is_finished(work(), said.append)
    assert done == ["tidied up"]
    assert len(said) == 1 and "leaves at once" in said[0]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


LEAVING = """
import asyncio, os, signal, threading, time
from nearmetal.errors import LeftAtOnce
from nearmetal.system.interrupts import until_interrupted

async def in_the_middle_of_tidying_up():
    try:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(600)
    finally:
        {again}

try:
    until_interrupted(in_the_middle_of_tidying_up())
except LeftAtOnce:
    print("left", flush=True)
os._exit(4)
"""


@pytest.mark.parametrize(
    "again",
    [
        "os.kill(os.getpid(), signal.SIGINT); await asyncio.sleep(600)",
        "threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start(); time.sleep(600)",
        "threading.Timer(1.5, os.kill, (os.getpid(), signal.SIGTERM)).start(); await asyncio.sleep(600)",
    ],
    ids=["waiting", "deaf", "SIGTERM"],
)
def test_once_more_waits_for_nothing(again: str) -> None:
    """Whoever is left so has to end: by a process of its own, therefore."""
    script = [sys.executable, "-c", LEAVING.format(again=again)]
    ended = subprocess.run(script, capture_output=True, text=True, check=False, timeout=120)
    assert (ended.returncode, ended.stdout, ended.stderr) == (4, "left\n", "")


def test_sigterm_to_a_process_and_to_its_group_is_one() -> None:
    """As `timeout` sends it."""

    async def work() -> None:
        try:
            tell(signal.SIGTERM)
            await asyncio.sleep(60)
        finally:
            tell(signal.SIGTERM)
            await asyncio.sleep(0.05)

    assert not is_finished(work(), ignore_text)


DEAF = """
import asyncio, os, re, signal, threading
from nearmetal.system.interrupts import {run}

async def work():
    print("at work", flush=True)
    try:
        {deaf}
    finally:
        print("tidied up", flush=True)

try:
    assert not {run}(work())
except KeyboardInterrupt:
    pass
print("ended", flush=True)
os._exit(4)
"""


DEAFNESS = {
    "computing": "all(iter(lambda: True, False))",
    "pattern": "re.search('(a*)*b', 'a' * 40)",
    "file": "os.mkfifo(fifo := f'/proc/self/cwd/{os.getpid()}'); open(fifo)",
    "thread": "await asyncio.to_thread(threading.Event().wait)",
}
BUSY = (("computing", "run_until_done"), ("pattern", "until_interrupted"), ("pattern", "run_until_done"))
"""They take a CPU for a second each, and differ from the other in nothing that is ours."""


@pytest.mark.parametrize(
    ("deaf", "run"),
    [
        pytest.param(deaf, run, marks=[pytest.mark.long] if (deaf, run) in BUSY else [])
        for deaf in DEAFNESS
        for run in ("until_interrupted", "run_until_done")
    ],
)
def test_nothing_that_blocks_keeps_one_signal_from_ending_it(deaf: str, run: str, tmp_path: Path) -> None:
    script = [sys.executable, "-c", DEAF.replace("{run}", run).replace("{deaf}", DEAFNESS[deaf])]
    with subprocess.Popen(script, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "at work\n"
        process.send_signal(signal.SIGINT)
        try:
            assert process.stdout.read() == "tidied up\nended\n"
        finally:
            process.kill()


def test_a_terminal_that_is_gone_keeps_nobody_from_tidying_up(caplog: pytest.LogCaptureFixture) -> None:
    done: list[str] = []

    def say(text: str) -> None:
        raise OSError(5, "Input/output error")

    async def work() -> None:
        try:
            tell(signal.SIGHUP)
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.05)
            done.append("tidied up")

    assert not is_finished(work(), say)
    assert done == ["tidied up"]
    assert caplog.records == [], "asyncio tells there what a handler raises, and goes on"


CUT_OFF = """
import asyncio, os, random, signal, threading
from nearmetal.system.interrupts import until_interrupted

async def work():
    threading.Timer(0.05 + random.random() / 50, os.kill, (os.getpid(), signal.SIGINT)).start()
    while True:
        await (await asyncio.create_subprocess_exec("true")).wait()

for _ in range(12):
    assert not until_interrupted(work())
"""


def test_nothing_is_said_of_programs_that_were_being_started() -> None:
    script = [sys.executable, "-c", CUT_OFF]
    ended = subprocess.run(script, capture_output=True, text=True, check=False, timeout=120)
    assert (ended.returncode, ended.stderr) == (0, "")
