"""From sysbench's figures to the responses of a trial. Pure."""

from collections.abc import Callable, Mapping

from nearmetal.model import Response, ResponseKind
from nearmetal.workloads.sysbench import output
from nearmetal.workloads.sysbench.output import Figures
from nearmetal.workloads.sysbench.parameters import SysbenchParameters

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
