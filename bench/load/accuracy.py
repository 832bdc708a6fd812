"""How exact the generator is: spacing as the server sees it, the truth of a stall, a known delay, many connections."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import peers
from bed import PORT, Bed, GeneratorFailed, serving
from relay import relay

URL = f"http://127.0.0.1:{PORT}/"
RATE = 10_000


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


def pacers(probe: str, floors: Path | None, seconds: float) -> dict[str, list[str]]:
    """Who can hold a rate, and how each is asked to."""
    count = str(int(RATE * seconds))
    ours = [probe, "load", URL, "--json", "--mode", "open", "--rate", str(RATE), "--duration", f"{seconds}s"]
    calls = {"nearmetal": ours, "nearmetal --spin": [*ours, "--spin"]}
    if floors is not None and (floors / "openloop").exists():
        calls["openloop"] = [str(floors / "openloop"), "127.0.0.1", str(PORT), str(RATE), str(seconds), "64"]
    if path := peers.found("httperf"):
        server = ["--hog", "--server", "127.0.0.1", "--port", str(PORT), "--uri", "/"]
        calls["httperf"] = [path, *server, "--rate", str(RATE), "--num-conns", count]
    if path := peers.found("fortio"):
        calls["fortio"] = [path, "load", "-c", "64", "-qps", str(RATE), "-t", f"{seconds}s", "-nocatchup", URL]
    if path := peers.found("oha"):
        calls["oha"] = [path, "--no-tui", "-c", "64", "-q", str(RATE), "-z", f"{seconds:.0f}s", URL]
    return calls


def pacing(bed: Bed, probe: str, floors: Path | None, seconds: float, rounds: int) -> bool:
    print(f"\nspacing of arrivals at the server, {RATE} a second (ideal: 100 us each)")
    print(f"  {'':<18} {'p50':>9} {'p99':>10} {'max':>11} {'CV':>7} {'rate':>10}   medians of {rounds} rounds")
    calls = pacers(probe, floors, seconds)
    seen: dict[str, list[dict[str, Any]]] = {name: [] for name in calls}
    with serving(bed, probe, "--arrivals") as server:
        for _ in range(rounds):
            for name, argv in calls.items():
                server.report()
                try:
                    bed.run(argv)
                except GeneratorFailed as failed:
                    print(f"LEFT OUT of a round: {name}: {failed}", flush=True)
                    continue
                seen[name].append(server.report()["arrivals"])
    for name in filter(seen.get, calls):
        p50, p99, most, variation, rate = spacing(seen[name])
        print(
            f"  {name:<18} {p50:>6.1f} us {p99:>7.1f} us {most:>8.1f} us {variation:>7.3f} {rate:>8.1f}/s",
            flush=True,
        )
    met = any(even(seen[name]) for name in ("nearmetal", "nearmetal --spin"))
    print(f"  goal, with --spin or without: p99 <= 150 us, CV <= 0.6, rate within 0.05 %: {'met' if met else 'MISSED'}")
    return met


def even(rounds: list[dict[str, Any]]) -> bool:
    _, p99, _, variation, rate = spacing(rounds)
    return p99 <= 150 and variation <= 0.6 and abs(rate / RATE - 1) <= 0.0005


def spacing(rounds: list[dict[str, Any]]) -> tuple[float, float, float, float, float]:
    """Medians over the rounds: p50, p99 and max in microseconds, coefficient of variation, rate per second."""

    def median(of: Callable[[dict[str, Any]], float]) -> float:
        return statistics.median(of(arrivals) for arrivals in rounds)

    return (
        median(lambda arrivals: arrivals["spacing_ns"]["p50"] / 1e3),
        median(lambda arrivals: arrivals["spacing_ns"]["p99"] / 1e3),
        median(lambda arrivals: arrivals["spacing_ns"]["max"] / 1e3),
        median(lambda arrivals: arrivals["spacing_cv"]),
        median(lambda arrivals: arrivals["rate"]),
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
