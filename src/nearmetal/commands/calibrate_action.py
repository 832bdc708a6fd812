"""The run of `nearmetal calibrate`, and what it is told as."""

import os
from collections.abc import Sequence
from pathlib import Path
from shlex import quote

import click
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from nearmetal import plugins
from nearmetal.analysis.calibrate import calibrate as calibrated
from nearmetal.analysis.interference import INTERFERENCE
from nearmetal.commands.run_action import make_progress_display
from nearmetal.config import Paths
from nearmetal.console.printing import print_beside
from nearmetal.console.tables import TextColumn, fit_table
from nearmetal.errors import BadInput, ExitCode, LeftAtOnce
from nearmetal.planning import plan as planning
from nearmetal.planning.opened_study import read_study
from nearmetal.planning.power_description import format_share
from nearmetal.report import figures, words
from nearmetal.report.report_input import read_run_input
from nearmetal.report.sections import calibration
from nearmetal.report.terminal import counts_line
from nearmetal.run import study_execution
from nearmetal.spelling import did_you_mean
from nearmetal.store import kept_calibrations, runs
from nearmetal.store.calibration_document import AAComparison, Calibration, InjectedDifference, Noise
from nearmetal.store.manifest import Manifest
from nearmetal.store.run_folder import RunFolder
from nearmetal.system.interrupts import until_interrupted

STUDY = "calibration"

_SHOWN = ("events", "throughput", "latency_p50", "latency_p99", "cpu_per_event", "ready")
"""Responses whose noise is told in words; `--json` has all."""


def run_calibration(
    console: Console,
    environment: str | None,
    output: Path | None,
    blocks: int | None,
    overrides: Sequence[str],
    quick: bool,
) -> tuple[RunFolder, bool]:
    """Run the built-in study as any other; its folder, and whether it came to its end."""
    kind = environment or "host"
    kinds = plugins.list_names("environments")
    if kind not in kinds:
        raise BadInput(f"there is no environment {kind[:200]!r}", remedy=did_you_mean(kind, kinds, "choose one of"))
    both = [f"environments.{name}.kind={kind}" for name in ("first", "again")]
    opened = read_study(STUDY, [*both, *overrides], blocks, quick=quick)
    if opened.study.environment("first") != opened.study.environment("again"):
        what = "`first` and `again` are to be the same, and are not"
        raise BadInput(what, STUDY, "set the same of both: environments.first.KEY and environments.again.KEY")
    path = output or study_execution.default_folder(opened.study)
    request = study_execution.RunRequest(opened.study, opened.source, opened.overrides, opened.quick, path, False)
    try:
        with make_progress_display(opened.study, planning.make_plan(opened.study), console) as watcher:
            finished = until_interrupted(study_execution.start_run(request, console.print, (watcher,)), console.print)
    except LeftAtOnce:
        end_interrupted(RunFolder(path))
        raise
    return RunFolder(path), finished


def end_interrupted(folder: RunFolder) -> int:
    if folder.has_manifest:
        path = quote(str(folder.path))
        told = f"interrupted; go on with: nearmetal resume {path}, then nearmetal calibrate --from {path}"
        print_beside(told)
    else:
        click.echo("interrupted before anything was measured: run it again", err=True)
    return ExitCode.INTERRUPTED


def read_found(folder: RunFolder) -> Calibration:
    """What the run says, by its folder alone."""
    told = read_run_input(folder)
    found = calibrated(told.manifest, told.records, told.analysis, str(folder.path))
    if found is None:
        name = words.strip_controls(told.manifest.study.name)
        what = f"nothing is known beforehand of what this run compares: it is of the study {name}, no calibration"
        raise BadInput(
            what, str(folder.path), "make one by `nearmetal calibrate`; what this one found: `nearmetal show`"
        )
    return found


def keep_found(found: Calibration, folder: RunFolder) -> Path | None:
    """Its file, for `nearmetal plan`; None for one that is not worth it, or not known to be of this host."""
    state = Paths.default().state
    is_ours = folder.path.resolve() in runs.list_remembered(state) and found.kernel == os.uname().release
    is_whole = not found.quick and "unfinished" not in {warning.code for warning in found.warnings}
    is_fit = _is_as_built_in(folder.read_manifest()) and bool(found.noise) and _is_right(found)
    return kept_calibrations.keep_calibration(found, state) if is_ours and is_whole and is_fit else None


