"""How a machine ends that somebody kills: not by what destroys it, and without a word to who holds it."""

import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from nearmetal.errors import MachineLost
from nearmetal.lab.borrowed.borrowed_machine import BorrowedMachine
from nearmetal.lab.local_site import run_checked
from nearmetal.lab.machines.shared_kernel import SharedKernelMachine
from nearmetal.lab.mock.world import World
from nearmetal.lab.qemu import arguments
from nearmetal.lab.qemu.guest import Guest
from nearmetal.model import Handle, Machine


async def kill(handle: Handle, machine: Machine) -> None:
    """Skips, with the reason, where it is not known here how that is done."""
    if isinstance(machine, BorrowedMachine):
        await _end_its_login(machine)
    elif isinstance(machine, SharedKernelMachine):
        os.kill(machine.first.pid, signal.SIGKILL)
    elif isinstance(machine, Guest):
        (monitor,) = monitors(handle.name)
        os.kill(monitor, signal.SIGKILL)
    elif handle.kind == "mock":
        World(machine.site.name).kill(handle.name)
    elif handle.kind == "tempdir":
        shutil.rmtree(handle.data["folder"])
    else:
        pytest.skip(f"it is not known here what kills a machine of kind {handle.kind!r}")


def is_alive(machine: Machine) -> bool:
    """Whether it is more than the programs in it, so that they end with it."""
    return isinstance(machine, SharedKernelMachine | Guest | BorrowedMachine)


async def still_tells_its_cost(machine: Machine) -> bool:
    """As if it were there: after the moment that it takes to be taken apart."""
    for _ in range(100):
        try:
            if await machine.cost() is None:
                return False
        except MachineLost:
            return False
        await asyncio.sleep(0.05)
    return True


def monitors(name: str) -> list[int]:
    """Processes of QEMU that carry this machine's name, whoever started them."""
    # QEMU is given "NAME,…" by nearmetal, and "guest=NAME,…" by libvirt.
    return [
        number
        for number, words in _command_lines()
        if words[0].endswith(arguments.PROGRAM) and any(word.split(",")[0].split("=")[-1] == name for word in words)
    ]


def _command_lines() -> Iterator[tuple[int, list[str]]]:
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            yield int(process.name), (process / "cmdline").read_text(errors="replace").split("\0")


async def _end_its_login(machine: BorrowedMachine) -> None:
    """The SSH server's process at the far end of the machine's own connection, as when its host is cut off."""
    far_end = (await run_checked(machine, "sh", "-c", "echo $PPID")).decode().strip()
    await run_checked(machine.there, "kill", "-s", "KILL", far_end)
