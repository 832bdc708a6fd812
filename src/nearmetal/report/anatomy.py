"""What the observer `capture` left of a run: figures from the records, distributions from few trials' documents."""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nearmetal.analysis.covariates import is_whole, list_payloads, list_traces
from nearmetal.analysis.responses import key_of
from nearmetal.model import Assignment, TrialRecord
from nearmetal.report import figures, words
from nearmetal.report.report_input import ReportInput, parse_document

OBSERVER = "capture"
TRACE = "trace-"
_EVENT = "at."
_OF_REQUESTS = frozenset({"http", "httperf"})
_HEADS = 96
"""Bytes of a packet that have a request's first ones, behind all headers."""
_OF_KERNEL = "kernel."


@dataclass(frozen=True)
class CapturedTreatment:
    """What captures show of one treatment while one workload measured."""

    workload: str
    treatment: Assignment
    trials: int
    figures: Mapping[str, float]
    """Means over trials, and clients where there are several; by the names that docs/observers.md lists.

    Beside them what kernels counted: `corked` for each request, `kernel_retransmitted` and `kernel_out_of_order`.
    """
    events: Mapping[str, float]
    """Medians over trials of each event's median, in seconds, by time."""
    typical: TrialRecord
    """The trial whose requests took as long as those of the middle one."""
    crossing: int
    """Of how many captures it is known what crossed."""
    uncounted: int = 0
    """In how many trials kernels counted on when a capture was cut: what they counted there is left out."""


def has_several_clients(found: Sequence[CapturedTreatment]) -> bool:
    captures = [one.typical.observers[OBSERVER] for one in found]
    return any(sum(name.startswith(TRACE) for name in capture) > 1 for capture in captures)


def is_observed(report: ReportInput) -> bool:
    return any(OBSERVER in record.observers for record in report.records)


def list_captured(report: ReportInput) -> list[CapturedTreatment]:
    """By workload, then treatment; only those whose captures hold requests."""
    return [_of_requests(*one) for one in _group_documents(report, list_traces)]


def list_streams(report: ReportInput) -> list[CapturedTreatment]:
    """By workload, then treatment; only those whose captures hold bytes that are of no request. They have no events."""
    return [
        CapturedTreatment(
            workload,
            treatment,
            len(told),
            _average_figures([one for _, one in told]),
            {},
            told[0][0],
            sum("crossed" in one for _, one in told),
        )
        for workload, treatment, _, told in _group_documents(report, list_payloads)
    ]


_Told = list[tuple[TrialRecord, Mapping[str, Any]]]


def _group_documents(
    report: ReportInput, of: Callable[[TrialRecord], list[Mapping[str, Any]]]
) -> Iterator[tuple[str, Assignment, list[TrialRecord], _Told]]:
    for workload in report.manifest.study.workloads:
        for treatment in report.manifest.plan.treatments:
            trials = report.trials(workload.name, treatment)
            told = [(record, one) for record in trials for one in of(record)]
            if told:
                yield workload.name, treatment, trials, told


