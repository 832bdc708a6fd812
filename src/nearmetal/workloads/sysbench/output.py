"""What sysbench 1.0 prints, as figures and as responses. Pure; a figure that is missing is an error, never a zero."""

import re
from collections.abc import Callable, Mapping

from nearmetal.errors import ToolFailed
from nearmetal.model import Response, ResponseKind
from nearmetal.workloads.sysbench import output
from nearmetal.workloads.sysbench.parameters import SysbenchParameters

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


_EVENTS = ResponseKind(unit="1/s", better="higher", title="events", clause="does {ratio} × the work of {reference}")
_ELAPSED = ResponseKind(unit="s", better="lower", title="time taken", clause="takes {ratio} × as long as {reference}")
_READ = ResponseKind(
    unit="B/s", better="higher", title="read rate", clause="reads {ratio} × the bytes per second of {reference}"
)
_WRITTEN = ResponseKind(
    unit="B/s", better="higher", title="write rate", clause="writes {ratio} × the bytes per second of {reference}"
)
_OPERATIONS = ResponseKind(unit="1/s", better="higher")
_LATENCIES = {
    "latency_mean": ResponseKind(
        unit="s", better="lower", title="mean latency", clause="takes {ratio} × as long as {reference} on average"
    ),
    "latency_p95": ResponseKind(unit="s", better="lower", title="95th percentile of latency"),
    "latency_max": ResponseKind(unit="s", better="lower", title="longest latency"),
}
_FAIRNESS = ResponseKind(unit="share", better="higher", scale="difference", title="fairness among threads")


def list_kinds(given: SysbenchParameters) -> Mapping[str, ResponseKind]:
    """What a run can give; the primary first. Threads share fairly or not only where there are several."""
    done = {"events": _EVENTS} if given.test == "cpu" else {}
    elapsed = {"elapsed": _ELAPSED} if given.events is not None else {}
    read = {"read": _READ} if given.reads else {}
    written = {"written": _WRITTEN} if given.writes else {}
    reads = {"reads": _OPERATIONS} if given.reads else {}
    writes = {"writes": _OPERATIONS} if given.writes else {}
    fsyncs = {"fsyncs": _OPERATIONS} if given.syncs else {}
    fairness = {"fairness": _FAIRNESS} if given.threads > 1 else {}
    return {**done, **elapsed, **read, **written, **reads, **writes, **fsyncs, **_LATENCIES, **fairness}


def make_responses(found: Figures, given: SysbenchParameters) -> dict[str, Response]:
    """ToolFailed when a figure is missing, or is 0 where that means that nothing was measured."""
    # The printed MiB/s have two decimals; operations have as many of a number thousands of times as large.
    each: Mapping[str, Callable[[], float]] = {
        "events": lambda: output.events_per_second(found),
        "elapsed": lambda: output.require_elapsed(found),
        "read": lambda: output.operations_per_second(found, "reads/s") * given.block_size,
        "written": lambda: output.operations_per_second(found, "writes/s") * given.block_size,
        "reads": lambda: output.operations_per_second(found, "reads/s"),
        "writes": lambda: output.operations_per_second(found, "writes/s"),
        "fsyncs": lambda: output.require_figure(found, "File operations", "fsyncs/s"),
        "latency_mean": lambda: output.mean_latency(found),
        "fairness": lambda: output.measure_fairness(found),
    }
    rounded = {"latency_p95": "95th percentile", "latency_max": "max"}
    return {
        name: _bound_latency(output.require_latency(found, rounded[name]), kind)
        if name in rounded
        else kind.of(each[name]())
        for name, kind in list_kinds(given).items()
    }


def _bound_latency(seconds: float, kind: ResponseKind) -> Response:
    """A printed 0.00 ms is a latency of which no more is known than that it is less than half of the last digit."""
    if seconds == 0:
        return kind.of(output.LAST_DIGIT / 2, censored="left")
    return kind.of(seconds)
