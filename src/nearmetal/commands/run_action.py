"""A run from the command line: begun or gone on with, watched, and concluded."""

import os
import statistics
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import click
from rich.console import Console

from nearmetal.commands.plan_output import NOTHING_COMPARED, say_idle_keys, say_missing
from nearmetal.commands.runs import print_verdicts, say_how_to_go_on, write_report
from nearmetal.console.printing import console_for, print_beside, print_json, unfold_console
from nearmetal.console.running_estimates import RunningEstimates
from nearmetal.errors import BadInput, ExitCode, HostCannot, LeftAtOnce
from nearmetal.model import Plan, Study, TrialCounts, TrialRecord
from nearmetal.planning import noise_evidence
from nearmetal.planning import plan as planning
from nearmetal.planning.opened_study import OpenedStudy
from nearmetal.report.block_count import about_sizing
from nearmetal.run import study_execution
from nearmetal.run.block_executor import BlockExecutor
from nearmetal.run.estimate import estimate_plan
from nearmetal.run.progress import Progress
from nearmetal.store import journal, runs
from nearmetal.store.journal_lock import make_taken_error
from nearmetal.store.progress import RunProgress, seconds_each
from nearmetal.store.run_folder import RunFolder
from nearmetal.study.resolve import resolve_treatments
from nearmetal.system import system_errors
from nearmetal.system.interrupts import run_until_done, until_interrupted
from nearmetal.units import show_elapsed

if TYPE_CHECKING:
    from nearmetal.analysis.gates import Gate
    from nearmetal.console.run_progress_display import RunProgressDisplay


def run_study(
    opened: OpenedStudy,
    output: Path | None,
    available: bool,
    form: str,
    gates: "Sequence[Gate]" = (),
    is_quiet: bool = False,
    scheduler: str | None = None,
) -> int:
    """`form` is that of the result: "text", "json", "md" or "junit". If quiet, it prints that alone."""
    executor = _choose_executor(scheduler)
    as_json = form != "text"
    study = noise_evidence.open_number(opened.study)
    folder = output or study_execution.default_folder(study)
    console = _console_of_course(as_json, is_quiet)
    resolved = resolve_treatments(study, opened.files)
    missing = run_until_done(study_execution.find_missing(study, resolved)) if available else []
    say_idle_keys(study, console)
    say_missing(missing, "left out", console)
    left_out = [treatment for treatment, _ in missing]
    plan = planning.make_plan(study, left_out, resolved)
    request = study_execution.RunRequest(
        opened.study,
        opened.source,
        opened.overrides,
        opened.quick,
        folder,
        available,
        files=opened.files,
        gates=tuple(gate.text for gate in gates),
    )
    if opened.study.design.blocks == "auto":
        study, sizing = noise_evidence.fix_blocks(
            opened.study, plan, noise_evidence.gather_evidence(study), opened.place_of(("design", "blocks"))
        )
        request = request.with_blocks(study, sizing)
        plan = planning.make_plan(study, left_out, resolved)
        if sizing is not None:
            console.print(about_sizing(sizing, study.design))
    if plan.treatments and not plan.contrasts:
        console.print(NOTHING_COMPARED)
        if left_out:
            console.print("the run measures what is left all the same, and ends without a verdict")
    if gates:
        from nearmetal.commands.gates import refuse_gates

        refuse_gates(gates, plan)
    began = time.monotonic()
    try:
        with make_progress_display(study, plan, console) as watching:
            finished = until_interrupted(
                study_execution.start_run(request, console.print, (watching,), executor), console.print
            )
    except LeftAtOnce:
        _tell_interrupted(RunFolder(folder))
        raise
    except OSError as error:
        if error.errno not in system_errors.FULL or RunFolder(folder).has_manifest:
            raise
        # There is no run yet that one could go on with.
        raise HostCannot(
            os.strerror(error.errno), str(error.filename or ""), system_errors.find_remedy(error)
        ) from None
    took = f" in {show_elapsed(time.monotonic() - began)}"
    status = _conclude_run(RunFolder(request.folder), finished, took, form)
    if opened.repeats is not None and finished and form == "text":
        from nearmetal.commands.compare_output import compare_runs

        try:
            compare_runs([opened.repeats], [request.folder])
        except BadInput as error:  # the run itself is done
            print_beside(f"it is not compared with the bundle's run: {error.what}")
    return status


def _choose_executor(scheduler: str | None) -> BlockExecutor | None:
    """None for this host. BadInput."""
    if scheduler is None:
        return None
    from nearmetal.fleet.fleet_executor import FleetExecutor

    return FleetExecutor(scheduler)


def _console_of_course(as_json: bool, is_quiet: bool) -> Console:
    """Where a run says how it goes on."""
    console = unfold_console(console_for(as_json))
    console.quiet = is_quiet
    return console


