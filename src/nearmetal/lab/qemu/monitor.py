"""QEMU's monitor, spoken to by QMP. One client at a time is served, so a connection is never kept."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final

from qemu.qmp import ConnectError, ExecuteError, QMPClient, QMPError

from nearmetal.config import LIMITS
from nearmetal.errors import MachineLost, NotProvisioned, ToolFailed
from nearmetal.lab.architecture import HERE
from nearmetal.lab.local_site import run_checked
from nearmetal.model import CpuModel, Hardware, Site, VirtualDisk

from . import disk_trouble
from .arguments import AGENT_PORT, MONITOR, SSH_PORT

_AGAIN = 0.005
_GIVEN: Final = "memory"
"""What QEMU calls the file that it is given."""
_FORWARD = re.compile(r"TCP\[HOST_FORWARD\]\s+\d+\s+127\.0\.0\.1\s+(\d+)\s+\S+\s+(\d+)\b")

CACHES: Final = {
    "writeback": (True, False, False),
    "none": (True, True, False),
    "writethrough": (False, False, False),
    "directsync": (False, True, False),
    "unsafe": (True, False, True),
}
"""Cache mode to what it stands for: a write cache that the guest sees, around the host's page cache, flushes ignored
(qemu-system(1), -drive cache=)."""

_PATIENCE = LIMITS.command
"""Seconds for an answer; a QEMU that was stopped gives none."""


class Monitor:
    """What this project asks of a running QEMU."""

    def __init__(self, client: QMPClient) -> None:
        self._client = client

    async def accelerator(self, asked: str) -> str:
        """What runs the guest. Only KVM and emulation tell of themselves; QEMU falls back to neither unasked."""
        answer: Any = await self._ask("query-kvm")
        if answer["enabled"]:
            return "kvm"
        return "tcg" if await self._emulates() else asked

    async def _emulates(self) -> bool:
        """Only emulation has translated anything."""
        try:
            await self._ask("x-query-jit")
        except MachineLost as error:
            if isinstance(error.__cause__, ExecuteError):
                return False
            raise
        return True

    async def hardware(self, accel: str, folder: str) -> Hardware:
        """All that QEMU itself tells, of a guest for which this accelerator was asked and whose disk lies there."""
        accel = await self.accelerator(accel)
        return Hardware(accel=accel, cpu_model=await self.cpu_model(), disk=await self.disk(folder))

    async def cpu_model(self) -> CpuModel:
        """The model of the first CPU, all being alike."""
        (first, *_) = await self._cpus()
        type_name: Any = await self._ask("qom-get", {"path": first["qom-path"], "property": "type"})
        defined: Any = await self._ask("query-cpu-definitions")
        lacking = next((one.get("unavailable-features", ()) for one in defined if one["typename"] == type_name), ())
        return CpuModel(name=str(type_name).removesuffix(HERE.cpu_type), lacking=tuple(lacking))

    async def version(self) -> str:
        """Such as "7.2.22 (Debian 1:7.2+dfsg-7)"."""
        told: Any = await self._ask("query-version")
        number = ".".join(str(told["qemu"][part]) for part in ("major", "minor", "micro"))
        return f"{number} ({told['package']})" if told["package"] else number

    async def board(self, asked: str) -> tuple[str, bool]:
        """The machine type, and whether it is the one that is asked for, by its name or an alias."""
        found: Any = await self._ask("qom-get", {"path": "/machine", "property": "type"})
        name = str(found).removesuffix("-machine")
        known: Any = await self._ask("query-machines")
        names = {one["name"]: (one["name"], one.get("alias")) for one in known}
        return name, asked in names.get(name, (name,))

    async def disk(self, folder: str) -> VirtualDisk:
        """The guest's disk, the only one it has, whose file lies in this folder."""
        answer: Any = await self._ask("query-block")
        inserted = next(one["inserted"] for one in answer if "inserted" in one)
        told = tuple(inserted["cache"][bit] for bit in ("writeback", "direct", "no-flush"))
        mode = next(name for name, bits in CACHES.items() if bits == told)
        return VirtualDisk(format=inserted["drv"], cache=mode, folder=folder)

    async def threads(self) -> list[int]:
        """The host's thread of each vCPU, by its number."""
        return [cpu["thread-id"] for cpu in await self._cpus()]

    async def _cpus(self) -> list[Any]:
        answer: Any = await self._ask("query-cpus-fast")
        return sorted(answer, key=lambda cpu: int(cpu["cpu-index"]))

    async def forwarded(self) -> dict[str, int]:
        """The ports on this host's loopback that lead to the guest's SSH server and its agent, as handles keep them."""
        answer = str(await self._ask("human-monitor-command", {"command-line": "info usernet"}))
        return {"ssh_port": find_port(answer, SSH_PORT), "agent_port": find_port(answer, AGENT_PORT)}

    async def trouble(self, name: str, folder: str) -> MachineLost:
        """Wait until the host cannot write or read the guest's disk: for ever, as a rule."""
        return await disk_trouble.wait_trouble(self._client.events, name, folder)

    async def go(self) -> None:
        await self._ask("cont")

    async def halt(self) -> None:
        """Stop the vCPUs where they are."""
        await self._ask("stop")

    async def save(self, memory: BinaryIO, limit: float) -> None:
        """Write a halted guest's state to a file, and its disk out. ToolFailed with QEMU's reason."""
        await self._move("migrate", memory, limit)

    async def load(self, memory: BinaryIO, limit: float) -> None:
        """Read the state of a guest that waits for it. ToolFailed with QEMU's reason."""
        await self._move("migrate-incoming", memory, limit)

    async def _move(self, command: str, file: BinaryIO, limit: float) -> None:
        self._client.send_fd_scm(file.fileno())
        await self._ask("getfd", {"fdname": _GIVEN})
        await self._ask(command, {"uri": f"fd:{_GIVEN}"})
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
            async with asyncio.timeout(_PATIENCE):
                return await self._client.execute(command, arguments)
        except QMPError as error:
            raise MachineLost(f"QEMU does not answer {command!r}: {error}") from error
        except TimeoutError:
            raise MachineLost(f"QEMU did not answer {command!r} within {_PATIENCE:g} s") from None


def find_port(usernet: str, inside: int) -> int:
    """From what `info usernet` says. ToolFailed when it forwards nothing to that port of the guest."""
    for outside, port in _FORWARD.findall(usernet):
        if int(port) == inside:
            return int(outside)
    raise ToolFailed(f"QEMU forwards nothing to the guest's port {inside}: {usernet.strip()[-300:]!r}")


async def pin_threads(site: Site, threads: Sequence[int], cpus: Sequence[int]) -> dict[int, int]:
    """Each vCPU on a CPU of its own where there are as many; the pairs that were pinned."""
    if len(threads) != len(cpus):
        return {}
    for thread, cpu in zip(threads, cpus, strict=True):
        await run_checked(site, "taskset", "--cpu-list", "--pid", str(cpu), str(thread))
    return dict(enumerate(cpus))


@asynccontextmanager
async def open_monitor(
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
