"""What is known of the host beside its runs: machines that are up, and calibrations that are kept."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class MachineLine:
    """A machine that is written down as up. Nobody asks it anything."""

    name: str
    environment: str
    cpus: str
    """In cpuset notation."""
    made: str
    """ISO 8601."""


@dataclass(frozen=True)
class CalibrationLine:
    """The last calibration of an environment, under this kernel."""

    environment: str
    verdict: str
    made: str
    """ISO 8601."""
    trials: int


@dataclass(frozen=True)
class HostState:
    machines: Sequence[MachineLine] = ()
    calibrations: Sequence[CalibrationLine] = ()


LookAtHost = Callable[[], HostState]