def _of_requests(workload: str, treatment: Assignment, trials: list[TrialRecord], told: _Told) -> CapturedTreatment:
    by_total = sorted(told, key=lambda pair: pair[1].get("total", 0.0))
    traced = [one for _, one in told]
    means = _average_figures(traced)
    return CapturedTreatment(
        workload,
        treatment,
        len(told),
        {**means, **_average_kernels(trials, means["requests"])},
        _find_events(traced),
        by_total[(len(by_total) - 1) // 2][0],
        sum("crossed" in one for one in traced),
        sum(not is_whole(record.observers[OBSERVER]) for record in trials if list_traces(record)),
    )


def _average_figures(told: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Of each figure over those that have it."""
    names = dict.fromkeys(name for one in told for name in one if not name.startswith(_EVENT) and name != "problem")
    return {name: statistics.fmean(one[name] for one in told if name in one) for name in names}


def _average_kernels(trials: Sequence[TrialRecord], requests: float) -> dict[str, float]:
    """What kernels counted of those requests, for as many as a trial has in the mean. Only of trials whose captures are
    whole: in the others they counted on, of more requests than are known."""
    whole = [record for record in trials if list_traces(record) and is_whole(record.observers[OBSERVER])]
    places = [record.observers[OBSERVER] for record in whole]
    ends = [one for place in places for name, one in place.items() if not name.startswith(TRACE)]
    if not any(_OF_KERNEL + "OutSegs" in one for one in ends):
        return {}
    known = sum(one["requests"] for record in whole for one in list_traces(record))
    clients, servers = ([p[name] for p in places for name in p if name.startswith(end)] for end in ("client", "server"))
    return {
        "kernel_retransmitted": _sum_counter(ends, "RetransSegs") / known * requests,
        "kernel_out_of_order": _sum_counter(clients, "TCPOFOQueue") / known * requests,
        "corked": _sum_counter(servers, "TCPAutoCorking") / known,
    }


def _sum_counter(places: Sequence[Mapping[str, Any]], counter: str) -> float:
    return float(sum(one.get(_OF_KERNEL + counter, 0) for one in places))


def _find_events(told: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Of each event that at least half of them have."""
    names = dict.fromkeys(name for one in told for name in one if name.startswith(_EVENT))
    times = {name: [float(one[name]) for one in told if name in one] for name in names}
    medians = {
        name.removeprefix(_EVENT): statistics.median(seen) for name, seen in times.items() if 2 * len(seen) >= len(told)
    }
    return dict(sorted(medians.items(), key=lambda event: event[1]))


def list_problems(report: ReportInput) -> Iterator[str]:
    """What is missing from captures, a sentence for each place and trial."""
    for record in report.records:
        for name, place in record.observers.get(OBSERVER, {}).items():
            if "problem" in place:
                yield f"{name}: {place['problem']}"
            if place.get("limit_reached"):
                which = "last" if "held" in place else "first"
                held = figures.format_count(place.get("held", place["captured"]), "packet")
                yield f"{name}: the capture reached its limit, and holds no more than the {which} {held}"
            if place.get("dropped_by_kernel"):
                dropped = figures.format_count(place["dropped_by_kernel"], "packet")
                yield f"{name}: {dropped} came faster than could be written"


def without_requests(report: ReportInput, found: Sequence[CapturedTreatment]) -> Iterator[str]:
    """A sentence for each workload of requests that were not found where packets were taken."""
    kinds = {workload.name: workload.kind for workload in report.manifest.study.workloads}
    having = {(one.workload, key_of(one.treatment)) for one in found}
    lacking: dict[str, dict[str, int]] = {}
    for record in report.records:
        name, treatment = record.trial.workload, record.trial.treatment
        is_told = any("requests" in one for place, one in record.observers.get(OBSERVER, {}).items() if TRACE in place)
        if is_told and kinds.get(name) in _OF_REQUESTS and (name, key_of(treatment)) not in having:
            capture = report.asked(treatment).observe.capture
            lacking.setdefault(name, {})[report.labels.name_treatment(treatment)] = capture.snap if capture else _HEADS
    for name, treatments in lacking.items():
        text = f"The captures of {words.name_workload(name)} hold no HTTP request ({figures.join_listing(treatments)})."
        snap = min(treatments.values())
        if snap < _HEADS:
            text += f" Of each packet {snap} bytes are kept: from {_HEADS} on requests are seen"
        yield text


def read_document(record: TrialRecord, report: ReportInput) -> Mapping[str, Any] | None:
    """The `trace.v1` of a trial's first client; None where it cannot be read any more."""
    told = parse_document(next(report.artifacts(record, f"{TRACE}0.json"), None))
    return told if told and told.get("schema") == "trace.v1" else None
