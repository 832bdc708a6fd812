"""What a [[workloads]] entry of kind "sysbench" may say, and what of it goes together."""

from typing import Annotated, Literal

from pydantic import Field, StrictBool, field_validator, model_validator

from nearmetal.model import Frozen, Whole
from nearmetal.units import Bytes
from nearmetal.workloads._parameters import Time

_READING = ("seqrd", "rndrd", "rndrw")
_WRITING = ("seqwr", "seqrewr", "rndwr", "rndrw")
_FSYNC = ("fsync_all", "fsync_end", "fsync_mode")
_CPU_ONLY = ("max_prime", "events")
_FILEIO_ONLY = ("total_size", "files", "mode", "block_size", "fsync", *_FSYNC, "cache")

USUAL_RATE = 1000.0
"""Events per second of one thread with the default `max_prime`, on a processor of today."""
SLOWEST_RATE = 20.0
"""Events per second of an emulated guest on a busy host. What is slower than this is stuck."""


class SysbenchParameters(Frozen):
    test: Literal["cpu", "fileio"]
    threads: Annotated[Whole, Field(le=10_000)] = 1
    duration: Time = 10.0
    events: Whole | None = None
    """So many and then no more, whatever time that takes, in place of `duration`."""
    max_prime: Annotated[Whole, Field(ge=3)] = 20_000
    total_size: Annotated[Bytes, Field(ge=2**20)] = 2 * 2**30
    files: Annotated[Whole, Field(le=100_000)] = 128
    mode: Literal["seqwr", "seqrewr", "seqrd", "rndrd", "rndwr", "rndrw"] = "rndrw"
    block_size: Annotated[Bytes, Field(ge=512)] = 16 * 2**10
    fsync: Annotated[int, Field(strict=True, ge=0)] = 100
    fsync_all: StrictBool = False
    fsync_end: StrictBool = True
    fsync_mode: Literal["fsync", "fdatasync"] = "fsync"
    cache: Literal["page", "dropped", "direct"] = "page"

    @property
    def expected_seconds(self) -> float:
        """Of measuring, as near as can be told beforehand."""
        return self.duration if self.events is None else self.events * self._cost / USUAL_RATE

    @property
    def longest_seconds(self) -> float:
        return self.duration if self.events is None else self.events * self._cost / SLOWEST_RATE

    @property
    def _cost(self) -> float:
        """Of an event, in those of the default `max_prime`: each number is divided by those up to its root."""
        return float((self.max_prime / 20_000) ** 1.5)

    @property
    def reads(self) -> bool:
        return self.test == "fileio" and self.mode in _READING

    @property
    def writes(self) -> bool:
        return self.test == "fileio" and self.mode in _WRITING

    @property
    def syncs(self) -> bool:
        """Whether there are fsyncs while it runs, and not at its end alone."""
        return self.writes and (self.fsync_all or self.fsync > 0)

    @field_validator("duration")
    @classmethod
    def _whole_seconds(cls, value: float) -> float:
        if value != int(value):
            raise ValueError(f'sysbench counts in whole seconds; write "{max(1, round(value))}s"')
        return value

    @model_validator(mode="after")
    def _go_together(self) -> "SysbenchParameters":
        others, test = (_FILEIO_ONLY, "fileio") if self.test == "cpu" else (_CPU_ONLY, "cpu")
        for name in others:
            if name in self.model_fields_set:
                raise ValueError(f'`{name}` needs test = "{test}": remove it, or change the test')
        if self.events is not None and "duration" in self.model_fields_set:
            raise ValueError("`duration` and `events` exclude each other: remove one")
        if self.total_size // self.files < self.block_size:
            raise ValueError(
                f"{self.files} files of {self.total_size} bytes together are each smaller than a block of "
                f"{self.block_size}: give a larger `total_size` or fewer `files`"
            )
        return self

    @model_validator(mode="after")
    def _fsync_goes_together(self) -> "SysbenchParameters":
        """sysbench would take these, and do as if one of the two had not been said."""
        given = self.model_fields_set
        for name in _FSYNC:
            if self.test == "fileio" and not self.writes and name in given:
                raise ValueError(f'`{name}` means nothing with mode = "{self.mode}", which writes nothing: remove it')
        for name in ("fsync", "fsync_end"):
            if self.fsync_all and name in given:
                raise ValueError(f"`{name}` means nothing with `fsync_all`, after every write: remove one of the two")
        if "fsync_mode" in given and not (self.syncs or self.fsync_end):
            raise ValueError(
                "`fsync_mode` means nothing where nothing is synced: remove it, or set `fsync`, `fsync_all` or "
                "`fsync_end`"
            )
        return self
