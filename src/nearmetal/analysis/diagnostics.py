"""What a reader of a contrast should know besides its numbers: warnings, as data."""

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearmetal import cpu_lists
from nearmetal.analysis import portable_math
from nearmetal.analysis.carryover import CarryoverEffects
from nearmetal.analysis.confounders import Disks
from nearmetal.analysis.contrasts import MatchedContrast
from nearmetal.analysis.faults import Faults
from nearmetal.analysis.responses import Arm, Arms, Replicate, first_attempts, key_of
from nearmetal.analysis.results import Contrast
from nearmetal.analysis.student_t import student_p
from nearmetal.analysis.warning_groups import group_warnings
from nearmetal.model import Assignment, Plan, Provision, TrialRecord, TrialStatus, Warned
from nearmetal.store import version_1
from nearmetal.study.levels import format_assignment

ALARM_PRIMARY = 0.05
ALARM_EXPLORATORY = 0.01
"""How often each of drift, autocorrelation and position effect is warned of where there is none: seldom for the many
exploratory responses, more readily where a verdict is at stake, since few blocks show little."""

FEWEST = 6
"""Blocks below which a series says nothing of its order."""

STRONG = 0.5
"""Autocorrelation from which on the false alarms of a verdict are several times what its level says."""


def diagnose(
    matched: Sequence[MatchedContrast],
    arms: Arms,
    crowded: Set[str],
    disks: Disks,
    faults: Faults,
    planned: int,
    plan: Plan,
) -> tuple[Contrast, ...]:
    """The contrasts with all their warnings.

    `crowded` are the ids of trials whose clients share CPUs (see `sharing_cpus`), `planned` is the number of blocks
    that were planned; at a look of a sequential design, those before it. `plan` has the looks, and what responses are
    called.
    """
    looks, titles = plan.looks, _find_titles(plan)
    positions, predecessors = _PositionEffects(arms), CarryoverEffects(arms)
    shared: dict[int, tuple[Warned, ...]] = {}  # contrasts of one pair of arms share their trials
    contrasts = []
    for one in matched:
        if id(one.pairs) not in shared:
            look = one.contrast.look
            shared[id(one.pairs)] = about_trials(
                one.pairs, crowded, min(looks[look - 1].blocks, planned) if look else planned
            )
        response = one.contrast.response
        title = titles.get((one.contrast.workload, response)) or response.replace("_", " ")
        warnings = (
            *faults.about(one.contrast),
            *about_series(one.differences, one.contrast.primary, title),
            *positions.about(one.contrast, title),
            *predecessors.about(one.contrast, title),
            *disks.about(one.contrast),
            *shared[id(one.pairs)],
        )
        contrasts.append(one.contrast.with_warnings(*warnings))
    return tuple(contrasts)


def _find_titles(plan: Plan) -> Mapping[tuple[str, str], str]:
    """What people call the responses of workloads; empty if the workload says nothing."""
    workloads = {id(workload): workload for one in plan.resolved for workload in one.workloads}
    return {(one.name, name): kind.title for one in workloads.values() for name, kind in one.responses.items()}


def about_series(differences: NDArray[np.float64], primary: bool, response: str = "the response") -> tuple[Warned, ...]:
    """Drift and autocorrelation of block differences, in the order of the blocks."""
    if len(differences) < FEWEST or not np.ptp(differences):
        return ()
    alarm = ALARM_PRIMARY if primary else ALARM_EXPLORATORY
    return (*_drift(differences, alarm, response), *_autocorrelation(differences, alarm))


def _drift(differences: NDArray[np.float64], alarm: float, response: str) -> tuple[Warned, ...]:
    if trend_p(differences) > alarm:
        return ()
    text = f"the difference in {response} drifted over the blocks: its size depends on when it was measured"
    return (Warned(code="drift", text=text),)


