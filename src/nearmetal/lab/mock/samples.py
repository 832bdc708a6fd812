"""What `nearmetal-probe sample` tells of a pretended machine, whose CPUs have a little to do."""

import json
import time
from collections.abc import Mapping
from typing import Any

from nearmetal.lab.mock.world import State
from nearmetal.model import CPU_STATES

_BUSY = {"usr": 40.0, "sys": 10.0, "idle": 50.0}


def header(began: int) -> str:
    """The first line, of a sampler that began at this instant of CLOCK_MONOTONIC, in ns."""
    return _lines({"schema": "sample.header.v1", "time_ns": time.time_ns(), "monotonic_ns": began})


def whole(state: State, began: int, ended: int) -> str:
    """All lines of a sampler that was stopped within its first interval."""
    elapsed = max(1, ended - began)
    usage = {"user_ns": elapsed // 1000, "system_ns": 0}
    end = {"schema": "sample.end.v1", "samples": 1, "missed": 0, "elapsed_ns": elapsed, "usage": usage}
    first = {"schema": "sample.header.v1", "time_ns": time.time_ns() - elapsed, "monotonic_ns": began}
    return _lines(first, _sample(state, began + elapsed, elapsed), end)


def _sample(state: State, now: int, elapsed: int) -> Mapping[str, Any]:
    """As much of sample.v1 as is averaged."""
    shares = {**dict.fromkeys(CPU_STATES, 0.0), **_BUSY}
    traffic = {"bytes": 402 * elapsed // 10**6, "packets": elapsed // 10**6, "errors": 0, "dropped": 0}
    return {
        "schema": "sample.v1",
        "time_ns": time.time_ns(),
        "monotonic_ns": now,
        "elapsed_ns": elapsed,
        "cpus": dict.fromkeys((*map(str, range(state.get("vcpus", 1))), "all"), shares),
        "context_switches": 0,
        "interrupts": {},
        "disks": {},
        "interfaces": {"data": {"received": traffic, "sent": traffic}},
        "memory": {"total": state.get("memory", 512 * 2**20), "used": 2**26},
        "pressure": {},
        "cgroups": {},
    }


def _lines(*documents: Mapping[str, Any]) -> str:
    return "".join(json.dumps(document) + "\n" for document in documents)
