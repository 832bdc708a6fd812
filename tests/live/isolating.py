"""`nearmetal isolate` on this very host, as a user has it, and what the host is to be like afterwards."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from nearmetal.isolate import active_isolation
from nearmetal.isolate.host import KNOBS
from tests.command_line import forked

from .snapshot import placement, snapshot

State = tuple[dict[str, str], list[str]]


def nearmetal(*words: str) -> "subprocess.CompletedProcess[str]":
    ended = forked(*words)
    assert "Traceback" not in ended.stderr
    return ended


def state() -> State:
    """Where everybody may run, and every sysctl."""
    return placement(), snapshot()["sysctls"]


def same(before: State, after: State) -> None:
    """Of what was there both times. Who came or went meanwhile can have been no different before."""
    both = before[0].keys() & after[0].keys()
    assert len(both) > 40
    assert {name: after[0][name] for name in both} == {name: before[0][name] for name in both}
    assert [line for line in after[1] if line.startswith(tuple(KNOBS))] == [
        line for line in before[1] if line.startswith(tuple(KNOBS))
    ]
    assert before[1] == after[1]


@contextmanager
def given_back() -> Iterator[State]:
    """The host as it was, and as it is to be when all is over."""
    found = state()
    try:
        yield found
    finally:
        nearmetal("clean")
    same(found, state())
    assert not active_isolation.ledger_path().exists()


def killed_at(count: int, operation: str, delay: float, *words: str) -> bool:
    """Kill -9 once the ledger has so many lines of an operation, and a moment later; whether it was soon enough.

    Whole lines: one longer than a page shows before all of it is written, and what dies meanwhile leaves it cut.
    """
    process = subprocess.Popen([sys.executable, "-m", "nearmetal", "isolate", *words], stdout=subprocess.DEVNULL)
    ledger, wanted = active_isolation.ledger_path(), f'"op":"{operation}"'
    while process.poll() is None:
        text = ledger.read_text().replace(" ", "") if ledger.exists() else ""
        if text[: text.rfind("\n") + 1].count(wanted) >= count:
            time.sleep(delay)
            process.send_signal(signal.SIGKILL)
            break
        time.sleep(0.0005)
    return process.wait(60) == -signal.SIGKILL


def way() -> str:
    """How programs are moved here: "cpuset" or "affinities"."""
    told: dict[str, str] = json.loads(nearmetal("isolate", "plan", "--json").stdout)["way"]
    return told["by"]


def cpus(pid: int) -> set[int]:
    return os.sched_getaffinity(pid)


CPUS = sorted(os.sched_getaffinity(0))
OTHER, CPU = CPUS[0], CPUS[-1]
"""A CPU that stays everybody's, and the one that is isolated when none is named."""
