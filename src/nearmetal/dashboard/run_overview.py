"""A run at a glance, as the page has it: words, counts and shares, ready to be written. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from nearmetal.analysis.interference import INTERFERENCE
from nearmetal.analysis.warning_groups import find_wording, group_warnings
from nearmetal.dashboard.run_history import WARNING, Fate, Place, RunHistory, Trouble
from nearmetal.model import Identity, TrialStatus, Warned, identify_assignment
from nearmetal.report import figures, words
from nearmetal.report.report_input import ReportInput
from nearmetal.shortened_list import shorten_list
from nearmetal.store.progress import EndedTrial, TreatmentRow, estimate_time_left
from nearmetal.units import show_duration, show_elapsed

SIGNS = {
    Fate.TO_COME: "",
    Fate.RUNNING: "▶",
    Fate.OK: "✓",
    Fate.INVALID: "!",
    Fate.FAILED: "×",
    Fate.LOST: "?",
    Fate.WITHDRAWN: "–",
    Fate.NOT_NEEDED: "",
}
"""Beside its colour each fate has a sign."""

_BAD = (TrialStatus.INVALID, TrialStatus.FAILED, TrialStatus.LOST)
_IN_THE_JOURNAL = frozenset({"withdrawn", "left-behind", "unfinished"})
"""Warnings of an analysis that the journal tells by itself, sooner, and the state."""
_MOST_TROUBLES = 30
_NAMED = 3
"""Whom a trouble befell are named up to here."""


@dataclass(frozen=True)
class Square:
    """A place of the grid: a treatment under a workload in one block."""

    fate: Fate
    sign: str
    said: str
    """The whole of it in words."""
    again: bool
    """Whether its block was repeated."""


@dataclass(frozen=True)
class GridRow:
    label: str
    summary: str
    squares: tuple[Square, ...]


@dataclass(frozen=True)
class Problem:
    """Something wrong: what it is called, what it is about, what was said, and how often."""

    kind: str
    tone: str
    about: str
    text: str
    where: str
    of_trials: frozenset[str] = frozenset()
    """Wordings of trials' own warnings of which this tells the whole: see `warning_groups.find_wording`."""


@dataclass(frozen=True)
class BarPart:
    """A part of the bar: of which fate, how many trials, from where to where in per cent."""

    fate: Fate
    count: int
    start: float
    width: float


def make_bar(course: RunHistory) -> tuple[BarPart, ...]:
    """Trials that are ok, then those that are not, then those to come."""
    to_come = course.to_come()
    total = len(course.records) + to_come
    parts, start = [], 0.0
    for fate in (Fate.OK, Fate.INVALID, Fate.FAILED, Fate.LOST, Fate.TO_COME):
        count = to_come if fate is Fate.TO_COME else course.counts[TrialStatus(fate.value)]
        if count:
            width = 100 * count / total
            parts.append(BarPart(fate, count, start, width))
            start += width
    return tuple(parts)


def how_far(course: RunHistory) -> str:
    """ "31 of 64 trials, block 4 of 8"; of a sequential run, "of at most 40"."""
    done, to_come = len(course.records), course.to_come()
    most = "at most " if course.plan.looks and not course.is_over else ""
    trials = figures.format_count(done + to_come, "trial")
    if to_come:
        trials = f"{done:,} of {most}{trials}"
    begun = max((block for block in course.attempts if block < course.plan.blocks), default=-1) + 1
    if to_come and begun:
        return f"{trials}, block {begun} of {most}{course.blocks}"
    return f"{trials}, {most}{figures.format_count(course.blocks, 'block')}"


def describe_bad(course: RunHistory) -> str:
    """ "2 failed, 1 lost", or ""."""
    return ", ".join(f"{course.counts[status]:,} {status}" for status in _BAD if course.counts[status])


def time_left(course: RunHistory, expected: float | None, now_ns: int) -> str:
    """ "about 12 min 10 s left", or "" where nothing can be said. `expected`: seconds a trial takes by the plan."""
    to_come = course.to_come()
    elapsed, measured = course.measure_pace()
    if not to_come or (not measured and expected is None):
        return ""
    seconds = estimate_time_left(to_come, elapsed, measured, expected or 0.0)
    # What has passed since is taken off, but no more than a trial's: one that hangs does not bring the end nearer.
    seconds -= min((now_ns - course.last_ns) / 1e9, seconds / to_come)
    return f"{'at most ' if course.plan.looks else ''}about {show_elapsed(seconds)} left"


def describe_activity(course: RunHistory, labels: words.Labels) -> str:
    """ "web on qemu, workers 4, in block 3 (attempt 2)", or "" between boots."""
    running = course.find_running()
    if course.now is None or running is None:
        return ""
    row, block = running
    again = f" (attempt {course.now.attempt + 1})" if course.now.attempt else ""
    return (
        f"{words.name_workload(row.workload)} on {labels.name_treatment(course.now.treatment)}, in block "
        f"{block + 1}{again}"
    )


