"""What a study would measure, how long that takes, and whether it can be measured here."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from nearmetal.console.printing import console_for, print_json, unfold_console
from nearmetal.control_characters import strip_controls
from nearmetal.errors import ExitCode
from nearmetal.model import Plan, SequentialBlocks, Study, Warned, WorkloadSpec
from nearmetal.model.services import SERVER
from nearmetal.planning import noise_evidence, power_description
from nearmetal.planning import plan as planning
from nearmetal.planning.opened_study import OpenedStudy
from nearmetal.planning.touched_files import TouchedFile, list_touched
from nearmetal.report import figures, words
from nearmetal.report.block_count import about_sizing
from nearmetal.run import study_execution
from nearmetal.run.estimate import estimate_plan, most_captured
from nearmetal.run.unavailable_treatments import Missing, foresee_missing, group_by_finding
from nearmetal.study import factors
from nearmetal.study.checks.treatments import find_idle_keys
from nearmetal.study.levels import format_assignment
from nearmetal.study.resolve import find_one_under_two_names, installed_names, resolve_treatments
from nearmetal.system.interrupts import run_until_done
from nearmetal.units import show_elapsed, show_size

if TYPE_CHECKING:
    from nearmetal.planning.documents import PlanOutput
    from nearmetal.store.calibration_document import Sensitivity, Sizing
    from nearmetal.store.pilot import Pilot

NOTHING_COMPARED = "nothing is compared: there is no treatment beside its reference"
_LONE_REST = "nothing is left to compare without what cannot run here"
_NAMED = 4
"""Treatments that are named before the rest is counted."""


def show_plan(opened: OpenedStudy, available: bool, as_json: bool, asks: bool = False) -> int:
    """HOST_CANNOT if `run` with the same words would refuse, as far as that is known; `asks`: as `run` finds it out."""
    from nearmetal.analysis.sensitivity import find_sensitivities, list_unknown  # loads numpy

    study = noise_evidence.open_number(opened.study)
    resolved = resolve_treatments(study, opened.files)
    not_asked: tuple[str, ...] = ()
    if asks:
        missing = run_until_done(study_execution.find_missing(study, resolved))
    else:
        missing, not_asked = run_until_done(foresee_missing(study, resolved))
    left_out = [treatment for treatment, _ in missing] if available else []
    plan = planning.make_plan(study, left_out, resolved)
    known = noise_evidence.gather_evidence(study)
    study, sizing = noise_evidence.fix_blocks(opened.study, plan, known, opened.place_of(("design", "blocks")))
    if sizing is not None:
        plan = planning.make_plan(study, left_out, resolved)
    is_lone_rest = planning.is_left_without_contrast(study, plan, resolved)
    refused = bool(missing) and (not available or not plan.treatments or is_lone_rest)
    outlook = Outlook(
        needed=planning.enough_blocks(len(plan.contrasts), study.design.alpha, bool(plan.looks)),
        sizing=sizing,
        seen=tuple(find_sensitivities(plan, known, study.design)),
        unknown=len(list_unknown(plan, known)),
        pilot=known.pilot,
        pace=noise_evidence.find_pace(study, plan),
        touches=tuple(list_touched(study, resolved)),
        not_asked=not_asked,
    )
    if as_json:
        warnings = [Warned(code="nothing-to-compare", text=_LONE_REST)] if is_lone_rest else []
        print_json(_make_document(study, plan, outlook, missing, warnings))
    else:
        console = unfold_console(console_for(False))
        _print_plan(study, plan, outlook, console)
        say_missing(missing, "left out" if available else "cannot run here", console)
        if refused and not available:
            console.print("`run` refuses this; with --available it leaves out what cannot run here")
        elif is_lone_rest:
            console.print(f"{_LONE_REST}: `run` refuses this", style="yellow")
        elif refused:
            console.print("nothing is left that can run here")
    return ExitCode.HOST_CANNOT if refused else ExitCode.DONE


@dataclass(frozen=True)
class Outlook:
    """What can be told beforehand of a plan's verdicts."""

    needed: int
    """The fewest blocks with which anything can be decided."""
    sizing: "Sizing | None"
    seen: "tuple[Sensitivity, ...]"
    unknown: int
    """Comparisons of whose noise nothing is known."""
    pilot: "Pilot | None"
    touches: tuple[TouchedFile, ...]
    not_asked: tuple[str, ...]
    """What was not asked whether it can run."""
    pace: "noise_evidence.Pace | None" = None

    def estimate_seconds(self, plan: Plan) -> float:
        """How long all of it takes: at the pace of an earlier run, or else by what environments are known to take."""
        return self.pace.seconds * plan.trials if self.pace else estimate_plan(plan)


