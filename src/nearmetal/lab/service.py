"""A program that serves while a workload runs, and where the kernel lets it run."""

import contextlib
import signal
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from nearmetal.errors import MachineError, TimedOut
from nearmetal.model import Completed, Machine, Running

_LAST_WORDS = 300
"""Characters that are told of what a program said before it ended."""


def is_killed(ended: Completed) -> bool:
    """Whether a signal ended it, as a shell tells it."""
    return 128 < ended.status <= 128 + signal.SIGRTMAX


def describe_end(program: str, ended: Completed) -> str:
    how = f"with status {ended.status}"
    with contextlib.suppress(ValueError):
        how = f"by {signal.Signals(ended.status - 128).name}"
    said = (ended.complaint or ended.text.strip())[-_LAST_WORDS:]
    return f"`{program}` ended {how}{f': {said}' if said else ', without a word'}"


class LabService:
    def __init__(self, machine: Machine, program: str, running: Running) -> None:
        self.machine = machine
        self.program = program
        self.ended: Completed | None = None
        """How it ended, as soon as somebody has asked."""
        self._running = running
        self._pid = ""
        """As the machine counts; "" for one that was not placed."""

    async def alive(self) -> bool:
        if self.ended is None:
            with contextlib.suppress(TimedOut):
                await self.wait(0)
        return self.ended is None

    async def wait(self, timeout: float) -> Completed:
        self.ended = self.ended or await self._running.wait(timeout)
        return self.ended

    async def stop(self) -> Completed:
        self.ended = self.ended or await self._running.stop()
        return self.ended

    async def learn_pid(self, file: str) -> None:
        """From a file that the probe writes as it becomes the program. Nobody needs it after that."""
        while not self._pid.endswith("\n") and await self.alive():
            self._pid = (await self.machine.exec(["cat", file])).text
        await self.machine.exec(["rm", "-f", file])

    async def has_left(self) -> bool:
        """Whether its process is gone, though what it started may go on and hold its output. MachineLost.

        False of one whose process id nobody learned.
        """
        return bool(self._pid) and await self._read_status() == {}

    async def read_cpus(self) -> str | None:
        """The CPUs that it may run on; None if it was not placed, or has ended. MachineLost."""
        if not self._pid or not await self.alive():
            return None
        return (await self._read_status()).get("Cpus_allowed_list")

    async def _read_status(self) -> Mapping[str, str]:
        """Of its process, as proc_pid_status(5) has it; empty if there is none, or one that has ended."""
        text = (await self.machine.exec(["cat", f"/proc/{self._pid.strip()}/status"])).text
        status = {name: value.strip() for name, _, value in (line.partition(":") for line in text.splitlines())}
        return {} if status.get("State", "").startswith("Z") else status


async def start_service(
    machine: Machine, argv: Sequence[str], env: Mapping[str, str] | None, cpu: int | None, number: int, name: str = ""
) -> LabService:
    """Start it, on this CPU if there is one that is meant for it. `number` is its own among those of a trial.

    `name` is what messages call one of the user's own. Of such a one the process id is learned in any case.
    """
    if cpu is None and not name:
        return LabService(machine, argv[0], await machine.spawn(argv, env=env))
    file = str(PurePosixPath(machine.probe).with_name(f"service-{number}.pid"))
    placed = [] if cpu is None else ["--cpus", str(cpu)]
    launch = [machine.probe, "launch", *placed, "--pid-file", file, "--", *argv]
    service = LabService(machine, name or argv[0], await machine.spawn(launch, env=env))
    try:
        await service.learn_pid(file)
    except BaseException:
        with contextlib.suppress(MachineError):  # with its machine, both are gone too
            await service.stop()
            await machine.exec(["rm", "-f", file])
        raise
    return service
