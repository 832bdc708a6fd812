"""`nearmetal run --gate`: whether the comparisons of one run meet gates, also those that it was begun with."""

import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from nearmetal.analysis.analyse import analyse
from nearmetal.analysis.gates import Gate, GatedContrast, GateOutcome, Why, judge_gates, parse_gate
from nearmetal.analysis.responses import key_of
from nearmetal.analysis.results import Analysis, Contrast, Verdict
from nearmetal.commands.compare_output import refuse_unknown_responses
from nearmetal.errors import BadInput
from nearmetal.model import COSTS, Plan, TrialRecord
from nearmetal.report.gate_formats import GatePage, describe_judged, describe_outcomes
from nearmetal.report.report_input import ReportInput
from nearmetal.store import journal, runs
from nearmetal.store.manifest import Manifest

Events = Sequence[Mapping[str, Any]]
"""Those of a journal that are no trials."""


def refuse_gates(gates: Sequence[Gate], plan: Plan) -> None:
    """BadInput, before anything is measured, where a gate is about what the study will not have."""
    known = {name for resolved in plan.resolved for workload in resolved.workloads for name in workload.responses}
    known |= {*COSTS, *(response for _, response in plan.judged)}
    refuse_unknown_responses(gates, known)
    if plan.looks:
        primary = {response for _, response in plan.judged}
        for gate in gates:
            if gate.response is not None and gate.response not in primary:
                what = "a run that stops at looks is judged by its primary responses alone"
                raise BadInput(
                    what,
                    f"--gate={gate.text!r}",
                    "make it a headline of its workload, or fix the number of blocks",
                )


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """What became of a run's gates, and the comparisons that they are about."""

    outcomes: tuple[GateOutcome, ...] = ()
    contrasts: tuple[Contrast, ...] = ()

    @property
    def is_met(self) -> bool:
        return all(outcome.met for outcome in self.outcomes)


def judge_run(report: ReportInput) -> JudgedRun:
    """By the gates that a run was begun with; none is judged before it has come to its end."""
    journal_path = report.folder.journal
    if not report.manifest.gates or runs.find_state(journal_path) != "ended":
        return JudgedRun()
    return judge_measured(
        report.manifest, report.analysis, report.records, lambda: journal.read_journal(journal_path)[1]
    )


def judge_measured(
    manifest: Manifest, whole: Analysis, records: Sequence[TrialRecord], read_events: Callable[[], Events]
) -> JudgedRun:
    """By the gates of a manifest. Those without a response go by what the report says of primary comparisons, `whole`;
    only bounds take another analysis, at the level that they share, and the run's events."""
    gates = [parse_gate(text) for text in manifest.gates]
    primary = [one for one in whole.contrasts if one.primary]
    named = _judge_named(manifest, records, read_events, whole, {gate.response for gate in gates if gate.response})
    outcomes = [
        outcome
        for gate in gates
        for contrasts in (named if gate.response else primary,)
        for outcome in judge_gates([gate], [GatedContrast(one, find_why(one), _find_base(one)) for one in contrasts])
    ]
    of_primaries = [] if all(gate.response for gate in gates) else primary
    shown = {(one.workload, one.response, key_of(one.treatment)): one for one in [*named, *of_primaries]}
    return JudgedRun(tuple(outcomes), tuple(shown.values()))


def print_outcomes(judged: JudgedRun, console: Console) -> None:
    for outcome, line in zip(judged.outcomes, describe_outcomes(judged.outcomes), strict=True):
        console.print(line, style="bold green" if outcome.met else "bold red")


def describe_run(judged: JudgedRun, report: ReportInput) -> GatePage:
    """What Markdown and JUnit are made of; of a run without gates, its primary comparisons."""
    contrasts = judged.contrasts or tuple(one for one in report.analysis.contrasts if one.primary)
    notes = [warning.text for warning in report.analysis.warnings]
    return describe_judged(contrasts, judged.outcomes, notes, report.labels, report.manifest.study.name)


def _judge_named(
    manifest: Manifest,
    records: Sequence[TrialRecord],
    read_events: Callable[[], Events],
    whole: Analysis,
    responses: Collection[str],
) -> list[Contrast]:
    """The contrasts of responses that gates bound. Where the number of blocks is fixed, they share the study's alpha
    among them alone, and no step of the study's own family counts: it holds for "different", not for a bound."""
    chosen = _choose_contrasts(whole, responses, manifest.plan)
    if manifest.plan.looks or not chosen:
        return chosen
    level = manifest.study.design.alpha / len(chosen)
    design = manifest.study.design.model_copy(update={"alpha": level})
    shared = {
        "study": manifest.study.model_copy(update={"design": design}),
        "plan": manifest.plan.model_copy(update={"level": level}),
    }
    again = manifest.model_copy(update=shared)
    return _choose_contrasts(analyse(again, records, read_events(), manifest.plan.primaries), responses, manifest.plan)


def _choose_contrasts(analysis: Analysis, responses: Collection[str], plan: Plan) -> list[Contrast]:
    """Exploratory ones only where the number of blocks is fixed: a look's level is for those it was planned for."""
    return [one for one in analysis.contrasts if one.response in responses and (one.primary or not plan.looks)]


_OF_ITS_NUMBER = ("too-few-blocks", "not-looked-yet")
"""Reasons why there is no interval that are no fault of what was measured."""


def find_why(contrast: Contrast) -> Why | None:
    """Why no gate is met whatever the interval: there is none for its values, or the treatment surely fails more."""
    if contrast.verdict is Verdict.WITHDRAWN:
        return "withdrawn"
    if contrast.interval is None and contrast.reason not in _OF_ITS_NUMBER:
        return "unjudged"
    failures = contrast.failures
    is_failing = failures is not None and failures.treatment > failures.reference and failures.p <= contrast.level
    return "failing" if is_failing else None


def _find_base(contrast: Contrast) -> float:
    """What a share of a difference is of."""
    return statistics.median(pair.reference for pair in contrast.pairs) if contrast.pairs else 0.0