def _make_document(
    study: Study, plan: Plan, outlook: Outlook, missing: Missing, warnings: Sequence[Warned]
) -> "PlanOutput":
    from nearmetal.analysis.verdict_rules import count_spare, warn_of_no_slack
    from nearmetal.planning.documents import Lacking, PlanOutput, UnusedFactor, show_order

    return PlanOutput(
        plan=show_order(plan),
        seconds=round(outlook.estimate_seconds(plan)),
        blocks_needed=outlook.needed,
        k=count_spare(plan) if plan.contrasts else None,
        sizing=outlook.sizing,
        unknown=outlook.unknown,
        pilot=outlook.pilot,
        warnings=(*warnings, *warn_of_no_slack(plan)),
        one_machine=tuple(find_one_under_two_names(study)),
        unused=tuple(
            UnusedFactor(workload=workload.name, factor=name, levels=len(study.factors[name].levels))
            for workload, name in _list_unused(study)
        ),
        fixed_urls=tuple(_fixed_urls(study)),
        idle_keys=tuple(find_idle_keys(study)),
        sees=outlook.seen,
        touches=outlook.touches,
        not_asked=outlook.not_asked,
        missing=tuple(
            Lacking(treatment=treatment, what=finding.what, detail=finding.detail, remedy=finding.remedy)
            for treatment, finding in missing
        ),
    )


def _fixed_urls(study: Study) -> list[str]:
    """Workloads that ask one place, whatever the environment is: each treatment would measure the same."""
    if len(study.factors["environment"].levels) < 2:
        return []
    urls = {workload.name: workload.parameters.get("url") for workload in study.workloads}
    return [name for name, url in urls.items() if isinstance(url, str) and SERVER not in url and "{" not in url]


def say_idle_keys(study: Study, console: Console) -> None:
    """Each key of [machine] that changes nothing here, and what to do about it."""
    for key in find_idle_keys(study):
        what = f"machine.{key} means nothing to any machine of this study, and changes nothing"
        console.print(f"{what}: remove it, or add an environment to which it does", style="yellow")


def _list_unused(study: Study) -> Iterator[tuple[WorkloadSpec, str]]:
    return factors.list_unused(study, installed_names())


def _print_plan(study: Study, plan: Plan, outlook: Outlook, console: Console) -> None:
    console.print(Text.assemble((study.name, "bold"), f"  {study.question}" if study.question else ""))
    console.print(
        f"{figures.format_count(len(plan.treatments), 'treatment')} x "
        f"{figures.format_count(len(study.workloads), 'workload')} x "
        + ("at most " if plan.looks else "")
        + figures.format_count(plan.blocks, "block")
        + (f" x {study.design.repeats} repeats" if study.design.repeats > 1 else "")
        + f" = {figures.format_count(plan.trials, 'trial')}; "
        + ("each run draws an order of its own" if plan.seed is None else f"seed {plan.seed}")
    )
    for one, other in find_one_under_two_names(study):
        console.print(f"{one!r} and {other!r} are one machine: it is compared with itself (an A/A)", style="yellow")
    for fixed in _fixed_urls(study):
        console.print(
            f"{fixed}: its `url` does not lead to {SERVER}, so that every environment is compared with itself; "
            f'write "http://{SERVER}:8080/", or server = "NAME" with [services.NAME]',
            style="yellow",
        )
    say_idle_keys(study, console)
    for workload, name in _list_unused(study):
        levels = figures.format_count(len(study.factors[name].levels), "level")
        console.print(f"{workload.name} does not use {name}, and is measured at each of its {levels} all the same")
    named = factors.reference_of(study)
    for name, factor in study.factors.items():
        if len(factor.levels) > 1 and name not in named:
            levels = figures.format_count(len(factor.levels), "level")
            console.print(f"`reference` does not name {name}: its {levels} are not compared with each other")
    labels = words.Labels.of_plan(plan)
    for contrast in plan.contrasts:
        treatment, reference = map(format_assignment, (contrast.treatment, contrast.reference))
        headline = f", {labels.name_response(contrast.workload, contrast.response)}" if contrast.response else ""
        compared = f"{contrast.workload}{headline}: {treatment} against {reference}"
        console.print(Padding(compared, (0, 0, 0, 2), expand=False))
    if plan.contrasts:
        console.print(
            f"{figures.format_count(len(plan.contrasts), 'primary contrast')}, "
            f"{_when_decided(plan, outlook.needed, _count_first(study))}"
        )
        _print_outlook(study, plan, outlook, console)
    else:
        console.print(NOTHING_COMPARED)
    by = f", as the run of {outlook.pace.created[:16].replace('T', ' ')} did" if outlook.pace else ""
    console.print(f"the whole takes {_show_duration_of(outlook.estimate_seconds(plan), plan)}{by}")
    if captured := most_captured(plan):
        console.print(f"captures take at most {show_size(captured)} in the run's folder")
    _print_touched(outlook, console)


