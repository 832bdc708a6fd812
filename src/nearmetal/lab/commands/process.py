"""Commands on this host, as asyncio subprocesses. Argument vectors only; whatever is started ends with its caller."""

import asyncio
import contextlib
import errno
import os
import shlex
import signal
from collections.abc import Mapping, Sequence

from nearmetal.config import LIMITS
from nearmetal.errors import HostCannot, TimedOut
from nearmetal.lab.commands.background_commands import OutputCollector, list_signals, write_stdin
from nearmetal.lab.commands.command_errors import refuse_zero_bytes
from nearmetal.model import Completed

_REMEDIES = {
    errno.E2BIG: "give it fewer or shorter words",
    errno.EMFILE: "let a process have more files open: ulimit -n",
    errno.EAGAIN: "let a user have more processes: ulimit -u",
    errno.ENOMEM: "free some memory",
}
"""Where it is not the program's own fault."""


async def start(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
    stdin: int = asyncio.subprocess.PIPE,
) -> asyncio.subprocess.Process:
    """Start a program in a process group of its own. HostCannot when it does not start, BadInput for a zero byte."""
    refuse_zero_bytes(argv, env)
    try:
        return await asyncio.create_subprocess_exec(
            *argv,
            stdin=stdin,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, **(env or {})},
            pass_fds=pass_fds,
            start_new_session=True,
        )
    except FileNotFoundError:
        raise HostCannot(f"there is no program {argv[0]!r}", remedy="install the package that has it") from None
    except PermissionError:
        raise HostCannot(f"{argv[0]!r} may not be run", remedy="run nearmetal as root") from None
    except OSError as error:
        remedy = _REMEDIES.get(error.errno or 0, f"see what it is: file {shlex.quote(argv[0])}")
        raise HostCannot(f"{argv[0]!r} does not start: {error.strerror}", remedy=remedy) from error


async def run(
    argv: Sequence[str],
    *,
    stdin: bytes | int = b"",
    env: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
    timeout: float = LIMITS.command,
) -> Completed:
    """Run to the end. TimedOut when it does not come; then, and when cancelled, the whole group is killed.

    `stdin` is what it reads there, or the descriptor that it reads from.
    """
    source, written = (stdin, None) if isinstance(stdin, int) else (asyncio.subprocess.PIPE, stdin)
    process = await start(argv, env=env, pass_fds=pass_fds, stdin=source)
    running = LocalProcess(process)
    feeding = (
        asyncio.ensure_future(write_stdin(process.stdin, written)) if process.stdin and written is not None else None
    )
    try:
        return await running.wait(timeout)
    except TimedOut:
        raise TimedOut(f"`{' '.join(argv)[:200]}` did not end within {timeout:g} s") from None
    finally:
        if feeding:
            feeding.cancel()
        if not running.has_ended:
            await running.kill()


def exit_status(returncode: int | None) -> int:
    """As a shell tells it: 128 + signal for a program that was killed."""
    if returncode is None:
        raise AssertionError("the process has not ended")
    return 128 - returncode if returncode < 0 else returncode


class LocalProcess(OutputCollector):
    """A `SiteRunning` on top of a local process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.pid = process.pid
        super().__init__()

    async def collect_output(self) -> int:
        assert self._process.stdout is not None and self._process.stderr is not None
        try:
            await self.read_streams(self._process.stdout, self._process.stderr)
            return exit_status(await self._process.wait())
        except asyncio.CancelledError:
            # Given up: what left its group holds the other ends of its pipes, and ours would stay open as long as that.
            self._process._transport.close()  # type: ignore[attr-defined]  # asyncio gives no other way to it
            raise

    async def signal(self, number: signal.Signals) -> None:
        for one in list_signals(number):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, one)
