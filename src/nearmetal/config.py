"""Where things lie on this machine, and the limits on every wait."""

import os
from dataclasses import dataclass
from pathlib import Path


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
    boot: float = 120.0
    stop: float = 15.0
    trial_slack: float = 60.0
    """What a trial may take beyond the duration it declares."""


LIMITS = Limits()
