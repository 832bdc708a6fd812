"""Processor time per request: every contender in turn, round after round, and the ratios of the medians."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from bed import Bed, GeneratorFailed, serving
from contenders import SCENARIOS, Contender, Scenario


def compare(bed: Bed, probe: str, here: Sequence[Contender], rounds: int, seconds: float) -> bool:
    """Print a table for each scenario; whether every goal that could be judged was met."""
    met = True
    for scenario in SCENARIOS:
        with serving(bed, probe, "--body", str(scenario.body)):
            costs, memory = measure(bed, here, scenario, rounds, seconds)
        met &= table(scenario, costs, memory)
    return met


def measure(
    bed: Bed, here: Sequence[Contender], scenario: Scenario, rounds: int, seconds: float
) -> tuple[dict[str, list[float]], dict[str, int]]:
    """Microseconds of processor time per request in each round, and the largest memory in bytes, by contender."""
    calls = [(contender, contender.argv(scenario, seconds)) for contender in here]
    costs: dict[str, list[float]] = {contender.name: [] for contender, argv in calls if argv is not None}
    memory = dict.fromkeys(costs, 0)
    for number in range(rounds):
        # Every other round runs backwards, so that nobody always follows the same neighbour.
        for contender, argv in calls if number % 2 == 0 else reversed(calls):
            if argv is None:
                continue
            try:
                ran = bed.run(argv)
            except GeneratorFailed as failed:
                print(f"LEFT OUT of round {number + 1}: {failed}", flush=True)
                costs[contender.name].append(float("nan"))
                continue
            costs[contender.name].append(ran.cpu * 1e6 / max(1, contender.requests(ran.output)))
            memory[contender.name] = max(memory[contender.name], ran.memory)
    return costs, memory


def median(values: list[float]) -> float:
    """Of the rounds that a contender finished; infinite where it finished none."""
    finished = [value for value in values if not math.isnan(value)]
    return statistics.median(finished) if finished else math.inf


def table(scenario: Scenario, costs: dict[str, list[float]], memory: dict[str, int]) -> bool:
    print(f"\n{scenario.name}, {len(costs['nearmetal'])} rounds")
    print(f"  {'':<10} {'CPU a request':>14} {'memory':>9} {'nearmetal to it':>16} {'goal':>8}")
    met = True
    ours = costs["nearmetal"]
    for name in sorted(costs, key=lambda name: median(costs[name])):
        # The ratio within a round compares neighbours in time; the median over rounds drops the noisy ones.
        ratio = median([mine / other for mine, other in zip(ours, costs[name], strict=True)])
        goal = scenario.goals.get(name)
        verdict = "" if goal is None else f"<= {goal:.2f} {'met' if ratio <= goal else 'MISSED'}"
        met &= goal is None or ratio <= goal
        cost = f"{median(costs[name]):.2f} us"
        size = f"{memory[name] / 1e6:.1f} MB"
        print(f"  {name:<10} {cost:>14} {size:>9} {'' if name == 'nearmetal' else f'{ratio:.3f}':>16}  {verdict}")
    return met
