"""The whole analysis of a run, as one pure function."""

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nearmetal.analysis.assumptions import warn_of_assumptions
from nearmetal.analysis.confounders import disks_of, name_confounders
from nearmetal.analysis.contrasts import MatchedContrast, matched_contrasts, retest, until_the_end
from nearmetal.analysis.diagnostics import about_run, diagnose, has_ended, sharing_cpus
from nearmetal.analysis.fairness import fairness_of
from nearmetal.analysis.faults import UNLIKE, Faults, find_withdrawn, hold_back
from nearmetal.analysis.interference import warn_of_interference
from nearmetal.analysis.means import warn_of_means
from nearmetal.analysis.outlier_clients import about_clients
from nearmetal.analysis.provenance import list_provenance_warnings
from nearmetal.analysis.responses import BOOT, Arm, Arms, arms_of_study, count, find_deviation, key_of, mean
from nearmetal.analysis.results import Analysis, Cell, Contrast, Verdict
from nearmetal.analysis.sites import warn_of_sites
from nearmetal.analysis.verdict_rules import warn_of_no_slack
from nearmetal.model import Assignment, TrialRecord, Warned
from nearmetal.store.journal import blocks_planned, blocks_to_run
from nearmetal.store.manifest import MachineFacts, Manifest

_OF_ITS_TEST = (
    *("level", "interval", "equivalence", "p", "p_dependent", "p_lopsided"),
    *("verdict", "reason", "beyond_margin", "needs", "k", "worked", "sites", "means"),
)
"""What another level changes of a contrast."""


def step_down(
    contrasts: Sequence[Contrast], matched: Sequence[MatchedContrast], number: int, alpha: float, margin: float
) -> tuple[Contrast, ...]:
    """The contrasts with what Holm's steps find, each made of what is `matched` in its place.

    `number` is how many primary ones were planned; of some there may be no test.
    """
    found = list(contrasts)
    tested = {place: one.p for place, one in enumerate(contrasts) if one.primary and one.p is not None and _stands(one)}
    for place, level in find_steps(tested, number, alpha).items():
        if tested[place] > contrasts[place].level:
            again = retest(matched[place], level, margin)
            if again.verdict is Verdict.DIFFERENT:
                update = {name: getattr(again, name) for name in _OF_ITS_TEST}
                found[place] = contrasts[place].model_copy(update=update)
    return tuple(found)


def find_steps(tested: Mapping[int, float], number: int, alpha: float) -> dict[int, float]:
    """Which of `number` hypotheses are rejected, by their p, and the level of the step that does it."""
    levels: dict[int, float] = {}
    for place in sorted(tested, key=tested.__getitem__):
        level = alpha / (number - len(levels))
        if tested[place] > level:
            break
        levels[place] = level
    return levels


def _stands(contrast: Contrast) -> bool:
    """Whether the run bears out what its blocks say."""
    return contrast.verdict is not Verdict.WITHDRAWN and contrast.reason != UNLIKE


_MALFORMED = 4
"""So many machines are named whose facts are malformed."""