def trend_p(values: NDArray[np.float64]) -> float:
    """Two-sided p of the Mann-Kendall test for a monotone trend (normal approximation, corrected for continuity)."""
    n = len(values)
    before: list[float] = []
    score = 0  # pairs that ascend, less pairs that descend
    for value in values.tolist():
        left = bisect_left(before, value)
        right = bisect_right(before, value, left)
        score += left + right - len(before)
        before.insert(right, value)
    spread = math.sqrt(n * (n - 1) * (2 * n + 5) / 18)
    return math.erfc(max(0, abs(score) - 1) / spread / math.sqrt(2))


def _autocorrelation(differences: NDArray[np.float64], alarm: float) -> tuple[Warned, ...]:
    correlation, p = autocorrelation(differences)
    if p > alarm:
        return ()
    text = f"a block's difference resembles that of the block before (autocorrelation {correlation:.2f})"
    if correlation < STRONG:
        return (Warned(code="autocorrelation", text=f"{text}; the interval may be too narrow"),)
    text += (
        ": something that lasts longer than a block is bound to the treatment or to its reference, and a random "
        "order cannot cure that; the level of this verdict is not promised"
    )
    return (Warned(code="strong-autocorrelation", text=text),)


def autocorrelation(values: NDArray[np.float64]) -> tuple[float, float]:
    """Serial correlation at lag 1, and the one-sided p that independent values have as much.

    Mean -1/n and variance (n - 2)^2 / (n^2 (n - 1)) under independence: P. A. P. Moran, "Some theorems on time
    series II", Biometrika 35, 1948.
    """
    n = len(values)
    centred = values - values.mean()
    correlation = float((centred[1:] * centred[:-1]).sum() / (centred**2).sum())
    z = (correlation + 1 / n) * n * math.sqrt(n - 1) / (n - 2)
    return correlation, math.erfc(z / math.sqrt(2)) / 2


class _PositionEffects:
    """Whether a response depends on when within a block it was measured, by workload and response; found when asked."""

    def __init__(self, arms: Arms) -> None:
        self._arms: dict[str, list[Arm]] = defaultdict(list)
        for (_, workload), arm in arms.items():
            self._arms[workload].append(arm)
        self._known: dict[tuple[str, str], float] = {}
        self._everywhere: dict[str, Set[str]] = {}
        self._whole: dict[str, list[list[Replicate]]] = {}
        self._positions: dict[str, NDArray[np.float64]] = {}
        """Of those of `_whole`."""

    def about(self, contrast: Contrast, title: str) -> tuple[Warned, ...]:
        """`title` is what people call the contrast's response."""
        key = contrast.workload, contrast.response
        if key not in self._known:
            self._known[key] = self._p(*key)
        if self._known[key] > (ALARM_PRIMARY if contrast.primary else ALARM_EXPLORATORY):
            return ()
        text = f"{title} depends on the place of a trial within its block, whatever the treatment"
        return (Warned(code="position", text=text),)

    def _p(self, workload: str, response: str) -> float:
        rows = self._rows(workload, response)
        if not rows:
            return 1.0
        values = np.array([[one.values[response].value for one in row] for row in rows])
        if rows[0][0].values[response].kind.scale == "ratio":
            values = portable_math.log(values)
        return position_p(values, self._find_positions(workload, rows))

    def _find_positions(self, workload: str, rows: list[list[Replicate]]) -> NDArray[np.float64]:
        if rows is not self._whole.get(workload):
            return _list_positions(rows)
        if workload not in self._positions:
            self._positions[workload] = _list_positions(rows)
        return self._positions[workload]

    def _rows(self, workload: str, response: str) -> list[list[Replicate]]:
        """Found once for all responses that every boot of a workload has, which most are."""
        arms = self._arms[workload]
        if workload not in self._everywhere:
            self._everywhere[workload] = _list_usable(arms)
        if response not in self._everywhere[workload]:
            return _complete([one for one in arm.replicates if _usable(one, response)] for arm in arms)
        if workload not in self._whole:
            self._whole[workload] = _complete(arm.replicates for arm in arms)
        return self._whole[workload]


def _list_positions(rows: list[list[Replicate]]) -> NDArray[np.float64]:
    return np.array([[one.position for one in row] for row in rows])


