"""The step that goes on, the values so far, and what the page can ask of a run. Pure."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from nearmetal.dashboard.run_history import RunHistory
from nearmetal.model import Identity, TrialStatus, identify_assignment
from nearmetal.report import figures, words
from nearmetal.report.words import Labels
from nearmetal.store.run_control import LiveNote, Wish
from nearmetal.units import show_elapsed

_STEPS = {
    "create": "machines are made",
    "attach": "machines are reached",
    "surround": "the link is laid",
    "change": "settings are changed",
    "facts": "the machines tell their facts",
    "verify": "settings are read back",
    "prepare": "the workload is prepared",
    "measure": "it measures",
    "check": "settings are read back again",
    "undo": "changes are undone",
    "destroy": "machines are removed",
    "paused": "paused: nothing is measured",
}


@dataclass(frozen=True)
class CurrentStep:
    about: str
    """Workload, treatment and block."""
    step: str
    since: float
    """Seconds from when it began until now."""
    usual: str
    """How long it took the last time, or ""."""
    is_paused: bool
    wish: Wish | None


@dataclass(frozen=True)
class Values:
    """The primary response of a treatment so far."""

    treatment: str
    last: str
    block: int
    """Of the last value, from 1 on."""
    median: str
    trials: int


def describe_step(note: LiveNote, wish: Wish | None, course: RunHistory, labels: Labels, now_ns: int) -> CurrentStep:
    """`now_ns` is the Unix time. A treatment that is none of the plan is left out."""
    planned = {identify_assignment(treatment) for treatment in course.plan.treatments}
    about = []
    if note.workload:
        about.append(words.name_workload(words.strip_controls(note.workload)))
    if identify_assignment(note.treatment) in planned:
        about.append(labels.name_treatment(note.treatment))
    again = f" (attempt {note.attempt + 1})" if note.attempt else ""
    step = _STEPS.get(note.step, words.strip_controls(note.step))
    usual = "" if note.usual_ns is None else f"took {show_elapsed(note.usual_ns / 1e9)} the last time"
    return CurrentStep(
        about=f"{' on '.join(about)}, in block {note.block + 1}{again}".removeprefix(", "),
        step=step,
        since=max(0.0, (now_ns - note.since_ns) / 1e9),
        usual=usual,
        is_paused=note.step == "paused",
        wish=wish,
    )


def list_values(course: RunHistory, labels: Labels) -> Iterator[tuple[str, list[Values]]]:
    """By workload and its primary response, those treatments that have a value."""
    found: dict[tuple[Identity, str], list[tuple[int, float, str]]] = {}
    for record in course.records:
        workload = record.trial.workload
        response = record.responses.get(course.plan.primaries[workload])
        if record.status is not TrialStatus.OK or response is None or response.censored:
            continue
        if math.isfinite(response.value):
            row = identify_assignment(record.trial.treatment), workload
            found.setdefault(row, []).append((record.trial.block, response.value, response.unit))
    for workload, primary in course.plan.primaries.items():
        rows = []
        keys = [(treatment, (identify_assignment(treatment), workload)) for treatment in course.plan.treatments]
        decimals = figures.common_decimals(found[key][-1][1] for _, key in keys if key in found)
        for treatment, key in keys:
            if values := found.get(key):
                block, last, unit = values[-1]
                median = figures.as_known([value for _, value, _ in values])
                rows.append(
                    Values(
                        labels.name_treatment(treatment),
                        figures.format_quantity(last, unit, decimals),
                        block + 1,
                        figures.format_quantity(median, unit),
                        len(values),
                    )
                )
        if rows:
            yield f"{words.name_workload(workload)}: {labels.name_response(workload, primary)}", rows