def make_strips(course: RunHistory, labels: words.Labels, is_measured: bool) -> Iterator[tuple[str, list[GridRow]]]:
    """By workload, a strip for each treatment."""
    for workload in course.study.workloads:
        of_workload = [
            _make_strip(
                course,
                TreatmentRow(identify_assignment(treatment), workload.name),
                labels.name_treatment(treatment),
                is_measured,
            )
            for treatment in course.plan.treatments
        ]
        yield words.name_workload(workload.name), of_workload


def _make_strip(course: RunHistory, row: TreatmentRow, label: str, is_measured: bool) -> GridRow:
    squares = tuple(_make_square(block, place, is_measured) for block, place in enumerate(course.list_places(row)))
    of = Counter(square.fate for square in squares)
    summary = ", ".join(f"{of[fate]} {fate}" for fate in Fate if of[fate])
    return GridRow(label, f"{label}: {summary}", squares)


def _make_square(block: int, place: Place, is_measured: bool) -> Square:
    fate = Fate.TO_COME if place.fate is Fate.RUNNING and not is_measured else place.fate
    said = [_describe_trial(one) for one in place.ended]
    if fate not in [one.status.value for one in place.ended if one.attempt == place.attempt]:
        said.append(f"attempt {place.attempt + 1} {fate}" if said else str(fate))
    return Square(fate, SIGNS[fate], f"block {block + 1}: {'; '.join(said)}", place.attempt > 0 and bool(place.ended))


def _describe_trial(one: EndedTrial) -> str:
    attempt = f"attempt {one.attempt + 1} " if one.attempt else ""
    reason = f": {words.strip_controls(one.reason)}" if one.reason else ""
    return f"{attempt}{one.status} after {show_duration(one.seconds)}{reason}"


def list_troubles(
    course: RunHistory, labels: words.Labels, warned: Sequence[Problem] = ()
) -> tuple[list[Problem], int]:
    """The newest first, and how many more there are. What an analysis has `warned` of comes before trials' warnings."""
    newest = list(course.newest_troubles())
    names = {identify_assignment(treatment): labels.name_treatment(treatment) for treatment in course.plan.treatments}
    worse = [_describe_trouble(trouble, names) for trouble in newest if trouble.kind != WARNING]
    told = frozenset[str]().union(*(one.of_trials for one in warned))
    of_trials = [
        _describe_trouble(trouble, names)
        for trouble in newest
        if trouble.kind == WARNING and find_wording(trouble.said.text) not in told
    ]
    all_of_them = [*worse, *warned, *of_trials]
    return all_of_them[:_MOST_TROUBLES], max(0, len(all_of_them) - _MOST_TROUBLES)


def list_warnings(report: ReportInput) -> list[Problem]:
    """What the run as a whole is warned of, and what its comparisons are that their trials do not say themselves."""
    found = [
        Problem(
            WARNING, "unknown", "the whole run", words.strip_controls(warning.text), "", _counted_in(warning, report)
        )
        for warning in report.analysis.warnings
        if warning.code not in _IN_THE_JOURNAL
    ]
    of_trials = {warning.code for record in report.records for warning in record.warnings}
    primary = [contrast for contrast in report.analysis.contrasts if contrast.primary]
    for group in group_warnings(
        (f"{report.labels.name_versus(contrast)}, {words.strip_controls(contrast.workload)}", warning)
        for contrast in primary
        for warning in contrast.warnings
        if warning.code not in of_trials
    ):
        about = list(dict.fromkeys(group.about))
        of = figures.format_count(len(primary), "comparison")
        where = f"{len(about)} of {of}" if len(primary) > 1 else ""
        found.append(
            Problem(WARNING, "unknown", shorten_list(about, _NAMED, "; "), words.strip_controls(group.text), where)
        )
    return found


def _counted_in(warning: Warned, report: ReportInput) -> frozenset[str]:
    """The wordings of trials' warnings that a warning of the whole run is made of."""
    if warning.code not in INTERFERENCE:
        return frozenset()
    of_trials = (one for record in report.records for one in record.warnings if one.code == warning.code)
    return frozenset(find_wording(one.text) for one in of_trials)


def _describe_trouble(trouble: Trouble, names: Mapping[Identity, str]) -> Problem:
    tone = "unknown" if trouble.kind == WARNING else "worse"
    return Problem(
        trouble.kind,
        tone,
        _describe_affected(trouble, names),
        words.strip_controls(trouble.said.text),
        _describe_places(trouble),
    )


def _describe_affected(trouble: Trouble, names: Mapping[Identity, str]) -> str:
    """ "qemu, workers 1, web; docker, workers 1, web; and 4 more"."""
    whose = [
        ", ".join(filter(None, (names.get(row.treatment, "a treatment"), words.strip_controls(row.workload))))
        for row in trouble.rows
    ]
    return shorten_list(whose, _NAMED, "; ")


def _describe_places(trouble: Trouble) -> str:
    last = "" if trouble.block is None else f"block {trouble.block + 1}"
    if trouble.times == 1:
        return last
    return f"{trouble.times:,} times" + (f", last in {last}" if last else "")
