"""sysbench inside the machine under test: primes on the processor, or reads and writes of files."""

import contextlib
import json
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from nearmetal.errors import MachineError, ToolFailed
from nearmetal.model import Completed, Frozen, Machine, Measurement, Response, ResponseKind, Stage
from nearmetal.units import Bytes, show_size
from nearmetal.workloads import _sysbench_output as output
from nearmetal.workloads._parameters import Time, Whole
from nearmetal.workloads._stage import placed, succeeded

FOLDER = "/var/tmp/nearmetal-sysbench"
"""Where the files lie: on the machine's own disk, and always here, so that a run removes what a lost one left."""
SLACK = 45.0
"""Seconds beyond `duration`: sysbench finishes the event that it is in, and writes files back at the end."""
SLOWEST_DISK = 2 * 2**20
"""Bytes per second. Preparing files that goes slower than this is stuck."""

_FULL = b"No space left on device"

_READING = ("seqrd", "rndrd", "rndrw")
_WRITING = ("seqwr", "seqrewr", "rndwr", "rndrw")
_FILEIO_ONLY = ("total_size", "files", "mode", "block_size", "fsync", "cache")

EVENTS = ResponseKind(unit="1/s", better="higher")
BYTES = ResponseKind(unit="B/s", better="higher")
LATENCY = ResponseKind(unit="s", better="lower")


class SysbenchParameters(Frozen):
    test: Literal["cpu", "fileio"]
    threads: Annotated[Whole, Field(le=10_000)] = 1
    duration: Time = 10.0
    max_prime: Annotated[Whole, Field(ge=3)] = 20_000
    total_size: Annotated[Bytes, Field(ge=2**20)] = 2 * 2**30
    files: Annotated[Whole, Field(le=100_000)] = 128
    mode: Literal["seqwr", "seqrewr", "seqrd", "rndrd", "rndwr", "rndrw"] = "rndrw"
    block_size: Annotated[Bytes, Field(ge=512)] = 16 * 2**10
    fsync: Annotated[int, Field(strict=True, ge=0)] = 100
    cache: Literal["page", "direct"] = "page"

    @field_validator("duration")
    @classmethod
    def _whole_seconds(cls, value: float) -> float:
        if value != int(value):
            raise ValueError(f'sysbench counts in whole seconds; write "{max(1, round(value))}s"')
        return value

    @model_validator(mode="after")
    def _go_together(self) -> "SysbenchParameters":
        if self.test == "cpu":
            for name in _FILEIO_ONLY:
                if name in self.model_fields_set:
                    raise ValueError(f'`{name}` needs test = "fileio": remove it, or change the test')
        elif "max_prime" in self.model_fields_set:
            raise ValueError('`max_prime` needs test = "cpu": remove it, or change the test')
        if self.total_size // self.files < self.block_size:
            raise ValueError(
                f"{self.files} files of {self.total_size} bytes together are each smaller than a block of "
                f"{self.block_size}: give a larger `total_size` or fewer `files`"
            )
        return self


class Sysbench:
    kind: ClassVar[str] = "sysbench"
    Parameters: ClassVar[type[Frozen]] = SysbenchParameters

    def __init__(self, parameters: SysbenchParameters) -> None:
        self._parameters = parameters

    @property
    def responses(self) -> Mapping[str, ResponseKind]:
        given = self._parameters
        if given.test == "cpu":
            return {"events": EVENTS, "latency_mean": LATENCY}
        read = {"read": BYTES} if given.mode in _READING else {}
        written = {"written": BYTES} if given.mode in _WRITING else {}
        return {**read, **written, "latency_mean": LATENCY}

    @property
    def primary(self) -> str:
        return next(iter(self.responses))

    @property
    def duration(self) -> float:
        return self._parameters.duration

    @property
    def limit(self) -> float:
        return self._parameters.duration

    async def prepare(self, stage: Stage) -> None:
        if self._parameters.test == "fileio":
            server = stage.servers[0]
            succeeded(await server.exec(["mkdir", "-p", "-m", "700", FOLDER]), f"mkdir {FOLDER}", server)
            await self._step(server, "cleanup")
            await self._step(server, "prepare")

    async def finish(self, stage: Stage) -> None:
        if self._parameters.test == "fileio":
            with contextlib.suppress(MachineError):  # with its machine, the files are gone too
                await stage.servers[0].exec(["rm", "-rf", FOLDER], timeout=SLACK)

    async def run(self, stage: Stage) -> Measurement:
        server = stage.servers[0]
        argv = self._cpu() if self._parameters.test == "cpu" else [*self._fileio(), "run"]
        (ended,) = await stage.together([(server, placed(stage, server, argv))], self._parameters.duration + SLACK)
        return self.measurement(succeeded(ended, "sysbench", server))

    def measurement(self, ended: Completed) -> Measurement:
        """What a run's output says. Pure. ToolFailed when a figure is missing."""
        found = output.figures(ended.text)
        kinds = self.responses
        return Measurement(
            responses={
                name: Response(value=self._value(name, found), **kind.model_dump()) for name, kind in kinds.items()
            },
            events=output.events(found),
            artifacts={"sysbench.txt": ended.stdout, "sysbench.json": json.dumps(found, indent=1).encode()},
        )

    def _value(self, response: str, found: output.Figures) -> float:
        # The printed MiB/s have two decimals; operations have as many of a number thousands of times as large.
        block = self._parameters.block_size
        match response:
            case "events":
                return output.events_per_second(found)
            case "read":
                return output.operations_per_second(found, "reads/s") * block
            case "written":
                return output.operations_per_second(found, "writes/s") * block
            case _:
                return output.mean_latency(found)

    def _cpu(self) -> list[str]:
        given = self._parameters
        return [
            "sysbench",
            "cpu",
            f"--cpu-max-prime={given.max_prime}",
            f"--threads={given.threads}",
            f"--time={given.duration:.0f}",
            "run",
        ]

    def _fileio(self) -> list[str]:
        given = self._parameters
        return [
            "env",
            f"--chdir={FOLDER}",
            "sysbench",
            "fileio",
            f"--file-total-size={given.total_size}",
            f"--file-num={given.files}",
            f"--file-block-size={given.block_size}",
            f"--file-test-mode={given.mode}",
            f"--file-fsync-freq={given.fsync}",
            *(["--file-extra-flags=direct"] if given.cache == "direct" else []),
            f"--threads={given.threads}",
            f"--time={given.duration:.0f}",
        ]

    async def _step(self, server: Machine, step: str) -> None:
        limit = SLACK + self._parameters.total_size / SLOWEST_DISK
        ended = await server.exec([*self._fileio(), step], timeout=limit)
        if ended.status != 0 and _FULL in ended.stdout + ended.stderr:
            raise ToolFailed(
                f"its disk is full: {show_size(self._parameters.total_size)} of files do not fit",
                server.name,
                "give a smaller `total_size`, or free some space; a guest's disk of the lab's image has 10 GiB",
            )
        succeeded(ended, f"sysbench fileio {step}", server)


plugin = Sysbench
