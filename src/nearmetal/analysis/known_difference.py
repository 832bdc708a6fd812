"""What is known of a comparison before anything was measured: that both sides are alike, or what is put between them.

Known from what each side asks for, as the study's file says it: nothing here looks at a result.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nearmetal import units
from nearmetal.analysis.responses import BOOT
from nearmetal.model import Assignment, Plan, Resolved, Scale

TIMERS = 50e-6
"""Seconds by which one wait may be off more than another. What both are late by drops out."""


@dataclass(frozen=True)
class Truth:
    """The true size of what was put there: treatment over reference on a ratio scale, else treatment less reference.

    A range where it is not known to the last digit.
    """

    response: str
    scale: Scale
    low: float
    high: float


@dataclass(frozen=True)
class KnownDifference:
    """Both sides ask for the same machines; `truth` is None where they ask for the same work, too."""

    truth: Truth | None


def _more_work(given: Any, before: Any) -> Truth | None:
    """So many more events take so much longer, however fast they are."""
    ratio = given / before
    return Truth("elapsed", "ratio", ratio, ratio)


def _longer_wait(given: Any, before: Any) -> Truth | None:
    """Of two that both wait: beside one that never sleeps, what it takes to wake up would be added."""
    wait, waited = units.parse_duration(given), units.parse_duration(before)
    if not wait > waited > 0:
        return None
    return Truth("latency_p50", "difference", wait - waited - TIMERS, wait - waited + TIMERS)


_TRUTHS: Mapping[tuple[str, str], Callable[[Any, Any], Truth | None]] = {
    ("sysbench", "events"): _more_work,
    ("http", "delay"): _longer_wait,
}
"""By a workload's kind and the one parameter in which both sides are apart."""


def find_known_difference(
    plan: Plan, treatment: Assignment, reference: Assignment, workload: str
) -> KnownDifference | None:
    """Of two treatments and a workload, or BOOT for what a boot has whatever it ran. None where nothing is known."""
    one, other = plan.resolved_of(treatment), plan.resolved_of(reference)
    if _machines(one) != _machines(other):
        return None
    if workload == BOOT:
        return KnownDifference(None)
    mine, others = one.workload(workload), other.workload(workload)
    given, before = mine.parameters, others.parameters
    apart = [name for name in given.keys() | before.keys() if given.get(name) != before.get(name)]
    if not apart:
        return KnownDifference(None)
    if len(apart) > 1 or (mine.kind, apart[0]) not in _TRUTHS or apart[0] not in given.keys() & before.keys():
        return None
    truth = _TRUTHS[mine.kind, apart[0]](given[apart[0]], before[apart[0]])
    return KnownDifference(truth) if truth else None


def _machines(side: Resolved) -> tuple[object, ...]:
    """All that is asked for but the work, and whatever the environment is called."""
    return side.environment.spec, side.server, side.clients, side.link, side.observe, dict(side.treatments)
