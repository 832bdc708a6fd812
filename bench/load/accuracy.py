"""How exact the generator is: spacing as the server sees it, the truth of a stall, a known delay, many connections."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

from bed import Bed, serving
from pacing import URL, pacing
from relay import relay


def load(bed: Bed, probe: str, *options: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(bed.run([probe, "load", URL, "--json", *options]).output)
    return document


def accuracy(bed: Bed, probe: str, floors: Path | None, seconds: float, rounds: int) -> bool:
    """Print one table for each property; whether all goals were met."""
    return all(
        [
            pacing(bed, probe, floors, seconds, rounds),
            stall(bed, probe, max(seconds, 5.0)),
            delay(bed, probe, seconds),
            relay(probe, seconds, bed.priority),
            many_connections(bed, probe, seconds),
        ]
    )


def stall(bed: Bed, probe: str, seconds: float) -> bool:
    """The latencies against the truth, which the server knows: how long each request lay there until it was answered.

    The rate is low, so that what piles up in a stall is served in no time, and no divisor of the period, so that
    requests meet the stalls at every phase.
    """
    with serving(bed, probe, "--stall", "100ms/1s", "--arrivals") as server:
        # Whole periods, so that each request is as likely as any other to meet a stall.
        document = load(bed, probe, "--mode", "open", "--rate", "487", "--duration", f"{round(seconds)}s")
        served = server.report()["arrivals"]["served_ns"]
    print("\nlatency when the server stalls 100 ms in each second, 487 requests a second")
    met = True
    # Not p90, which lies on the very edge between what was stalled and what was not.
    for name in ("p50", "p95", "p99", "p999", "max"):
        told, truth = document["latency_ns"][name], served[name]
        near = abs(told - truth) <= max(0.02 * truth, 1e5)
        met &= near
        print(f"  {name:<5} told {told / 1e6:>8.3f} ms, true {truth / 1e6:>8.3f} ms {'' if near else 'MISSED'}")
    print(f"  goal: within 2 % or 0.1 ms: {'met' if met else 'MISSED'}")
    return met


def delay(bed: Bed, probe: str, seconds: float) -> bool:
    """The median moves by as much as the server held requests back; it was told to by 5 ms."""
    told: dict[str, list[float]] = {"0s": [], "5ms": []}
    true: dict[str, list[float]] = {"0s": [], "5ms": []}
    for _ in range(3):
        for held in told:
            with serving(bed, probe, "--arrivals", "--delay", held) as server:
                document = load(bed, probe, "--mode", "open", "--rate", "500", "--duration", f"{seconds}s")
                true[held].append(server.report()["arrivals"]["served_ns"]["p50"])
            told[held].append(document["latency_ns"]["p50"])
    shift, truth = (statistics.median(found["5ms"]) - statistics.median(found["0s"]) for found in (told, true))
    met = abs(shift - truth) <= 1e5
    print(
        f"\na delay of 5 ms moves the median by {shift / 1e6:.3f} ms; the server held them {truth / 1e6:.3f} ms longer"
    )
    print(f"  goal: within 0.1 ms: {'met' if met else 'MISSED'}")
    return met


def many_connections(bed: Bed, probe: str, seconds: float) -> bool:
    """10,000 connections at once; and twice as long takes no more memory."""
    with serving(bed, probe):
        sizes = []
        documents = []
        for length in (seconds, 3 * seconds):
            argv = [probe, "load", URL, "--json", "--workers", "10000", "--duration", f"{length}s", "--timeout", "60s"]
            ran = bed.run(argv)
            sizes.append(ran.memory)
            documents.append(json.loads(ran.output))
        small = bed.run([probe, "load", URL, "--json", "--workers", "64", "--duration", f"{seconds}s"]).memory
    most = min(document["connections"]["concurrent_max"] for document in documents)
    errors = sum(document["requests"]["attempted"] - document["requests"]["completed"] for document in documents)
    met = most >= 10_000 and sizes[1] <= sizes[0] * 1.05 and small <= 6e6 and errors == 0
    print(f"\n{most} connections at once, {errors} errors; memory {sizes[0] / 1e6:.1f} MB, and {sizes[1] / 1e6:.1f} MB")
    print(f"after three times as long; with 64 connections {small / 1e6:.1f} MB")
    print(f"  goal: >= 10,000 without errors, memory flat, <= 6 MB with 64: {'met' if met else 'MISSED'}")
    return met
