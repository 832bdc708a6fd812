"""Where things lie on this machine, and the limits on every wait."""

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path

from nearmetal.errors import BadInput


@dataclass(frozen=True)
class Paths:
    """The folders nearmetal writes to. `NEARMETAL_HOME` puts all of them below one folder."""

    cache: Path
    """Images and kernels: large, and can be made again."""
    state: Path
    """Ledgers, keys, machines that are up: small, and what `clean` needs."""
    runs: Path
    """Where `run` puts a new run when no folder is named."""

    @classmethod
    def default(cls) -> "Paths":
        home = os.environ.get("NEARMETAL_HOME")
        if home:
            base = Path(home)
            return cls(base / "cache", base / "state", base / "runs")
        from platformdirs import PlatformDirs

        folders = PlatformDirs("nearmetal")
        cache, state = folders.user_cache_path, folders.user_state_path
        if os.geteuid() == 0:  # what root does is the host's, unless somebody says where
            cache = cache if os.environ.get("XDG_CACHE_HOME") else Path("/var/cache/nearmetal")
            state = state if os.environ.get("XDG_STATE_HOME") else Path("/var/lib/nearmetal")
        return cls(cache, state, Path.cwd() / "runs")


@dataclass(frozen=True)
class Limits:
    """Seconds. Nothing waits without one."""

    command: float = 30.0
    """For a command that tells of no time of its own."""
    boot: float = 120.0
    """For a machine to come up."""
    stop: float = 15.0
    """For a program to end once it is told to."""
    trial_slack: float = 60.0
    """What a trial may take beyond the duration it declares."""
    proof: float = 10.0
    """What a guest may take to boot on real hardware; it takes less than one."""
    mute: float = 3.0
    """What a guest's agent may take to answer while all its CPUs are busy."""

    def scaled(self, patience: float) -> "Limits":
        return Limits(*(patience * limit for limit in astuple(self)))


def read_patience(environment: Mapping[str, str], cpuinfo: Path = Path("/proc/cpuinfo")) -> float:
    """How many times slower than real hardware this machine is assumed to be.

    `NEARMETAL_PATIENCE` names it. Otherwise it is 1, and 6 if QEMU emulates the processor: a kernel that is up in
    one second on hardware takes five to ten there. BadInput if the variable holds no number from 1 to 100.
    """
    named = environment.get("NEARMETAL_PATIENCE")
    if named is not None:
        with suppress(ValueError):
            if 1 <= float(named) <= 100:
                return float(named)
        raise BadInput(f"{named!r} is no number from 1 to 100", "NEARMETAL_PATIENCE", "unset it, or say 3, for example")
    try:
        with cpuinfo.open("rb") as file:
            first = file.read(2048)  # of the first processor: a host of hundreds takes long to list them all
    except OSError:
        return 1.0
    return _EMULATED if _EMULATORS.search(first) else 1.0


_EMULATED = 6.0
_EMULATORS = re.compile(rb"QEMU TCG CPU|CPU implementer\s*: 0x00\n(.*\n)*CPU part\s*: 0x051\n")
"""The second is the ARM processor `max` (QEMU's target/arm/tcg/cpu64.c), which only its emulation has."""

LIMITS = Limits().scaled(read_patience(os.environ))
