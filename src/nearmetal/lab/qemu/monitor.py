"""QEMU's monitor, spoken to by QMP. One client at a time is served, so a connection is never kept."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final

from qemu.qmp import ConnectError, QMPClient, QMPError

from nearmetal.errors import MachineLost, NotProvisioned, ToolFailed
from nearmetal.lab.site import must
from nearmetal.model import Site

from .arguments import MONITOR

_AGAIN = 0.005
_GIVEN: Final = "memory"
"""What QEMU calls the file that it is given."""
_FORWARD = re.compile(r"TCP\[HOST_FORWARD\]\s+\d+\s+127\.0\.0\.1\s+(\d+)\s+\S+\s+22\b")


class Monitor:
    """What this project asks of a running QEMU."""

    def __init__(self, client: QMPClient) -> None:
        self._client = client

    async def accelerator(self) -> str:
        """What runs the guest, whatever the command line said."""
        answer: Any = await self._ask("query-kvm")
        return "kvm" if answer["enabled"] else "tcg"

    async def threads(self) -> list[int]:
        """The host's thread of each vCPU, by its number."""
        answer: Any = await self._ask("query-cpus-fast")
        return [cpu["thread-id"] for cpu in sorted(answer, key=lambda cpu: int(cpu["cpu-index"]))]

    async def ssh_port(self) -> int:
        """The port on this host's loopback that leads to the guest's sshd."""
        answer = await self._ask("human-monitor-command", {"command-line": "info usernet"})
        return forwarded_port(str(answer))

    async def go(self) -> None:
        await self._ask("cont")

    async def halt(self) -> None:
        """Stop the vCPUs where they are."""
        await self._ask("stop")

    async def save(self, memory: BinaryIO, limit: float) -> None:
        """Write a halted guest's state to a file, and its disk out. ToolFailed with QEMU's reason."""
        await self._give(memory)
        await self._ask("migrate", {"uri": f"fd:{_GIVEN}"})
        await self._moved(limit)

    async def load(self, memory: BinaryIO, limit: float) -> None:
        """Read the state of a guest that waits for it. ToolFailed with QEMU's reason."""
        await self._give(memory)
        await self._ask("migrate-incoming", {"uri": f"fd:{_GIVEN}"})
        await self._moved(limit)

    async def _give(self, file: BinaryIO) -> None:
        self._client.send_fd_scm(file.fileno())
        await self._ask("getfd", {"fdname": _GIVEN})

    async def _moved(self, limit: float) -> None:
        try:
            async with asyncio.timeout(limit):
                while True:
                    answer: Any = await self._ask("query-migrate")
                    match answer.get("status"):
                        case "completed":
                            return
                        case "failed" | "cancelled":
                            raise ToolFailed(f"QEMU says: {answer.get('error-desc', answer['status'])}")
                    await asyncio.sleep(_AGAIN)
        except TimeoutError:
            raise ToolFailed(f"QEMU did not end it within {limit:g} s") from None

    async def _ask(self, command: str, arguments: dict[str, object] | None = None) -> object:
        try:
            return await self._client.execute(command, arguments)
        except QMPError as error:
            raise MachineLost(f"QEMU does not answer {command!r}: {error}") from error


def forwarded_port(usernet: str) -> int:
    """From what `info usernet` says. ToolFailed when there is no forwarded SSH port."""
    found = _FORWARD.search(usernet)
    if not found:
        raise ToolFailed(f"QEMU tells no forwarded SSH port: {usernet.strip()[-300:]!r}")
    return int(found[1])


async def pin(site: Site, threads: Sequence[int], cpus: Sequence[int]) -> dict[int, int]:
    """Each vCPU on a CPU of its own where there are as many; the pairs that were pinned."""
    if len(threads) != len(cpus):
        return {}
    for thread, cpu in zip(threads, cpus, strict=True):
        await must(site, "taskset", "--cpu-list", "--pid", str(cpu), str(thread))
    return dict(enumerate(cpus))


@asynccontextmanager
async def connected(
    site: Site, folder: str, limit: float, ended: Callable[[], Awaitable[str | None]]
) -> AsyncIterator[Monitor]:
    """The monitor of the QEMU whose folder this is, as soon as it listens.

    `ended` gives QEMU's last words once it is gone. NotProvisioned then, and when nothing listens within `limit`
    seconds.
    """
    client = QMPClient("nearmetal")
    async with site.socket(f"{folder}/{MONITOR}") as path:
        try:
            async with asyncio.timeout(limit):
                while not await _connect(client, path):
                    if (last_words := await ended()) is not None:
                        raise NotProvisioned(f"QEMU ended at once: {last_words}")
                    await asyncio.sleep(_AGAIN)
        except TimeoutError:
            raise NotProvisioned(f"QEMU's monitor did not answer within {limit:g} s") from None
        try:
            yield Monitor(client)
        finally:
            await client.disconnect()


async def _connect(client: QMPClient, path: str) -> bool:
    if not Path(path).is_socket():
        return False
    try:
        await client.connect(path)
    except ConnectError:
        return False
    return True
