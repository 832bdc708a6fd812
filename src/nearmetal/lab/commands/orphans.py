"""Commands of a dead controller that go on for a moment: what they make must be there before it can be removed.

Machines end with their controller, a command that makes a part of one does not: killed in the middle it leaves a shell
that is about to make a control group, and a host under load lets that wait for longer than the next nearmetal takes to
look. All commands carry the token of their lab in their environment, which a shell hands on to whatever it starts.
"""

import asyncio
import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from nearmetal.config import LIMITS

VARIABLE = "NEARMETAL_LAB"
_AGAIN = 0.02


def sign_process(token: str) -> None:
    """From here on this process works for the lab with this token, and so does whatever it starts."""
    os.environ[VARIABLE] = token


def find_marked(variable: str, mark: str) -> Iterator[int]:
    """The processes of this host that were started with this mark in their environment, as far as we may see."""
    wanted = f"{variable}={mark}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                yield int(folder.name)


async def wait_settled(token: str, patience: float = LIMITS.stop) -> None:
    """Wait until whatever worked for a lab whose controller is dead has ended.

    Not for longer than `patience` seconds: a program may have stayed on purpose, as the service of a hypervisor does.
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(patience):
            while any(find_marked(VARIABLE, token)):  # noqa: ASYNC110 the kernel tells of no child of another
                await asyncio.sleep(_AGAIN)
