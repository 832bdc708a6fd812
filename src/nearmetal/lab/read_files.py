"""Files of a machine as a whole, and when they were read by its clock and by ours: by one exchange, and no program."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True)
class FilesRead:
    """What one exchange told. Seconds are of the controller's monotonic clock."""

    texts: Mapping[str, str]
    """By their paths. What could not be read is absent."""
    asked: float
    answered: float
    least_ns: int
    """The machine's CLOCK_REALTIME is ahead of the controller's by no less (RFC 5905, section 8)."""
    most_ns: int
    """By no more."""


@runtime_checkable
class MachineFileReader(Protocol):
    """A machine whose agent reads files by itself."""

    async def read_files(self, paths: Sequence[str]) -> FilesRead:
        """A few small regular files at once, bounded by the agent. MachineLost; ToolFailed if it does not do so."""
        ...