def analyse(
    manifest: Manifest,
    records: Iterable[TrialRecord],
    events: Iterable[Mapping[str, Any]],
    primaries: Mapping[str, str],
    arms: Arms | None = None,
    cells: tuple[Cell, ...] | None = None,
) -> Analysis:
    """What a run says. `primaries` names each workload's primary response. The same input gives the same output.

    `arms` are those of the records as the study's design has them, and `cells` those of the arms, if they are known.
    """
    kept, told = tuple(records), tuple(events)
    manifest = manifest.with_facts(told)
    design = manifest.study.design
    if arms is None:
        arms = arms_of_study(kept, design)
    looks = [event for event in told if event["event"] == "LookTaken"]
    taken = manifest.plan.looks[: max((look["look"] for look in looks), default=0)]
    looked = taken[-1].blocks if taken else 0
    matched = matched_contrasts(manifest.plan, arms, primaries, design.alpha, design.margin, looked)
    planned = blocks_planned(manifest.plan.blocks, told)
    to_run = blocks_to_run(manifest.plan.blocks, told)
    crowded = sharing_cpus(kept, manifest.plan)
    contrasts = diagnose(matched, arms, crowded, disks_of(manifest), Faults(kept), planned, manifest.plan)
    withdrawn = find_withdrawn(kept, told)
    contrasts = tuple(hold_back(one, withdrawn) for one in contrasts)
    contrasts = name_confounders(contrasts, manifest)
    if not manifest.plan.looks:
        if has_ended(told, bool(kept)):
            contrasts = step_down(contrasts, matched, len(manifest.plan.contrasts), design.alpha, design.margin)
        else:
            contrasts = tuple(map(until_the_end, contrasts))
    contrasts = tuple(
        one.with_warnings(*warn_of_assumptions(one), *warn_of_means(one), *warn_of_sites(one)) for one in contrasts
    )
    pace = find_pace(kept)
    contrasts = tuple(
        one if one.needs is None or pace is None else one.model_copy(update={"needs_seconds": one.needs * pace})
        for one in contrasts
    )
    left_out = list(zip(manifest.left_out, manifest.left_out_why, strict=True))
    return Analysis(
        trials=count(kept),
        contrasts=contrasts,
        cells=find_cells(manifest, arms, primaries) if cells is None else cells,
        fairness=fairness_of(in_order_of_the_study(manifest), manifest.study.reference),
        warnings=(
            *about_run(kept, told, left_out, to_run),
            *_about_facts(manifest.malformed),
            *list_provenance_warnings(manifest, kept),
            *warn_of_interference(kept),
            *about_clients(arms, primaries, design.margin),
            *warn_of_no_slack(manifest.plan),
        ),
    )


def find_pace(records: Iterable[TrialRecord]) -> float | None:
    """Seconds that the steps of a block took together: the median of the blocks' attempts. None without records."""
    taken: Counter[tuple[int, int]] = Counter()
    for record in records:
        taken[record.trial.block, record.trial.attempt] += sum(record.phases_ns.values())
    return statistics.median(taken.values()) / 1e9 if taken else None


def _about_facts(malformed: Sequence[str]) -> Iterable[Warned]:
    if malformed:
        more = len(malformed) - _MALFORMED
        listed = "; ".join([*malformed[:_MALFORMED], *([f"and {more} more machines"] if more > 0 else [])])
        text = f"what machines told of themselves is left out where it is not as facts are: {listed}"
        yield Warned(code="facts-malformed", text=text)


def in_order_of_the_study(manifest: Manifest) -> list[MachineFacts]:
    """They were found in the random order of the first block."""
    place = {key_of(treatment): index for index, treatment in enumerate(manifest.plan.treatments)}
    return sorted(manifest.fairness, key=lambda facts: place.get(key_of(facts.treatment), len(place)))


def find_cells(manifest: Manifest, arms: Arms, primaries: Mapping[str, str]) -> tuple[Cell, ...]:
    """What was measured, in the order of the study: workload, response (the primary first), treatment."""
    cells: list[Cell] = []
    for workload in [*(workload.name for workload in manifest.study.workloads), BOOT]:
        found = [
            (treatment, arms[key_of(treatment), workload])
            for treatment in manifest.plan.treatments
            if (key_of(treatment), workload) in arms
        ]
        names = {name for _, arm in found for replicate in arm.first for name in replicate.values}
        primary = primaries.get(workload)
        for name in sorted(names, key=lambda name: (name != primary, name)):
            cells += _cells_of_response(workload, name, found)
    return tuple(cells)


def _cells_of_response(workload: str, response: str, arms: Sequence[tuple[Assignment, Arm]]) -> Iterable[Cell]:
    for treatment, arm in arms:
        having = [
            (replicate.block, value) for replicate in arm.first if (value := replicate.values.get(response)) is not None
        ]
        if not having:
            continue
        kind = having[0][1].kind
        values = [value.value for _, value in having]
        yield Cell(
            workload=workload,
            response=response,
            unit=kind.unit,
            better=kind.better,
            scale=kind.scale,
            treatment=treatment,
            values=tuple(values),
            censored=tuple(value.censored for _, value in having),
            blocks=tuple(block for block, _ in having),
            mean=mean(values),
            stddev=find_deviation(values),
            minimum=min(values),
            maximum=max(values),
            median=statistics.median(values),
            failed=arm.failed,
        )
