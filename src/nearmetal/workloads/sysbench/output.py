"""What sysbench 1.0 prints, as figures. Pure; a figure that is missing is an error and never a zero."""

import re
from collections.abc import Mapping

from nearmetal.errors import ToolFailed

Figures = Mapping[str, Mapping[str, tuple[float, ...]]]
"""Section ("General statistics") to label ("total time") to numbers; "avg/stddev" has two, all others one."""

LAST_DIGIT = 1e-5
"""Seconds: latencies are printed with two decimals of a millisecond."""

_REMEDY = "sysbench 1.0 is understood; the artifact sysbench.txt holds what was printed"
_SECTION = re.compile(r"(\S[^:]*):")
_NUMBER = r"-?[0-9]+(?:\.[0-9]+)?"
_FIGURE = re.compile(rf"\s+(\S[^:]*):\s+({_NUMBER})(?:/({_NUMBER}))?s?")


def parse_figures(text: str) -> Figures:
    """Every figure of a run, as printed: seconds in "General statistics", milliseconds in "Latency (ms)"."""
    found: dict[str, dict[str, tuple[float, ...]]] = {}
    section: dict[str, tuple[float, ...]] = {}
    for line in text.splitlines():
        heading = _SECTION.fullmatch(line.rstrip())
        figure = _FIGURE.fullmatch(line.rstrip())
        if heading:
            section = found.setdefault(heading[1], {})
        elif figure:
            section[figure[1]] = tuple(float(number) for number in figure.groups()[1:] if number is not None)
    return {name: labels for name, labels in found.items() if labels}


def require_figure(found: Figures, section: str, label: str) -> float:
    """One figure. ToolFailed when sysbench did not print it."""
    numbers = found.get(section, {}).get(label)
    if numbers is None or len(numbers) != 1:
        raise ToolFailed(f"sysbench printed no figure {label!r} under {section!r}", remedy=_REMEDY)
    return numbers[0]


def require_events(found: Figures) -> float:
    """How many events there were. ToolFailed when there was none: nothing was measured."""
    count = require_figure(found, "General statistics", "total number of events")
    if count <= 0:
        raise ToolFailed("sysbench finished no event", remedy="give a longer `duration`")
    return count


def events_per_second(found: Figures) -> float:
    """The response `require_events` of the test cpu, in 1/s."""
    return _require_positive(require_figure(found, "CPU speed", "events per second"), "events per second")


def require_elapsed(found: Figures) -> float:
    """Seconds from the first event's start to the last one's end."""
    return _require_positive(require_figure(found, "General statistics", "total time"), "total time")


def operations_per_second(found: Figures, label: str) -> float:
    """ "reads/s" or "writes/s" of the test fileio; fsync is apart."""
    return _require_positive(require_figure(found, "File operations", label), label)


def mean_latency(found: Figures) -> float:
    """Seconds. The printed mean has two decimals of a millisecond, which is nothing for a read from memory."""
    return (
        _require_positive(require_figure(found, "Latency (ms)", "sum"), "the sum of latencies")
        / require_events(found)
        / 1e3
    )


def require_latency(found: Figures, label: str) -> float:
    """Seconds, as printed: 0 for one that is less than half of the last digit."""
    value = require_figure(found, "Latency (ms)", label)
    if value < 0:
        raise ToolFailed(f"sysbench printed {value:g} ms for {label!r}: time does not run backwards")
    return value / 1e3


def measure_fairness(found: Figures) -> float:
    """Jain's index of the events of each thread: 1 when all had the same number, 1/n when one of n had all of them."""
    numbers = found.get("Threads fairness", {}).get("events (avg/stddev)", ())
    if len(numbers) != 2 or numbers[0] <= 0:
        raise ToolFailed("sysbench printed no figure 'events (avg/stddev)' under 'Threads fairness'", remedy=_REMEDY)
    mean, deviation = numbers  # the population's: of two threads, half of what lies between them
    return 1 / (1 + (deviation / mean) ** 2)


def _require_positive(value: float, what: str) -> float:
    if value <= 0:
        raise ToolFailed(f"sysbench printed {value:g} for {what}: nothing was measured")
    return value
