"""Runs of a study before and after: what each treatment gives, and whether what it costs has changed. Pure.

Blocks of one run have nothing in common with those of another, so values are compared as two samples. A treatment's own
change holds all that happened to the host in between. How it stands to its reference does not: both sides of that were
measured in the same blocks, so whatever made the host slower as a whole drops out.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Annotated, Any, Literal

from pydantic import Field

from nearmetal.analysis import run_differences
from nearmetal.analysis.changes import (
    NOTHING_AFTER,
    ChangeSubject,
    ResponseChange,
    Side,
    fails_more,
    find_change,
    is_unjudged,
)
from nearmetal.analysis.diagnostics import about_run
from nearmetal.analysis.faults import find_withdrawn
from nearmetal.analysis.gates import (
    Case,
    Gate,
    GatedContrast,
    GateOutcome,
    Why,
    is_beyond_margin,
    is_surely_failing,
    judge_gates,
)
from nearmetal.analysis.interference import warn_of_interference
from nearmetal.analysis.outcome_ranks import Pair
from nearmetal.analysis.provenance import list_provenance_warnings
from nearmetal.analysis.responses import BOOT, Arm, Arms, arms_of_study, key_of, outcomes_of
from nearmetal.analysis.results import FairnessRow, Verdict
from nearmetal.model import OF_THE_BOOT, Document, TrialRecord, Warned
from nearmetal.store.journal import blocks_planned, blocks_to_run
from nearmetal.store.manifest import Manifest


@dataclass(frozen=True)
class StoredRun:
    manifest: Manifest
    records: Sequence[TrialRecord]
    events: Sequence[Mapping[str, Any]] = ()
    name: str = ""
    """Of its folder."""

    @cached_property
    def arms(self) -> Arms:
        return arms_of_study(self.records, self.manifest.study.design)

    @cached_property
    def withdrawn(self) -> frozenset[str]:
        """Keys of treatments that were given up."""
        return find_withdrawn(self.records, self.events)

    @property
    def blocks(self) -> int:
        """Those that are planned; of a sequential run, which ends when it has seen enough, those that were begun."""
        plan = self.manifest.plan
        return len({record.trial.block for record in self.records}) if plan.looks else plan.blocks


def find_copies(runs: Sequence[StoredRun]) -> tuple[StoredRun, int] | None:
    """A run of which an earlier one has trials too, as of a run and a copy of it, and how many; None of different runs.

    By how long their steps took, to the nanosecond. What has no steps, as with a machine that never came up, can be
    told alike by two runs that began together.
    """
    for one, other in combinations(runs, 2):
        if one.manifest.created == other.manifest.created:
            known = {record.trial.id: record.phases_ns for record in one.records}
            shared = sum(bool(two.phases_ns) and known.get(two.trial.id) == two.phases_ns for two in other.records)
            if shared:
                return other, shared
    return None


class RunWarning(Warned):
    """What a run as a whole is warned of."""

    run: run_differences.When
    folder: str = ""


class Comparison(Document):
    """`compare.v1`."""

    schema_: Annotated[Literal["compare.v1"], Field(alias="schema")] = "compare.v1"
    before: str
    """The run's folder; of several, the first's."""
    after: str
    before_runs: tuple[str, ...] = ()
    """The folders of all."""
    after_runs: tuple[str, ...] = ()
    apart: tuple[FairnessRow, ...]
    """What else is not the same, in the study, the software, the host and the machines; values by "before", "after"."""
    changes: tuple[ResponseChange, ...]
    alone: tuple[run_differences.UnsharedComparison, ...]
    """What only some of the runs were to measure. It has no part in the changes, nor in their level."""
    warnings: tuple[RunWarning, ...]
    """What changes what a change is about: `versions-changed`, when no version of that run stands for all its trials;
    `emulated`, `pretended`, `nested`; `busy-host` and `steal`, when they are of the whole run. And how it came to its
    end: `stopped-at-a-look`, `unfinished`, `blocks-missing`; `judged-as-version-1` of one whose records do not say
    who was to blame."""
    worse: int
    """What a gate asks for: how many stand surely worse to their reference than they did, by more than the margin or
    because they fail. Where the runs share no reference, how many treatments are worse by themselves."""
    gone: int
    """Of those that a gate asks for, how many the runs before had measured and those after have not: no good trial of
    it is there, it was withdrawn, or it was not even planned."""
    unjudged: int
    """Of those that a gate asks for, how many the runs before could be held against and those after cannot, though
    they have values: they are no numbers, only known to lie on the worse side, or in too few of their blocks."""
    gates: tuple[GateOutcome, ...] = ()


def compare(
    before: Sequence[StoredRun], after: Sequence[StoredRun], margin: float | None = None, gates: Sequence[Gate] = ()
) -> Comparison:
    """What all runs were to measure: every primary response, and those that gates name.

    The first later study's alpha is shared by what gates, or would; everything else has it each. Equivalent is what
    lies within `margin`, a share; None for that study's own.
    """
    asked = list(_ask(before, after, gates))
    design = after[0].manifest.study.design
    margin = design.margin if margin is None else margin
    gated = sum(one.is_gated for one in asked)
    evidence: list[GatedContrast] = []
    changes = []
    for one in asked:
        sides = _side(one, before), _side(one, after)
        level = design.alpha / gated if one.is_gated else design.alpha
        change, base = find_change(one, *sides, level, margin)
        changes.append(change)
        if one.is_gated:
            evidence.append(GatedContrast(change, _find_why(change), base))
    of: run_differences.SubjectKind = "contrast" if any(one.of == "contrast" for one in asked) else "treatment"
    lone = tuple(
        run_differences.find_unshared(*([(run.manifest, run.arms) for run in side] for side in (before, after)))
    )
    dropped = run_differences.find_dropped(lone, of)
    judged = [change for change, one in zip(changes, asked, strict=True) if one.is_gated]
    return Comparison(
        before=before[0].name,
        after=after[0].name,
        before_runs=tuple(run.name for run in before),
        after_runs=tuple(run.name for run in after),
        apart=tuple(_apart(before, after)),
        changes=tuple(changes),
        alone=lone,
        warnings=tuple(
            RunWarning(code=one.code, text=one.text, run=when, folder=run.name)
            for when, runs in ((run_differences.BEFORE, before), (run_differences.AFTER, after))
            for run in runs
            for one in _about(run)
        ),
        worse=sum(is_worse(change) for change in judged),
        gone=sum(_is_gone(change) for change in judged) + len(dropped),
        unjudged=sum(is_unjudged(change) for change in judged),
        gates=tuple(judge_gates(gates, evidence, [Case.of(one, "not-planned") for one in dropped])),
    )


def is_worse(change: ResponseChange) -> bool:
    """Whether it is surely worse: by more than the margin, or as it fails more."""
    return is_beyond_margin(change) or is_surely_failing(change) or fails_more(change)


def _is_gone(change: ResponseChange) -> bool:
    return change.reason == NOTHING_AFTER or (
        change.verdict is Verdict.WITHDRAWN and change.because_of == run_differences.AFTER
    )


def _find_why(change: ResponseChange) -> Why | None:
    if change.reason == NOTHING_AFTER:
        return "gone"
    if is_unjudged(change):
        return "unjudged"
    return "failing" if fails_more(change) else None


def find_responses(runs: Sequence[StoredRun]) -> dict[str, set[str]]:
    """What runs of these were to measure, or have: responses, each with its workloads."""
    known: dict[str, set[str]] = defaultdict(set)
    for run in runs:
        plan = run.manifest.plan
        for one in (one for resolved in plan.resolved for one in resolved.workloads):
            for name in one.responses:
                known[name].add(one.name)
        for workload, name in plan.primaries.items():
            known[name].add(workload)
        for (_, of), arm in run.arms.items():
            for name in (name for replicate in arm.first for name in replicate.values):
                known[name].add(of)
    for name in OF_THE_BOOT & known.keys():
        if BOOT in known[name]:
            known[name] = {BOOT}
    return known


def _ask(before: Sequence[StoredRun], after: Sequence[StoredRun], gates: Sequence[Gate]) -> Iterator[ChangeSubject]:
    """Whatever all runs were to measure, so that how many there are is not a matter of what came of them."""
    runs = (*before, *after)
    shared = run_differences.find_shared(run.manifest for run in runs)
    planned = {key: sides for key, sides in run_differences.find_planned(after[0].manifest).items() if key in shared}
    gating: run_differences.SubjectKind = "contrast" if any(of == "contrast" for of, *_ in planned) else "treatment"
    named = {gate.response for gate in gates if gate.response}
    are_primary_gated = not gates or any(gate.response is None for gate in gates)
    for (of, workload, response, *_), sides in planned.items():
        is_gated = of == gating and (are_primary_gated or response in named)
        yield ChangeSubject(of, workload, response, *sides, is_primary=of == gating, is_gated=is_gated)
    known = find_responses(runs)
    others: dict[run_differences.Planned, ChangeSubject] = {}
    for (of, workload, primary, *keys), sides in planned.items():
        for response in sorted(named & known.keys() - {primary}) if of == gating else ():
            place = BOOT if known[response] == {BOOT} else workload
            if place in known[response]:
                asked = ChangeSubject(of, place, response, *sides, is_primary=False, is_gated=True)
                others.setdefault((of, place, response, keys[0], keys[1]), asked)
    yield from others.values()


def _side(asked: ChangeSubject, runs: Sequence[StoredRun]) -> Side:
    keys = {key_of(asked.treatment), key_of(asked.reference)}
    return Side(
        [_pairs(asked, run) for run in runs],
        sum(run.blocks for run in runs),
        any(keys & run.withdrawn for run in runs),
    )


def _pairs(asked: ChangeSubject, run: StoredRun) -> list[Pair]:
    if asked.of == "contrast":
        return [*outcomes_of(run.arms, asked.treatment, asked.reference, asked.workload)]
    arm = run.arms.get((key_of(asked.treatment), asked.workload), Arm())
    return [(one, None) for one in arm.counted]


def _apart(before: Sequence[StoredRun], after: Sequence[StoredRun]) -> Iterator[FairnessRow]:
    """Of each run before and each after, once."""
    seen = set()
    for one in before:
        for other in after:
            for row in run_differences.list_differences(one.manifest, other.manifest):
                if (key := row.model_dump_json()) not in seen:
                    seen.add(key)
                    yield row


_OF_A_RUN = frozenset({"versions-changed", "unfinished", "blocks-missing", "judged-as-version-1"})
"""Codes of what befell a run that matter where it is held against another. What was withdrawn, or never measured, has
no values: each comparison tells of that by itself."""


def _about(run: StoredRun) -> Iterator[Warned]:
    """What may be the cause of a change, and no upgrade."""
    yield from stopped_at_a_look(run.manifest.plan.blocks, run.events)
    to_run = blocks_to_run(run.manifest.plan.blocks, run.events)
    yield from (one for one in about_run(run.records, run.events, (), to_run) if one.code in _OF_A_RUN)
    yield from list_provenance_warnings(run.manifest, run.records)
    yield from warn_of_interference(run.records)


def stopped_at_a_look(most: int, events: Sequence[Mapping[str, Any]]) -> Iterator[Warned]:
    """What made a run of `most` blocks or fewer stop was its values, so that they are not what blocks of a number that
    was fixed would have given: `validation/two_runs.py` says how often that is taken for a change."""
    blocks = blocks_planned(most, events)
    if blocks < most:
        text = (
            f"stopped at a look, after {blocks} of at most {most} blocks, because of what they gave: where nothing "
            "has changed, such runs are called different more often than the level says; those of fixed blocks are not"
        )
        yield Warned(code="stopped-at-a-look", text=text)