def _is_right(found: Calibration) -> bool:
    """In all that is known of it, if only because it sees little: how noisy a machine is, is known all the same."""
    return all(one.is_right for one in found.compared)


def _is_as_built_in(manifest: Manifest) -> bool:
    """But for the environment, the number of blocks and the seed: of other machines and loads the noise is another."""
    plain = ("environments.", "design.blocks=", "design.seed=")
    return manifest.study.name == STUDY and all(given.startswith(plain) for given in manifest.overrides)


def print_calibration(found: Calibration, console: Console) -> None:
    for warning in found.warnings:
        if warning.code in words.FIRST:
            console.print(Text(f"! {words.strip_controls(warning.text)}", style="bold yellow", overflow="fold"))
    console.print(_write_headline(found))
    if but := _describe_limits(found):
        console.print(Text(but, style="yellow"))
    trials = counts_line(found.trials)
    console.print(Text(f"{found.environment}, {found.made}: ", style="dim").append_text(trials))
    _print_section(
        "Alike with alike", [*(_format_aa_comparison(one) for one in found.alike), *_too_small(found)], console
    )
    _print_section("Differences of known size", [_format_injected(one) for one in found.injected], console)
    _print_noise(found, console)
    _print_section("Surroundings", _describe_surroundings(found), console)


def _write_headline(found: Calibration) -> Text:
    if found.verdict == "sound":
        return Text("Yes: as far as this run can show, answers on this machine can be trusted.", style="bold green")
    if found.verdict == "unknown":
        return Text(f"Not known: {_why_unknown(found)}", style="bold yellow")
    wrong = sum(bool(one.is_different) for one in found.alike)
    missed = sum(one.is_covered is False for one in found.injected)
    parts = []
    if wrong:
        parts.append(
            f"{wrong} of {figures.format_count(len(found.alike), 'comparison')} of alike with alike called different"
        )
    if missed:
        parts.append(
            f"{missed} of {figures.format_count(len(found.injected), 'known difference')} missed by its interval"
        )
    return Text(
        f"No: {' and '.join(parts)}. Of sound machines one in twenty has such a run: make another, "
        "and if that says the same, do not trust verdicts here.",
        style="bold red",
    )


def _why_unknown(found: Calibration) -> str:
    if {one.reason for one in found.untold} == {"too-few-blocks"}:
        return f"too few blocks to tell; {planning.enough_blocks(1, found.level)} are the fewest."
    if found.untold:
        return calibration.describe_untold(found)
    return (
        "no fault was seen, and this run would not have seen one. None of the differences of known size was told "
        f"from none: {_list_unseen(found)}."
    )


def _describe_limits(found: Calibration) -> str:
    """What keeps it from seeing more."""
    parts = []
    if found.unseen and (found.verdict != "unknown" or found.untold):  # else it has been said
        parts.append(f"But small differences are not seen. Not told from none: {_list_unseen(found)}.")
    if INTERFERENCE & {warning.code for warning in found.warnings}:
        parts.append("CPU time went elsewhere meanwhile: on a quiet host smaller differences are seen.")
    return " ".join(parts)


def _list_unseen(found: Calibration) -> str:
    """ "1.05 ×, in arithmetic; and +1,000 µs, in waits": the injected differences that were not told from none."""
    return figures.join_listing(f"{_show_truth(one)}, in {words.name_workload(one.workload)}" for one in found.unseen)


def _too_small(found: Calibration) -> list[Text]:
    if all(one.interval is None for one in found.alike):
        return []
    return [Text("a fault that is smaller than these intervals are wide would not have been seen", style="dim")]


def _print_section(heading: str, lines: Sequence[Text], console: Console) -> None:
    if lines:
        console.print(Text(heading, style="bold"))
    for line in lines:
        console.print(Padding(line, (0, 0, 0, 2), expand=False))


def _mark_untold(one: AAComparison | InjectedDifference) -> tuple[str, str, str]:
    return "?", words.explain_reason(one.reason or ""), "bold yellow"


