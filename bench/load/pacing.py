"""How evenly requests leave at a given rate, beside a loop that only wakes: what the machine itself takes."""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import peers
from bed import PORT, Bed, GeneratorFailed, serving

URL = f"http://127.0.0.1:{PORT}/"
RATE = 10_000
SPUN_US = {"nearmetal": 0, "nearmetal --spin": 50}
"""How long the loop spins that stands beside each: as long as the reference `openloop` does, if at all."""

Round = Mapping[str, Any]
"""What one contender did in one round: `spacing_ns`, `spacing_cv`, `rate`; of ours and of the loop `lateness_ns`."""


def pacing(bed: Bed, probe: str, floors: Path | None, seconds: float, rounds: int) -> bool:
    """Print the spacing of arrivals for each contender, and ours beyond the bare loop's; whether the goal was met."""
    print(f"\nspacing of arrivals at the server, {RATE} a second (ideal: 100 us each)")
    print(f"  {'':<18} {'p50':>9} {'p99':>10} {'max':>11} {'CV':>7} {'rate':>10}   medians of {rounds} rounds")
    calls = pacers(probe, floors, seconds)
    seen: dict[str, list[Round]] = {}
    with building_loop() as loop, serving(bed, probe, "--arrivals") as server:
        for _ in range(rounds):
            for name, argv in calls.items():
                # A round of which a half is missing counts for neither: what the machine takes changes by the second.
                try:
                    bare = run_loop(bed, loop, SPUN_US[name], seconds) if loop and name in SPUN_US else None
                    server.report()
                    printed = bed.run(argv).output
                except GeneratorFailed as failed:
                    print(f"LEFT OUT of a round: {name}: {failed}", flush=True)
                    continue
                arrived = server.report()["arrivals"]
                if name in SPUN_US:
                    arrived["lateness_ns"] = json.loads(printed)["lateness_ns"]
                seen.setdefault(name, []).append(arrived)
                if bare:
                    seen.setdefault(name_loop(name), []).append(bare)
    for name, found in seen.items():
        p50, p99, most, variation, rate = spacing(found)
        print(
            f"  {name:<18} {p50:>6.1f} us {p99:>7.1f} us {most:>8.1f} us {variation:>7.3f} {rate:>8.1f}/s",
            flush=True,
        )
    print_net(seen)
    met = any(even(seen[name]) for name in SPUN_US if name in seen)
    print(f"  goal, with --spin or without: p99 <= 150 us, CV <= 0.6, rate within 0.05 %: {'met' if met else 'MISSED'}")
    return met


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


def even(rounds: list[Round]) -> bool:
    _, p99, _, variation, rate = spacing(rounds)
    return p99 <= 150 and variation <= 0.6 and abs(rate / RATE - 1) <= 0.0005


def spacing(rounds: list[Round]) -> tuple[float, float, float, float, float]:
    """Medians over the rounds: p50, p99 and max in microseconds, coefficient of variation, rate per second."""

    def median(of: Callable[[Round], float]) -> float:
        return statistics.median(of(arrivals) for arrivals in rounds)

    return (
        median(lambda arrivals: arrivals["spacing_ns"]["p50"] / 1e3),
        median(lambda arrivals: arrivals["spacing_ns"]["p99"] / 1e3),
        median(lambda arrivals: arrivals["spacing_ns"]["max"] / 1e3),
        median(lambda arrivals: arrivals["spacing_cv"]),
        median(lambda arrivals: arrivals["rate"]),
    )


# ── The bare loop ─────────────────────────────────────────────────────────────────────────────────────────────────────


def name_loop(name: str) -> str:
    return "bare loop" + name.removeprefix("nearmetal")


@contextmanager
def building_loop() -> Iterator[Path | None]:
    """The program `bare_loop`, gone afterwards; None without a compiler, which is printed."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        print("LEFT OUT  the bare loop: there is no C compiler: apt-get install gcc libc6-dev")
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "bare_loop"
        source = Path(__file__).with_name("bare_loop.c")
        subprocess.run([compiler, "-O2", "-o", str(program), str(source), "-lm"], check=True)
        yield program


def run_loop(bed: Bed, loop: Path, spun_us: int, seconds: float) -> Round:
    """What the machine takes from a program that only wakes, on the generator's CPU and at its priority."""
    found: Round = json.loads(bed.run([str(loop), str(RATE), str(seconds), str(spun_us)]).output)
    return found


def print_net(seen: Mapping[str, list[Round]]) -> None:
    """How late each of ours was, and the loop before it; and what is left of ours without what the loop had."""
    rows = [(name, seen[name], seen[name_loop(name)]) for name in SPUN_US if name_loop(name) in seen]
    if not rows:
        return
    print(f"\n  {'lateness':<18} {'p50':>12} {'p99':>12}   net of the loop: p50, p99; spacing: p99, CV")
    for name, ours, bare in rows:
        late, of_loop = ([quantiles(one, "lateness_ns") for one in found] for found in (ours, bare))
        print(f"  {name_loop(name):<18} {show_medians(of_loop)}")
        net = [(p50 - bare_p50, p99 - bare_p99) for (p50, p99), (bare_p50, bare_p99) in zip(late, of_loop, strict=True)]
        pairs = list(zip(ours, bare, strict=True))
        wider = [quantiles(one, "spacing_ns")[1] - quantiles(loop, "spacing_ns")[1] for one, loop in pairs]
        # Variances of independent causes add up.
        variance = [one["spacing_cv"] ** 2 - loop["spacing_cv"] ** 2 for one, loop in pairs]
        print(
            f"  {name:<18} {show_medians(late)}   {show_medians(net)};"
            f" {statistics.median(wider):+.1f} us, {max(statistics.median(variance), 0.0) ** 0.5:.3f}",
            flush=True,
        )


def quantiles(found: Round, figure: str) -> tuple[float, float]:
    """p50 and p99, in microseconds."""
    return found[figure]["p50"] / 1e3, found[figure]["p99"] / 1e3


def show_medians(rounds: list[tuple[float, float]]) -> str:
    p50, p99 = (statistics.median(values) for values in zip(*rounds, strict=True))
    return f"{p50:>+9.1f} us {p99:>+9.1f} us"
