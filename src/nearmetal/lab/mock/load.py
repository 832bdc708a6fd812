"""What `nearmetal-probe load` tells of a pretended server, whose requests all take as long. Pure."""

from typing import Any

from nearmetal.histograms import encode_value

_ERRORS = (
    *("client_timeout", "socket_timeout", "reset"),
    *("fd_unavailable", "address_unavailable", "fd_table_full", "unbegun", "other"),
)


def document(rate: float, done: int, seconds: float, is_up: bool) -> dict[str, Any]:
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