def _format_aa_comparison(one: AAComparison) -> Text:
    sign, what, style = {
        None: _mark_untold(one),
        False: ("=", "not called different", "bold green"),
        True: ("!", "called different", "bold red"),
    }[one.is_different]
    return Text.assemble((f"{sign} {what}", style), f"  {_name_comparison(one)} {_show_estimate(one)}")


def _format_injected(one: InjectedDifference) -> Text:
    sign, what, style = {
        None: _mark_untold(one),
        True: ("=", "truth in the interval", "bold green"),
        False: ("!", "truth outside the interval", "bold red"),
    }[one.is_covered]
    found = {None: "", True: "; found", False: "; too small to be told from none"}[one.is_found]
    return Text.assemble(
        (f"{sign} {what}", style),
        f"  {_name_comparison(one)} {_show_estimate(one)}; the truth is {_show_truth(one)}{found}",
    )


def _name_comparison(one: AAComparison | InjectedDifference) -> str:
    """ "replies, again vs first: typical latency"."""
    sides = words.name_difference(one.treatment, one.reference), words.name_difference(one.reference, one.treatment)
    return f"{words.name_workload(one.workload)}, {' vs '.join(sides)}: {words.name_response(one.response)}"


def _show_estimate(one: AAComparison | InjectedDifference) -> str:
    return words.format_size(one.estimate, one.interval, one.scale, one.unit)


def _show_truth(one: InjectedDifference) -> str:
    return words.known_truth(one.truth, one.scale, one.unit)


def _print_noise(found: Calibration, console: Console) -> None:
    shown = [one for one in found.noise if _is_shown(one)]
    if not shown:
        return
    blocks = [one.blocks for one in shown[0].finds]
    console.print(Text("The smallest difference told from none in 80 % of studies, by their blocks", style="bold"))
    columns = (
        TextColumn("blocks"),
        *(TextColumn(str(number), is_of_numbers=True) for number in blocks),
        TextColumn("known to", is_of_numbers=True),
        TextColumn("spread", is_of_numbers=True),
    )
    rows = [_make_row(one) for one in sorted(shown, key=_order_noise)]
    console.print(Padding(fit_table(columns, rows, console.width - 2), (0, 0, 0, 2)))
    for note in (
        "spread: how much boots vary that are alike; known to: by what factor a line may be off, at 95 %",
        "for one comparison at 5 %, trials as long as here; `nearmetal plan` reckons with those of a study",
    ):
        console.print(Padding(Text(note, style="dim"), (0, 0, 0, 2), expand=False))


def _order_noise(noise: Noise) -> tuple[bool, str, int]:
    """Workload by workload, what belongs to boots last."""
    return not noise.workload, noise.workload, _SHOWN.index(noise.response)


def _is_shown(noise: Noise) -> bool:
    """Not those of replies that wait: nobody's service does."""
    is_told = noise.response in _SHOWN and noise.scale == "ratio" and bool(noise.finds)
    return is_told and "delayed" not in noise.variant


def _make_row(noise: Noise) -> tuple[str, ...]:
    name = f"{words.name_workload(noise.workload)}, {words.name_response(noise.response)}"
    doubt = f"× or ÷ {noise.doubt:.2g}" if noise.doubt else "not known"
    return name, *(format_share(one.smallest) for one in noise.finds), doubt, format_share(noise.spread)


def _describe_surroundings(found: Calibration) -> list[Text]:
    said = {*words.FIRST, *(one.reason for one in found.untold)}
    later = [warning for warning in found.warnings if warning.code not in said]
    lines = [Text(f"! {words.strip_controls(warning.text)}", style="yellow") for warning in later]
    for one in found.disturbances:
        what = {"stolen": "denied by the host's own host (steal)", "others": "used by other programs"}[one.what]
        median, most = (figures.format_percent(one_share) for one_share in (one.median, one.most))
        lines.append(Text(f"CPU time {what}: {median} in the median trial, at most {most}", style="dim"))
    return lines


def describe_keeping(found: Calibration, path: Path | None) -> str:
    if path is not None:
        return "kept: `nearmetal plan` says by it what a study can see here"
    if found.quick:
        return "not kept for `nearmetal plan`: trials this short are noisier than those of a study"
    if not _is_right(found):
        return "not kept for `nearmetal plan`, which goes by sound ones"
    return "not kept for `nearmetal plan`, which goes by the last whole run of this host with the study as it is"
