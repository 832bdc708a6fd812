"""What is said and done when a program is told to end."""

import asyncio
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Coroutine, Iterator

import pytest

from nearmetal.errors import LeftAtOnce
from nearmetal.interrupts import until_interrupted
from nearmetal.say import Say


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
import asyncio, os, signal, threading
from nearmetal.errors import LeftAtOnce
from nearmetal.interrupts import until_interrupted

def tell():
    os.kill(os.getpid(), signal.SIGINT)

async def in_the_middle_of_tidying_up():
    try:
        tell()
        await asyncio.sleep(600)
    finally:
        tell()
        await asyncio.sleep(600)

async def while_a_thread_goes_on():
    asyncio.get_running_loop().run_in_executor(None, threading.Event().wait)
    try:
        tell()
        await asyncio.sleep(600)
    finally:
        threading.Timer(1, tell).start()

try:
    until_interrupted({work}())
except LeftAtOnce:
    print("left", flush=True)
os._exit(4)
"""


@pytest.mark.parametrize("work", ["in_the_middle_of_tidying_up", "while_a_thread_goes_on"])
def test_ctrl_c_once_more_waits_for_nothing(work: str) -> None:
    """Whoever is left so has to end: by a process of its own, therefore."""
    script = [sys.executable, "-c", LEAVING.format(work=work)]
    ended = subprocess.run(script, capture_output=True, text=True, check=False, timeout=120)
    assert (ended.returncode, ended.stdout, ended.stderr) == (4, "left\n", "")


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
from nearmetal.interrupts import until_interrupted

async def work():
    threading.Timer(0.05 + random.random() / 50, os.kill, (os.getpid(), signal.SIGINT)).start()
    while True:
        await (await asyncio.create_subprocess_exec("true")).wait()

for _ in range(30):
    assert not until_interrupted(work())
"""


def test_nothing_is_said_of_programs_that_were_being_started() -> None:
    script = [sys.executable, "-c", CUT_OFF]
    ended = subprocess.run(script, capture_output=True, text=True, check=False, timeout=120)
    assert (ended.returncode, ended.stderr) == (0, "")
