"""Running a program in a machine that is up, with this process' own stdin, stdout and stderr."""

import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager, nullcontext
from functools import partial
from types import FrameType
from typing import Any

from nearmetal.by_hand import marked_processes
from nearmetal.by_hand.entry_commands import build_command, open_entry
from nearmetal.by_hand.marked_processes import ContainerProcesses, HostProcesses, MarkedProcesses
from nearmetal.config import LIMITS
from nearmetal.errors import HostCannot, MachineLost, NotProvisioned
from nearmetal.lab.commands.process import exit_status
from nearmetal.lab.machines.registry import KeptMachine
from nearmetal.model import Completed, Door, Machine
from nearmetal.system import pipes
from nearmetal.system.interrupts import list_ending_signals, run_until_done

_DAY = 86400.0

Handler = Callable[[int, FrameType | None], None]


async def require_door(kept: KeptMachine) -> Door | None:
    """The machine's door, if its kind has one. MachineLost when the machine is gone, or cannot be reached."""
    if await kept.is_lost():
        raise MachineLost(
            "it is gone: it ended by itself, or its keeper died, and it too", kept.name, f"nearmetal down {kept.name}"
        )
    return await open_entry(kept)


def run(kept: KeptMachine, argv: Sequence[str], *, terminal: bool = False) -> int:
    """The program's status, 128 + signal for one that was killed. MachineLost."""
    door = run_until_done(require_door(kept))
    if door is None:
        return _run_without_door(kept, argv, terminal)
    with guard_if_needed(door) as marked:
        status, told_to_end = _run_with_own_streams(build_command(door, argv, terminal=terminal, mark=marked.mark))
        if door.leaves != "nothing" and (told_to_end or marked.is_running(status)):
            marked.end_all()
    if status == 0 and told_to_end and door.leaves != "nothing":
        # The engine's client calls it a success when it was told to end; the program did not come to its end.
        return 128 + told_to_end
    require_machine_after(status, kept, door)
    return status


def require_machine_after(status: int, kept: KeptMachine, door: Door) -> None:
    """MachineLost when the way in ended so because the machine is gone, or its engine."""
    if status != 0:
        run_until_done(require_door(kept))
    if status in door.own_failures:
        _require_answer(kept, build_command(door, ["true"]))


@contextmanager
def guard_if_needed(door: Door) -> Iterator[MarkedProcesses]:
    """Tells the mark of what is started within by a way in, which ends with this process at the latest."""
    marked = ContainerProcesses(partial(build_command, door)) if door.leaves == "hidden" else HostProcesses()
    with nullcontext() if door.leaves == "nothing" else marked_processes.guard_processes(marked):
        yield marked


def _require_answer(kept: KeptMachine, command: Sequence[str]) -> None:
    """A way in that tells its own failure by a status that a program may have too is asked once more."""
    try:
        asked = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=LIMITS.command
        )
    except subprocess.TimeoutExpired:
        said = f"nothing within {LIMITS.command:g} s"
    else:
        if asked.returncode == 0:
            return
        said = asked.stderr.strip()[-500:]
    raise MachineLost(f"it does not answer: {said}", kept.name, f"nearmetal down {kept.name}")


def start(command: Sequence[str], **streams: Any) -> "subprocess.Popen[bytes]":
    """A way into a machine, with these streams, else our own. HostCannot where there is no such program."""
    try:
        return subprocess.Popen(command, **streams)
    except FileNotFoundError:
        raise HostCannot(f"there is no program {command[0]!r}", remedy="install the package that has it") from None


@contextmanager
def handle_signals(handlers: Mapping[int, Handler]) -> Iterator[None]:
    """Signals, by their numbers, go to these meanwhile."""
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _run_with_own_streams(command: Sequence[str]) -> tuple[int, int]:
    """How it ended, and the last signal that it was told to end by, or 0."""
    process = start(command)
    with _pass_signals_on(process) as signals:
        status = process.wait()
    return exit_status(status), signals[-1] if signals else 0


@contextmanager
def _pass_signals_on(process: "subprocess.Popen[Any]") -> Iterator[list[int]]:
    """Signals are for the program: those of a terminal reach it by themselves, others are passed on. Yields those."""
    came: list[int] = []

    def pass_signal(number: int, frame: FrameType | None) -> None:
        came.append(number)
        process.send_signal(number)

    def reaches_it_too(number: int, frame: FrameType | None) -> None:
        came.append(number)
        if not sys.stdin.isatty():
            process.send_signal(number)

    with handle_signals(
        {number: reaches_it_too if number == signal.SIGINT else pass_signal for number in list_ending_signals()}
    ):
        yield came


def _run_without_door(kept: KeptMachine, argv: Sequence[str], terminal: bool) -> int:
    """By `Machine.exec`: the input is read first, and the output comes when the program has ended."""
    if terminal:
        raise HostCannot(
            f"a machine of kind {kept.environment!r} gives no terminal",
            kept.name,
            f"nearmetal exec {kept.name} -- COMMAND",
        )
    given = b"" if sys.stdin.isatty() else sys.stdin.buffer.read()
    ended = run_until_done(_exec(kept, argv, given))
    pipes.write_whole(sys.stdout.buffer, ended.stdout)
    pipes.write_whole(sys.stderr.buffer, ended.stderr)
    return ended.status


async def _exec(kept: KeptMachine, argv: Sequence[str], given: bytes) -> Completed:
    async with attach_machine(kept) as machine:
        return await machine.exec(argv, stdin=given, timeout=_DAY)


@asynccontextmanager
async def attach_machine(kept: KeptMachine) -> AsyncIterator[Machine]:
    """A machine that is reached without a door. NotProvisioned."""
    if kept.handle is None:
        raise NotProvisioned("it is not up yet", kept.name)
    from nearmetal import plugins
    from nearmetal.lab.site_registry import Sites

    plugin = plugins.load("environments", kept.handle.kind)
    async with aclosing(Sites({})) as open_site:
        yield await plugin.attach(kept.handle, await open_site(kept.handle.site))
