"""A container with a kernel of its own between it and the host's: gVisor's, Kata's, or whatever else is no runc.

The host sees such a container's control group and its network namespace, but not its processes.
"""

import asyncio
import contextlib
import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import PurePath

from nearmetal.config import LIMITS
from nearmetal.errors import MachineLost
from nearmetal.lab.containers.container import Container, Signal
from nearmetal.lab.local_site import run_checked

_ON_THE_HOSTS_KERNEL = frozenset({"runc", "crun", "youki", "io.containerd.runc.v1", "io.containerd.runc.v2"})
"""Runtimes that only set namespaces and groups up. Any other is served as if it did more, which suits these too."""

# It tells the number that the program will have inside, and then becomes the program.
_TELL = 'echo $$ >"$0" && exec "$@"'
_KILL = 'group=$(cat "$0"); for name; do kill -s "$name" -- "-$group" || exit; done'


def is_sandboxed(runtime: str) -> bool:
    """Whether containers of a runtime may have a kernel, and a network stack, of their own. By name or path; pure."""
    return PurePath(runtime).name not in _ON_THE_HOSTS_KERNEL


class SandboxedContainer(Container):
    """A `Machine` that an engine runs by such a runtime."""

    async def identify(self) -> None:
        """Learn the boot_id of its kernel, which tells that it has clocks and counters of its own."""
        self.boot_id = (await run_checked(self, "cat", "/proc/sys/kernel/random/boot_id")).decode().strip()

    def prepared(self, argv: Sequence[str], env: Mapping[str, str] | None) -> tuple[list[str], Signal]:
        launched, _ = super().prepared(argv, env)
        number = f"/run/nearmetal-{secrets.token_hex(8)}"
        return ["sh", "-c", _TELL, number, *launched], partial(self._signal_inside, number)

    @contextmanager
    def watched(self, abandon: Callable[[], None]) -> Iterator[None]:
        """The runtime leaves a command's streams open when its sandbox is killed, so that is looked out for."""
        loop = asyncio.get_running_loop()

        def died() -> None:
            loop.remove_reader(process)
            abandon()

        try:
            process = os.pidfd_open(self.first.pid)
        except ProcessLookupError:
            abandon()
            yield
            return
        loop.add_reader(process, died)
        try:
            yield
        finally:
            loop.remove_reader(process)
            os.close(process)

    async def _signal_inside(self, number: str, names: Sequence[str], _pid: int) -> None:
        """What the engine knows the command by is a process of the runtime's, which passes no signal on to a group."""
        with contextlib.suppress(MachineLost):
            killing = await self.start(["sh", "-c", _KILL, number, *names], None, b"")
            await killing.wait(LIMITS.stop)
