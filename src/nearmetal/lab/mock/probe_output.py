"""What `nearmetal-probe sample` and `load` tell of pretended machines, which are busy a little."""

import json
import time
from collections.abc import Mapping
from typing import Any

from nearmetal.histograms import encode_value
from nearmetal.lab.mock.world import State
from nearmetal.model import CPU_STATES

_ERRORS = (
    *("client_timeout", "socket_timeout", "reset"),
    *("fd_unavailable", "address_unavailable", "fd_table_full", "unbegun", "other"),
)
_BUSY = {"usr": 40.0, "sys": 10.0, "idle": 50.0}


def sample_header(began: int) -> str:
    """The first line, of a sampler that began at this instant of CLOCK_MONOTONIC, in ns."""
    return _write_lines({"schema": "sample.header.v1", "time_ns": time.time_ns(), "monotonic_ns": began})


def sample_lines(state: State, began: int, ended: int) -> str:
    """All lines of a sampler that was stopped within its first interval."""
    elapsed = max(1, ended - began)
    usage = {"user_ns": elapsed // 1000, "system_ns": 0}
    end = {"schema": "sample.end.v1", "samples": 1, "missed": 0, "elapsed_ns": elapsed, "usage": usage}
    first = {"schema": "sample.header.v1", "time_ns": time.time_ns() - elapsed, "monotonic_ns": began}
    return _write_lines(first, _sample(state, began + elapsed, elapsed), end)


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


def _write_lines(*documents: Mapping[str, Any]) -> str:
    return "".join(json.dumps(document) + "\n" for document in documents)


def load_document(rate: float, done: int, seconds: float, is_up: bool) -> dict[str, Any]:
    """Of so many replies at a rate (1/s) in `seconds`, 0 for as long as they take; where nobody is, one is refused."""
    latency = 1e9 / rate
    elapsed = seconds or done / rate
    failed = 0 if is_up else 1
    status = {"2xx": done} if is_up else {}
    return {
        "schema": "load.v1",
        "elapsed_ns": round(elapsed * 1e9),
        "requests": {"sent": done + failed, "completed": done},
        "connections": {"opened": 1, "concurrent_max": 1, "burst_max": 1, "replies_each": float(done)},
        "rate": {"offered": None, "achieved": done / elapsed if elapsed else 0.0},
        "latency_ns": _spread(latency, done),
        "service_ns": _spread(latency, done),
        "connection_ns": _spread(latency, 1),
        "connect_ns": _spread(latency / 4, 1),
        "first_byte_ns": _spread(latency * 0.9, done),
        "transfer_ns": _spread(latency * 0.1, done),
        "lateness_ns": _spread(1000.0, done),
        "status": status,
        "status_in_window": status,
        "errors": {**dict.fromkeys(_ERRORS, 0), "refused": failed},
        "bytes": {"sent": done * 60, "header": done * 200, "body": done * 402},
        "cpu_ns": {"user": round(elapsed * 1e8), "system": round(elapsed * 1e8), "lasted": round(elapsed * 1e9)},
        "reply_rate": {"min": rate, "mean": rate, "max": rate, "stddev": 0.0, "samples": 1},
        "warnings": [],
        # Every request took as long as the middle one.
        "histogram": encode_value(round(latency), done, highest=60_000_000_000),
    }


def _spread(middle: float, count: int) -> dict[str, float]:
    names = ("mean", "median", "p50", "p90", "p95", "p99", "p999", "max")
    around = dict.fromkeys(names, middle) | {"min": middle * 0.5, "p99": middle * 3, "p999": middle * 5}
    return {**around, "max": middle * 9, "stddev": middle * 0.3, "count": count}