def _complete(arms: Iterable[Iterable[Replicate]]) -> list[list[Replicate]]:
    """Of arms those, and the blocks that all of them have, which leave most to be compared; none
    of too few. Of each block the first attempt that they have in common, for another may be on another level.

    An arm that was withdrawn early would take their later blocks from all others.
    """
    by_attempt = [{(one.block, one.attempt): one for one in arm} for arm in arms]
    ordered = sorted(by_attempt, key=lambda arm: len({block for block, _ in arm}), reverse=True)
    most, chosen, shared = 0, 0, set[tuple[int, int]]()
    common = set(ordered[0]) if ordered else set()
    for number, arm in enumerate(ordered, 1):
        common &= arm.keys()
        blocks = len({block for block, _ in common})
        if blocks < FEWEST:
            break
        if (number - 1) * (blocks - 1) > most:
            most, chosen, shared = (number - 1) * (blocks - 1), number, set(common)
    attempts = first_attempts(shared)
    return [[arm[at] for at in attempts] for arm in ordered[:chosen]]


def _list_usable(arms: Iterable[Arm]) -> Set[str]:
    """Responses that all boots have, and that are on their scale in each."""
    each = [one.values for arm in arms for one in arm.replicates]
    shared = set(each[0]).intersection(*each[1:]) if each else set[str]()
    return {name for name in shared if {values[name].problem for values in each} == {None}}


def _usable(replicate: Replicate, response: str) -> bool:
    return response in replicate.values and replicate.values[response].problem is None


def position_p(values: NDArray[np.float64], positions: NDArray[np.float64]) -> float:
    """Two-sided p of a linear effect of position, beside those of treatments (rows) and blocks (columns)."""
    values = values / (np.abs(values).max() or 1.0)  # p does not depend on the scale; squares of what is huge overflow
    left, place = _beside_rows_and_columns(values), _beside_rows_and_columns(positions)
    spread = float((place**2).sum())
    total = float((left**2).sum())
    freedom = (values.shape[0] - 1) * (values.shape[1] - 1) - 1
    if freedom < 1 or spread <= 1e-12 or total <= 1e-18 * float((values**2).sum()):
        return 1.0
    slope = float((left * place).sum()) / spread
    unexplained = max(total - slope**2 * spread, 1e-300)
    return student_p(abs(slope) * math.sqrt(spread * freedom / unexplained), freedom)


