"""sysbench inside the machine under test: primes on the processor, or reads and writes of files."""

import contextlib
import json
from typing import ClassVar

from nearmetal.errors import MachineError, ToolFailed
from nearmetal.lab.machines import scratch
from nearmetal.model import Completed, Frozen, Machine, Measurement, Stage
from nearmetal.units import show_size
from nearmetal.workloads._stage import require_success
from nearmetal.workloads.sysbench import cache, output
from nearmetal.workloads.sysbench.parameters import SysbenchParameters

SLACK = 45.0
"""Seconds beyond `duration`: sysbench finishes the event that it is in, and writes files back at the end."""
SLOWEST_DISK = 2 * 2**20
"""Bytes per second. Preparing files that goes slower than this is stuck."""

USUAL_DISK = 100e6
"""Bytes per second. The host itself was seen to take in four times as much, an emulated guest half of it."""

_FULL = b"No space left on device"


def file_folder(server: Machine) -> str:
    """Where the files lie: on the machine's own disk. Pure."""
    return scratch.name_scratch(server.name, "/var/tmp", "sysbench")


class Sysbench:
    kind: ClassVar[str] = "sysbench"
    Parameters: ClassVar[type[Frozen]] = SysbenchParameters
    has_clients: ClassVar[bool] = False

    def __init__(self, parameters: SysbenchParameters) -> None:
        self._parameters = parameters
        self.responses = output.list_kinds(parameters)
        self.primary = next(iter(self.responses))
        self.duration = parameters.expected_seconds
        self.preparing = parameters.total_size / USUAL_DISK if parameters.test == "fileio" else 0.0
        self.limit = parameters.longest_seconds
        self._cache: cache.Cache | None = None
        """What came of dropping it, where that was asked for."""

    @property
    def _file_limit(self) -> float:
        """Seconds for what writes all files."""
        return SLACK + self._parameters.total_size / SLOWEST_DISK

    async def prepare(self, stage: Stage) -> None:
        if self._parameters.test == "fileio":
            server = stage.servers[0]
            # One that is there already may be somebody else's, whose links lead elsewhere: it is removed, not taken.
            folder = file_folder(server)
            for step in (["rm", "-rf", folder], ["mkdir", "-m", "700", folder]):
                require_success(await server.exec(step, timeout=SLACK), f"{step[0]} {folder}", server)
            await self._write_files(server)
            if self._parameters.cache == "dropped":
                self._cache = await cache.drop_cache(server, folder, self._parameters.total_size, self._file_limit)

    async def finish(self, stage: Stage) -> None:
        if self._parameters.test == "fileio":
            with contextlib.suppress(MachineError):  # with its machine, the files are gone too
                await stage.servers[0].exec(["rm", "-rf", file_folder(stage.servers[0])], timeout=SLACK)

    async def run(self, stage: Stage) -> Measurement:
        server = stage.servers[0]
        kept = {"cache.json": self._cache.document} if self._cache else {}
        if self._cache and self._cache.problem:
            return Measurement(responses={}, events=0, artifacts=kept, invalid=self._cache.problem)
        given = self._parameters
        argv = self._make_cpu_command() if given.test == "cpu" else [*self._make_fileio_command(server), "run"]
        (ended,) = await stage.together([(server, argv)], given.longest_seconds + SLACK)
        found = self.make_measurement(require_success(ended, "sysbench", server))
        doubts = cache.list_warnings(server, stage.spec, given) if given.test == "fileio" else []
        return found.model_copy(update={"artifacts": {**found.artifacts, **kept}, "warnings": tuple(doubts)})

    def make_measurement(self, ended: Completed) -> Measurement:
        """What a run's output says. Pure. ToolFailed when a figure is missing."""
        found = output.parse_figures(ended.text)
        return Measurement(
            responses=output.make_responses(found, self._parameters),
            events=output.require_events(found),
            artifacts={"sysbench.txt": ended.stdout, "sysbench.json": json.dumps(found, indent=1).encode()},
        )

    def _make_cpu_command(self) -> list[str]:
        given = self._parameters
        until = [f"--time={given.duration:.0f}"] if given.events is None else [f"--events={given.events}", "--time=0"]
        return ["sysbench", "cpu", f"--cpu-max-prime={given.max_prime}", f"--threads={given.threads}", *until, "run"]

    def _make_fileio_command(self, server: Machine) -> list[str]:
        given = self._parameters
        return [
            "env",
            f"--chdir={file_folder(server)}",
            "sysbench",
            "fileio",
            f"--file-total-size={given.total_size}",
            f"--file-num={given.files}",
            f"--file-block-size={given.block_size}",
            f"--file-test-mode={given.mode}",
            f"--file-fsync-freq={given.fsync}",
            f"--file-fsync-all={'on' if given.fsync_all else 'off'}",
            f"--file-fsync-end={'on' if given.fsync_end else 'off'}",
            f"--file-fsync-mode={given.fsync_mode}",
            *(["--file-extra-flags=direct"] if given.cache == "direct" else []),
            f"--threads={given.threads}",
            f"--time={given.duration:.0f}",
        ]

    async def _write_files(self, server: Machine) -> None:
        ended = await server.exec([*self._make_fileio_command(server), "prepare"], timeout=self._file_limit)
        if ended.status != 0 and _FULL in ended.stdout + ended.stderr:
            raise ToolFailed(
                f"its disk is full: {show_size(self._parameters.total_size)} of files do not fit",
                server.name,
                "give a smaller `total_size`, or free some space; a guest's disk of the lab's image has 10 GiB",
            )
        require_success(ended, "sysbench fileio prepare", server)


plugin = Sysbench