def _print_touched(outlook: Outlook, console: Console) -> None:
    """What of the study's own it runs and touches, and what nobody was asked about."""
    if outlook.touches:
        console.print("of its own it runs and touches:")
    for one in outlook.touches:
        console.print(Padding(strip_controls(f"{one.kind} ({one.of}): {one.what}"), (0, 0, 0, 2), expand=False))
    if outlook.not_asked:
        console.print("not asked whether it can run, add --ask for that:")
    for what in outlook.not_asked:
        console.print(Padding(strip_controls(what), (0, 0, 0, 2), expand=False))


def _print_outlook(study: Study, plan: Plan, outlook: Outlook, console: Console) -> None:
    """How many blocks may disagree, what differences are found, and by what that is known."""
    from nearmetal.analysis.verdict_rules import count_spare, warn_of_no_slack

    if spare := count_spare(plan):
        points = "points" if spare == 1 else "point"
        console.print(
            f"a difference can still be found if {spare} of {plan.blocks} blocks {points} the other way, by little"
        )
    # Of too few blocks for any verdict the line above says so.
    for warning in () if spare is None else warn_of_no_slack(plan):
        console.print(warning.text, style="yellow")
    if outlook.sizing is not None:
        console.print(about_sizing(outlook.sizing, study.design))
    for sentence in power_description.write_sentences(outlook.seen, study.design, words.Labels.of_plan(plan)):
        console.print(Padding(sentence, (0, 0, 0, 2), expand=False))
    told = (
        None if outlook.sizing else power_description.about_aim(outlook.seen, study.design),
        power_description.about_repeats(outlook.pilot, study.design),
        power_description.about_unknown(outlook.unknown, plan, outlook.pilot),
    )
    for text in filter(None, told):
        console.print(text)


def _count_first(study: Study) -> int:
    """The fewest blocks that the study asks for."""
    blocks = study.design.blocks
    return blocks.min if isinstance(blocks, SequentialBlocks) else study.design.most_blocks


def _when_decided(plan: Plan, needed: int, first: int) -> str:
    """At what share of alpha, and after how many blocks."""
    at = f"{'each ' if len(plan.contrasts) > 1 else ''}at alpha {plan.level:.4g}; "
    enough = plan.blocks >= needed
    if not enough or not plan.looks:
        few = "" if enough else f", and with {plan.blocks} every verdict is undecided"
        return f"{at}that takes at least {figures.format_count(needed, 'block')}{few}"
    after = figures.join_listing(str(look.blocks) for look in plan.looks)
    is_late = plan.looks[0].blocks > first
    why = f" (not after {first}, with which nothing can be decided at that alpha)" if is_late else ""
    return f"{at}looked at after {after} blocks{why}, until all are decided"


def _show_duration_of(seconds: float, plan: Plan) -> str:
    longest = show_elapsed(seconds)
    if len(plan.looks) < 2:
        return f"about {longest}"
    return f"about {show_elapsed(seconds * plan.looks[0].blocks / plan.blocks)} to {longest}"


def say_missing(missing: Missing, heading: str, console: Console) -> None:
    """Each thing that is missing once, with the treatments that lack it, and what mends it."""
    for finding, treatments in group_by_finding(missing).items():
        detail = f": {finding.detail}" if finding.detail else ""
        console.print(Text.assemble((heading, "yellow"), f": {strip_controls(finding.what + detail)}"))
        for name in treatments[:_NAMED]:
            console.print(Padding(strip_controls(name), (0, 0, 0, 4), expand=False))
        if len(treatments) > _NAMED:
            console.print(f"    and {len(treatments) - _NAMED} more")
        if finding.remedy:
            console.print(Padding(f"remedy: {strip_controls(finding.remedy)}", (0, 0, 0, 2), expand=False))