def _beside_rows_and_columns(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    rows, columns = matrix.mean(axis=1, keepdims=True), matrix.mean(axis=0, keepdims=True)
    return np.asarray(matrix - rows - columns + matrix.mean())


def about_trials(pairs: Sequence[tuple[Replicate, Replicate]], crowded: Set[str], planned: int) -> tuple[Warned, ...]:
    """What the records of both arms say of how they were measured."""
    records = [record for pair in pairs for replicate in pair for record in replicate.records]
    boots = [[one.boot for pair in pairs for one in pair[side].records if one.boot is not None] for side in (0, 1)]
    return (
        *_blocks(pairs, planned),
        *_one_boot({boot.how for arm in boots for boot in arm}),
        *_one_machine(pairs, *({boot.id for boot in arm} for arm in boots)),
        *_shared_cpus(records, crowded),
        *_carried(pairs, len(records)),
    )


def _blocks(pairs: Sequence[tuple[Replicate, Replicate]], planned: int) -> Iterable[Warned]:
    if len(pairs) < planned:
        text = f"{len(pairs)} of {planned} planned blocks have it on both sides"
        yield Warned(code="blocks-missing", text=text)
    again = sum(treatment.attempt > 0 for treatment, _ in pairs)
    if again:
        yield Warned(code="blocks-repeated", text=f"a later attempt counts for {again:,} of {len(pairs):,} blocks")


def _one_boot(seen: Set[Provision]) -> Iterable[Warned]:
    for how, what in (("restore", "a snapshot, restored"), ("reuse", "machines that were not booted afresh")):
        if how in seen:
            yield Warned(
                code="one-boot", text=f"measured on {what}: the conclusion is about that one boot, not about the next"
            )


def _one_machine(pairs: Sequence[tuple[Replicate, Replicate]], boots: Set[str], others: Set[str]) -> Iterable[Warned]:
    """Two environments that are one: their machines tell the same boot, which else each provision has for itself."""
    if boots.isdisjoint(others):
        return
    environments = [one.records[0].trial.treatment.get("environment") for one in pairs[0]]
    if environments[0] != environments[1]:
        names = " and ".join(repr(str(name)) for name in environments)
        yield Warned(
            code="one-machine",
            text=f"{names} tell of the same boot: they are one machine, compared with itself (an A/A), or two "
            "containers of one kernel's",
        )


def _carried(pairs: Sequence[tuple[Replicate, Replicate]], trials: int) -> Iterable[Warned]:
    """Warnings of the trials themselves, one for each code and wording, with how many trials of which arm have it."""
    warned = [
        ((side, record.trial.id), warning)
        for treatment, reference in pairs
        for side, replicate in (("treatment", treatment), ("reference", reference))
        for record in replicate.records
        for warning in record.warnings
    ]
    for group in sorted(group_warnings(warned), key=lambda group: (group.code, group.text)):
        having = set(group.about)
        arms = {side for side, _ in having}
        whose = "" if len(arms) == 2 else f" (the {arms.pop()}'s)"
        yield Warned(code=group.code, text=f"in {len(having):,} of {trials:,} trials{whose}: {group.text}")


def _shared_cpus(records: Sequence[TrialRecord], crowded: Set[str]) -> Iterable[Warned]:
    count = sum(record.trial.id in crowded for record in records) if crowded else 0
    if count:
        yield Warned(
            code="cpus-shared",
            text=f"in {count:,} of {len(records):,} trials: a client may run on the CPUs of the machine under test, "
            "so that each takes time from the other",
        )


def sharing_cpus(records: Iterable[TrialRecord], plan: Plan) -> frozenset[str]:
    """Ids of the trials in which a client may run on the CPUs of a machine under test, as far as the records tell."""
    on_one_host = {
        key_of(one.assignment): (None, one.server.host)
        for one in plan.resolved
        if one.server.host in one.clients.places
    }
    environments = {one.level: one for of in plan.resolved for one in (of.environment, of.clients.environment)}
    elsewhere = {
        name for name, one in environments.items() if version_1.describe_environment(one).is_reached_from_outside
    }
    if not on_one_host:
        return frozenset()
    workloads = {one.name: one for of in plan.resolved for one in of.workloads}
    loading = {name for name, one in workloads.items() if one.has_clients}
    loading |= {name for name, one in workloads.items() if one.under in loading}
    known: dict[Places, bool] = {}  # ten thousand trials stand in a few places
    found: list[str] = []
    for record in records:
        hosts = on_one_host.get(key_of(record.trial.treatment))
        if hosts is None or record.trial.workload not in loading:
            continue
        # Records of version 1 name no hosts.
        places = tuple(
            [(one.role, one.cpus) for one in record.machines if one.host in hosts and one.environment not in elsewhere]
        )
        if places not in known:
            known[places] = _overlap(places)
        if known[places]:
            found.append(record.trial.id)
    return frozenset(found)


Places = tuple[tuple[str, str], ...]
"""Role and cpuset of each machine of a trial."""


def _overlap(places: Places) -> bool:
    servers = {cpus for role, cpus in places if role == "server"}
    clients = {cpus for role, cpus in places if role == "client"}
    if not servers or not clients:
        return False
    if "" in servers | clients:  # unrestricted: anywhere
        return True
    return not set().union(*map(cpu_lists.parse, servers)).isdisjoint(set().union(*map(cpu_lists.parse, clients)))


LeftOut = Sequence[tuple[Assignment, str]]
"""Treatments that were not run, each with the reason."""


def about_run(
    records: Sequence[TrialRecord], events: Iterable[Mapping[str, Any]], left_out: LeftOut, to_run: int
) -> tuple[Warned, ...]:
    """What was withdrawn comes first: it changes what the verdicts are about. Then what else befell the run.

    Blocks after `to_run` are not called missing: of a run that ended early it is said why.
    """
    told = list(events)
    withdrawn = [(event["treatment"], event["reason"]) for event in told if event["event"] == "Withdrawn"]
    left_behind = [Warned(code="left-behind", text=event["what"]) for event in told if event["event"] == "LeftBehind"]
    attempts = {(record.trial.block, record.trial.attempt) for record in records}
    return (
        *_treatments("withdrawn", "withdrawn after three failures running", withdrawn),
        *_early(told),
        *_phases(told, bool(records)),
        *_treatments("left-out", "left out", left_out),
        *_attempts(attempts, to_run),
        *_without_blame(records),
        *(
            Warned(code=group.code, text=f"could not be put back: {group.text}{times}")
            for group in group_warnings((None, warning) for warning in left_behind)
            for times in (f" ({len(group.about)} times)" if len(group.about) > 1 else "",)
        ),
    )


def _treatments(code: str, what: str, found: LeftOut) -> Iterable[Warned]:
    """Those with the same reason in one sentence."""
    reasons = [
        (format_assignment(treatment), Warned(code=code, text="; ".join(map(str.strip, reason.splitlines()))))
        for treatment, reason in found
    ]
    for group in group_warnings(reasons):
        names = list(dict.fromkeys(group.about))
        were = "was" if len(names) == 1 else "were"
        yield Warned(code=code, text=f"{'; '.join(names)} {were} {what}: {group.text}")


def _early(events: Sequence[Mapping[str, Any]]) -> Iterable[Warned]:
    for event in events:
        if event["event"] == "NothingToCompare":
            after = "1 block" if event["blocks"] == 1 else f"{event['blocks']} blocks"
            text = f"the run ended after {after}: nothing was left that can be compared"
            yield Warned(code="nothing-to-compare", text=text)


def _without_blame(records: Sequence[TrialRecord]) -> Iterable[Warned]:
    number = sum(record.status is not TrialStatus.OK and record.blame is None for record in records)
    if number:
        trials = "1 trial that is not ok names" if number == 1 else f"{number:,} trials that are not ok name"
        text = (
            f"{trials} nobody who is to blame, as in all runs of version 1: by their rule a failure is no outcome, and "
            "a block counts by its first attempt in which both sides are ok"
        )
        yield Warned(code="judged-as-version-1", text=text)


def _attempts(attempts: Set[tuple[int, int]], planned: int) -> Iterable[Warned]:
    again = len({block for block, attempt in attempts if attempt > 0})
    if again:
        were = "block was" if again == 1 else "blocks were"
        yield Warned(code="blocks-repeated", text=f"{again} {were} repeated after a bad trial")
    begun = len({block for block, _ in attempts})
    if begun < planned:
        yield Warned(code="blocks-missing", text=f"{begun} of {planned} planned blocks were begun")


def _phases(events: Sequence[Mapping[str, Any]], is_measured: bool) -> Iterable[Warned]:
    resumed = sum(event["event"] == "RunResumed" for event in events)
    if resumed:
        times = "once" if resumed == 1 else f"{resumed} times"
        yield Warned(code="interrupted", text=f"the run was interrupted and resumed {times}")
    yield from versions_changed(events)
    if not has_ended(events, is_measured):
        text = "the run has not come to its end; where it was interrupted, `nearmetal resume` goes on with it"
        yield Warned(code="unfinished", text=text)


def versions_changed(events: Iterable[Mapping[str, Any]]) -> Iterable[Warned]:
    """With what else the trials were made after a run was resumed."""
    others = [event.get("changed", {}) for event in events if event["event"] == "RunResumed"]
    for name, (before, after) in {name: one for other in others for name, one in other.items()}.items():
        text = f"the trials after it was resumed were made with another {name}: {after} instead of {before}"
        yield Warned(code="versions-changed", text=text)


def has_ended(events: Sequence[Mapping[str, Any]], is_measured: bool) -> bool:
    """Whether a run has come to its end by the events that its journal tells, or without any by its having records."""
    phases = [event for event in events if event["event"] in ("RunStarted", "RunResumed", "RunEnded")]
    # Without any it was killed before it wrote a line.
    return not phases[-1].get("interrupted", True) if phases else is_measured
