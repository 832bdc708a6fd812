"""Waiting for a machine to answer, by whatever its server speaks."""

import asyncio
import socket
from collections.abc import Awaitable, Callable

from nearmetal.lab.machines.init_process import wait_readable

Ready = Callable[[], Awaitable[bool]]

AGAIN = 0.02
"""Seconds until the next attempt after one was refused."""
_PATIENCE = 5.0
"""Seconds until a second attempt beside one that is silent: each costs the far side a process."""


async def first_to_speak(host: str, port: int, ready: Ready) -> socket.socket:
    """A TCP connection on which a server has begun to speak.

    A connection alone says nothing: QEMU's user-mode network accepts it before the guest exists, and what a guest
    without a network was sent is repeated only after seconds. `ready` is asked before each attempt and says whether to
    try; it may raise what makes waiting pointless.
    """
    attempts: set[asyncio.Task[socket.socket | None]] = set()
    try:
        while True:
            if not await ready():
                await asyncio.sleep(AGAIN)
                continue
            attempts.add(asyncio.create_task(_attempt(host, port)))
            done, attempts = await asyncio.wait(attempts, timeout=_PATIENCE, return_when=asyncio.FIRST_COMPLETED)
            spoke = [answering for task in done if (answering := task.result())]
            for superfluous in spoke[1:]:
                superfluous.close()
            if spoke:
                return spoke[0]
            if done:
                await asyncio.sleep(AGAIN)
    finally:
        for task in attempts:
            task.cancel()
        await asyncio.gather(*attempts, return_exceptions=True)


async def _attempt(host: str, port: int) -> socket.socket | None:
    """None when refused, or closed without a word."""
    connection = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    connection.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(connection, (host, port))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await wait_readable(connection)
        if connection.recv(1, socket.MSG_PEEK):
            return connection
    except OSError:
        pass
    except asyncio.CancelledError:
        connection.close()
        raise
    connection.close()
    return None
