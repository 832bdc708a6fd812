"""What must be gone when a test is over."""

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from nearmetal.config import Paths

_MOMENT = 5.0
"""Seconds for what ends by itself: an engine's own process beside a command outlives its container by a little."""


def stays(token: str) -> list[str]:
    """What still carries the token after a moment."""
    return after_a_moment(lambda: remains(token))


def after_a_moment(look: Callable[[], list[str]], moment: float = _MOMENT) -> list[str]:
    """What one still sees then."""
    until = time.monotonic() + moment
    while (found := look()) and time.monotonic() < until:
        time.sleep(0.05)
    return found


def groups(word: str) -> list[Path]:
    """Control groups of this host that have a word in their names. Others' come and go meanwhile, and would break
    `rglob`."""
    walked = os.walk("/sys/fs/cgroup")
    return sorted(Path(folder, name) for folder, names, _ in walked for name in names if word in name)


def remains(token: str) -> list[str]:
    """Everything on this host that carries the token: processes, mounts, namespaces, links, groups, folders."""
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if any(token.encode() in word for word in words) and process.name != str(os.getpid()):
            found.append(f"process {process.name}: {b' '.join(words)[:200]!r}")
    found += [f"mount {line}" for line in Path("/proc/mounts").read_text().splitlines() if token in line]
    found += [f"group {path}" for path in Path("/sys/fs/cgroup").glob(f"*/nearmetal-{token}*")]
    found += [f"group {path}" for path in Path("/sys/fs/cgroup").glob(f"nearmetal-{token}*")]
    found += [f"folder {path}" for path in Paths.default().state.glob(f"machines/*{token}*")]
    for argv in (["ip", "netns", "list"], ["ip", "link"]):
        listed = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
        found += [f"{argv[1]} {line}" for line in listed.splitlines() if token in line]
    return found