def resume_run(path: Path, form: str, is_quiet: bool = False, scheduler: str | None = None) -> int:
    """By the gates that the run was begun with. `form` is that of the result, and `is_quiet` as of `run`."""
    executor = _choose_executor(scheduler)
    as_json = form != "text"
    folder = RunFolder.open(path)
    if folder.bundle is not None:
        raise BadInput("a bundle is not gone on with", str(path), f"measure it anew: nearmetal run {quote(str(path))}")
    manifest = folder.read_manifest()
    if form == "junit" and not manifest.gates:
        raise BadInput("junit has a test case for each comparison of a gate, and this run has none", str(path))
    console = _console_of_course(as_json, is_quiet)
    before = journal.read_lines(folder.journal)  # a damaged one is refused before anything is made
    state = runs.find_state(folder.journal)
    if state == "running":
        raise make_taken_error(folder.journal)
    if state == "ended":
        console.print("nothing is left to do: this run has come to its end")
        return _conclude_run(folder, True, "", form)
    began = time.monotonic()
    is_measured = study_execution.lacks_only_its_end(folder, manifest, Progress.from_lines(before))
    if not is_measured:
        study_execution.refuse_changed_plan(folder, manifest)
    try:
        with make_progress_display(manifest.study, manifest.plan, console, before, is_measured) as watching:
            finished = until_interrupted(
                study_execution.resume_run(folder, console.print, (watching,), executor), console.print
            )
    except LeftAtOnce:
        _tell_interrupted(folder)
        raise
    took = f"; going on took {show_elapsed(time.monotonic() - began)}"
    return _conclude_run(folder, finished, took, form)


def make_progress_display(
    study: Study, plan: Plan, console: Console, before: Sequence[journal.Line] = (), is_measured: bool = False
) -> "RunProgressDisplay":
    """`is_measured`: nothing is left to measure, and nothing has to know any more how."""
    from nearmetal.console.run_progress_display import RunProgressDisplay

    records = [one for one in before if isinstance(one, TrialRecord)]
    took = seconds_each(records)
    if not took and not is_measured:
        pace = noise_evidence.find_pace(study, plan)
        took = [pace.seconds if pace else estimate_plan(plan) / max(1, plan.trials)]
    each = statistics.fmean(took or [0.0])
    estimates = RunningEstimates(plan)
    for record in records:
        estimates.take_record(record)
    return RunProgressDisplay(
        console, plan.trials, plan.blocks, each, len(plan.looks), RunProgress.from_lines(before), estimates
    )


def _conclude_run(folder: RunFolder, finished: bool, took: str, form: str) -> int:
    """Write the report, show the verdicts, say what came of how many trials and of gates, and how to go on."""
    if not finished:
        if folder.has_manifest:
            # Whoever does not wait for all that can ask for it again.
            with suppress(KeyboardInterrupt):
                _tell_result(folder, took, form)
        return _tell_interrupted(folder)
    try:
        trials, is_met = _tell_result(folder, took, form)
    except KeyboardInterrupt:
        again = f"nearmetal report {quote(str(folder.path))}"
        print_beside(f"interrupted; all trials are recorded; write the report by: {again}")
        return ExitCode.INTERRUPTED
    if not is_met:
        return ExitCode.GATE_NOT_MET
    return ExitCode.SOME_TRIALS_BAD if trials.invalid + trials.failed + trials.lost else ExitCode.DONE


def _tell_interrupted(folder: RunFolder) -> int:
    if folder.has_manifest:
        print_beside(f"interrupted; {say_how_to_go_on(folder)}")
    else:
        click.echo("interrupted before anything was measured; there is nothing to go on with: run it again", err=True)
    return ExitCode.INTERRUPTED


def _tell_result(folder: RunFolder, took: str, form: str) -> tuple[TrialCounts, bool]:
    """Verdicts and counts as they are shown, and the report written; how many trials ended how, and whether gates are
    met."""
    from nearmetal.commands.gates import describe_run, judge_run, print_outcomes
    from nearmetal.report.report_input import read_run_input as read_run
    from nearmetal.report.terminal import counts_line

    results = read_run(folder)
    analysis = results.analysis
    judged = judge_run(results)
    console = console_for(form != "text")
    if form == "json":
        from nearmetal.analysis.summary import summary

        state = runs.find_state(folder.journal)
        print_outcomes(judged, unfold_console(console))
        print_json(summary(analysis, str(folder.path), results.manifest.study.name, state, judged.outcomes))
    elif form != "text":
        from nearmetal.commands.compare_output import print_page

        print_outcomes(judged, unfold_console(console))
        print_page(describe_run(judged, results), form)
    else:
        print_verdicts(results)
        console.print(counts_line(analysis.trials).append(took))
    # Last: a disk that is full takes the report, not the verdicts.
    page = write_report(folder)
    if form == "text":
        console.print(f"report: {page}", soft_wrap=True)
        print_outcomes(judged, unfold_console(console))
    return analysis.trials, judged.is_met
