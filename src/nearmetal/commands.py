"""What each command does, once its arguments are known."""

import asyncio
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from nearmetal import hosts, sight, studies
from nearmetal import plan as planning
from nearmetal.config import Paths
from nearmetal.errors import BadInput, ExitCode, HostCannot
from nearmetal.factors import key
from nearmetal.interrupts import until_interrupted
from nearmetal.model import Finding, Plan, Study
from nearmetal.printing import console_for, print_json
from nearmetal.report import figures
from nearmetal.run import session
from nearmetal.run.estimate import estimate
from nearmetal.run.missing import Missing
from nearmetal.store import runs
from nearmetal.store.folder import RunFolder
from nearmetal.study import read
from nearmetal.study_text import did_you_mean
from nearmetal.tables import Column, fitted
from nearmetal.units import show_elapsed

if TYPE_CHECKING:
    from nearmetal.analysis.sight import Sight
    from nearmetal.report.reading import ReportInput
    from nearmetal.report.write import Format


_WIDEST = 10_000
"""Columns: more than a line ever has."""
_NAMED = 4
"""Treatments that are named before the rest is counted."""


# ── Studies ───────────────────────────────────────────────────────────────────────────────────────────────────────


class Opened:
    """A study as read, with the text it came from and what the command line set over it."""

    def __init__(self, study: Study, source: str, overrides: Sequence[str], quick: bool) -> None:
        self.study = study
        self.source = source
        self.overrides = tuple(overrides)
        self.quick = quick


def read_study(
    study: str,
    overrides: Sequence[str] = (),
    blocks: int | None = None,
    seed: int | None = None,
    quick: bool = False,
    available: bool = False,
) -> Opened:
    """A study by its path or built-in name, with what the command line sets."""
    path = Path(study)
    if _is_file(path):
        try:
            source = path.read_text("utf-8")
        except UnicodeDecodeError:
            raise BadInput("this is not a text file", study, "give a study file in TOML") from None
    elif study in studies.names():
        source = studies.text(study)
    elif _is_folder(path):
        raise BadInput("this is a folder, not a study", study, "name the study's file")
    else:
        remedy = did_you_mean(study, studies.names(), "give a file, or one of")
        what = "there is no such file, and" if path.suffix == ".toml" or path.name != study else "there is"
        raise BadInput(f"{what} no study {study[:200]!r}", remedy=remedy)
    wanted = list(overrides)
    if blocks is not None:
        wanted.append(f"design.blocks={blocks}")
    if seed is not None:
        wanted.append(f"design.seed={seed}")
    return Opened(read(source, study, wanted, quick), source, wanted, quick)


def _is_file(path: Path) -> bool:
    """A name that no file can have is the name of none."""
    try:
        return path.is_file()
    except OSError:
        return False


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False


def list_studies(as_json: bool) -> None:
    found = [{"name": name, "question": read(studies.text(name), name).question} for name in studies.names()]
    if as_json:
        print_json({"schema": "studies.v1", "studies": found})
        return
    console = console_for(False)
    rows = [(one["name"], one["question"]) for one in found]
    console.print(fitted((Column("study"), Column("question", flows=True)), rows, console.width))


def show_plan(opened: Opened, available: bool, as_json: bool) -> int:
    """HOST_CANNOT where `run` with the same words would refuse."""
    study = opened.study
    missing = asyncio.run(session.what_is_missing(study))
    plan = planning.make(study, [treatment for treatment, _ in missing] if available else ())
    needed = planning.enough_blocks(len(plan.contrasts), study.design.alpha, bool(plan.looks))
    refused = bool(missing) and not (available and plan.treatments)
    seen = sight.by_calibrations(study, plan)
    if as_json:
        _print_plan_as_json(study, plan, needed, seen, missing)
    else:
        console = console_for(False)
        _print_plan(study, plan, needed, seen, console)
        _say_missing(missing, "left out" if available else "cannot run here", console)
        if refused and not available:
            console.print("`run` refuses this; with --available it leaves out what cannot run here")
        elif refused:
            console.print("nothing is left that can run here")
    return ExitCode.HOST_CANNOT if refused else ExitCode.DONE


def _print_plan_as_json(study: Study, plan: Plan, needed: int, seen: Sequence["Sight"], missing: Missing) -> None:
    lacking = [
        {"treatment": treatment, **finding.model_dump(include={"what", "detail", "remedy"})}
        for treatment, finding in missing
    ]
    print_json(
        {
            "schema": "plan.v1",
            "plan": plan.model_dump(mode="json"),
            "seconds": round(estimate(study, plan)),
            "blocks_needed": needed,
            "one_machine": hosts.one_under_two_names(study),
            "sees": [one.model_dump(mode="json") for one in seen],
            "missing": lacking,
        }
    )


def _print_plan(study: Study, plan: Plan, needed: int, seen: Sequence["Sight"], console: Console) -> None:
    console.print(Text.assemble((study.name, "bold"), f"  {study.question}"))
    console.print(
        f"{figures.count(len(plan.treatments), 'treatment')} x {figures.count(len(study.workloads), 'workload')} x "
        + ("at most " if plan.looks else "")
        + figures.count(len(plan.blocks), "block")
        + (f" x {study.design.repeats} repeats" if study.design.repeats > 1 else "")
        + f" = {figures.count(plan.trials, 'trial')}; seed {plan.seed}"
    )
    for one, other in hosts.one_under_two_names(study):
        console.print(f"{one!r} and {other!r} are one machine: it is compared with itself (an A/A)", style="yellow")
    for contrast in plan.contrasts:
        compared = f"{contrast.workload}: {key(contrast.treatment)} against {key(contrast.reference)}"
        console.print(Padding(compared, (0, 0, 0, 2), expand=False))
    if plan.contrasts:
        console.print(f"{figures.count(len(plan.contrasts), 'primary contrast')}, {_when_decided(plan, needed)}")
    else:
        console.print("nothing is compared: there is no treatment beside its reference")
    for seeing in seen:
        console.print(Padding(sight.sentence(seeing), (0, 0, 0, 2), expand=False))
    console.print(f"the whole takes {_about(estimate(study, plan), plan)}")


def _when_decided(plan: Plan, needed: int) -> str:
    """At what level, and after how many blocks."""
    at = f"each at level {plan.level:.4g}; "
    enough = len(plan.blocks) >= needed
    if not enough or not plan.looks:
        few = "" if enough else f", and with {len(plan.blocks)} every verdict is undecided"
        return f"{at}that takes at least {figures.count(needed, 'block')}{few}"
    after = figures.listing(str(look.blocks) for look in plan.looks)
    return f"{at}looked at after {after} blocks, until all are decided"


def _about(seconds: float, plan: Plan) -> str:
    longest = show_elapsed(seconds)
    if len(plan.looks) < 2:
        return f"about {longest}"
    return f"about {show_elapsed(seconds * plan.looks[0].blocks / len(plan.blocks))} to {longest}"


def _say_missing(missing: Missing, heading: str, console: Console) -> None:
    """Each thing that is missing once, with the treatments that lack it, and what mends it."""
    lacking: dict[Finding, list[str]] = {}
    for treatment, finding in missing:
        lacking.setdefault(finding, []).append(key(treatment))
    for finding, treatments in lacking.items():
        detail = f": {finding.detail}" if finding.detail else ""
        console.print(Text.assemble((heading, "yellow"), f": {finding.what}{detail}"))
        for name in treatments[:_NAMED]:
            console.print(Padding(name, (0, 0, 0, 4), expand=False))
        if len(treatments) > _NAMED:
            console.print(f"    and {len(treatments) - _NAMED} more")
        if finding.remedy:
            console.print(Padding(f"remedy: {finding.remedy}", (0, 0, 0, 2), expand=False))


# ── Running ───────────────────────────────────────────────────────────────────────────────────────────────────────


def run(opened: Opened, output: Path | None, available: bool, as_json: bool) -> int:
    study = opened.study
    folder = output or session.default_folder(study)
    request = session.Request(study, opened.source, opened.overrides, opened.quick, folder, available)
    console = console_for(as_json)
    missing = asyncio.run(session.what_is_missing(study)) if available else []
    _say_missing(missing, "left out", console)
    plan = planning.make(study, [treatment for treatment, _ in missing])
    began = time.monotonic()
    with watcher(study, plan, console) as watching:
        finished = until_interrupted(session.start(request, console.print, (watching,)))
    took = f" in {show_elapsed(time.monotonic() - began)}"
    return _conclude(RunFolder(request.folder), finished, took, as_json)


def resume(path: Path, as_json: bool) -> int:
    folder = RunFolder.open(path)
    manifest = folder.manifest()
    console = console_for(as_json)
    if not any(warning.code == "unfinished" for warning in _analysis(folder).warnings):
        console.print("nothing is left to do: this run has come to its end")
        return _conclude(folder, True, "", as_json)
    began = time.monotonic()
    with watcher(manifest.study, manifest.plan, console) as watching:
        finished = until_interrupted(session.resume(folder, console.print, (watching,)))
    took = f"; going on took {show_elapsed(time.monotonic() - began)}"
    return _conclude(folder, finished, took, as_json)


def watcher(study: Study, plan: Plan, console: Console) -> Any:
    from nearmetal.terminal import Watcher

    each = estimate(study, plan) / max(1, plan.trials)
    return Watcher(console, plan.trials, len(plan.blocks), each, len(plan.looks))


def _conclude(folder: RunFolder, finished: bool, took: str, as_json: bool) -> int:
    """Write the report, show the verdicts, say what came of how many trials, and how to go on."""
    from nearmetal.report.reading import read as read_run
    from nearmetal.report.terminal import counts_line
    from nearmetal.report.write import write

    if not (folder.path / "manifest.json").exists():
        click.echo("interrupted before anything was measured; there is nothing to go on with: run it again", err=True)
        return ExitCode.INTERRUPTED
    told = read_run(folder)
    analysis = told.analysis
    console = console_for(as_json)
    if as_json:
        from nearmetal.analysis.summary import summary

        print_json(summary(analysis, str(folder.path), told.manifest.study.name))
    else:
        _print_verdicts(told)
        console.print(counts_line(analysis.trials).append(took))
    # Last: a disk that is full takes the report, not the verdicts.
    page = write(folder)
    if not as_json:
        console.print(f"report: {page}", soft_wrap=True)
    if not finished:
        command = os.environ.get("NEARMETAL_RESUME_HINT", "nearmetal resume ")
        click.echo(f"interrupted; go on with: {command}{folder.path}", err=True)
        return ExitCode.INTERRUPTED
    bad = analysis.trials.invalid + analysis.trials.failed + analysis.trials.lost
    return ExitCode.SOME_TRIALS_BAD if bad else ExitCode.DONE


def _analysis(folder: RunFolder) -> Any:
    from nearmetal.analysis.analyse import analyse
    from nearmetal.store import journal

    manifest = folder.manifest()
    return analyse(manifest, journal.records(folder.journal), journal.events(folder.journal), manifest.plan.primaries)


def _print_verdicts(report: "ReportInput") -> None:
    from nearmetal.report.terminal import verdict_table, why_lines

    console = console_for(False)
    console.print(verdict_table(report.analysis, console.width))
    if lines := why_lines(report):
        console.print(lines)


# ── Runs ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def report(path: Path, form: "Format", output: Path | None) -> None:
    from nearmetal.report.write import render, write

    folder = RunFolder.open(path)
    if form == "html" and output is None:
        try:
            click.echo(write(folder))
        except PermissionError:
            raise HostCannot("this user may not write there", str(path), "name a file of yours by -o") from None
        return
    content = render(folder, form)
    data = content.encode() if isinstance(content, str) else content
    if output is not None:
        try:
            output.write_bytes(data)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
            what = f"nothing can be written there: {error.strerror}"
            raise BadInput(what, str(output), "name another file by -o") from None
        except OSError as error:
            error.filename = error.filename or str(output)
            raise
    elif form == "png" and sys.stdout.isatty():
        raise BadInput("a picture is no text for a terminal", remedy="name a file by -o, or send it to one by >")
    else:
        sys.stdout.buffer.write(data)


def show(path: Path, as_json: bool) -> None:
    from nearmetal.report.reading import read as read_run
    from nearmetal.report.terminal import counts_line

    folder = RunFolder.open(path)
    told = read_run(folder)
    if as_json:
        from nearmetal.analysis.summary import summary

        print_json(summary(told.analysis, str(folder.path), told.manifest.study.name))
        return
    console = console_for(False)
    console.print(f"{told.manifest.study.name} of {told.manifest.created}: ", end="")
    console.print(counts_line(told.analysis.trials))
    _print_verdicts(told)


def list_runs(folder: Path | None, as_json: bool) -> None:
    """Those in a folder; without one, those where runs are put by themselves and those that the index knows.

    And the machines that are up.
    """
    from nearmetal import commands_by_hand
    from nearmetal.by_hand.documents import Ls

    paths = Paths.default()
    places = runs.inside(folder) if folder else runs.known(paths.runs, paths.state)
    listed, unreadable = runs.listing(places)
    machines = commands_by_hand.machines()
    if as_json:
        found = Ls(runs=tuple(listed), unreadable=tuple(unreadable), machines=tuple(machines))
        print_json(found.model_dump(mode="json"))
        return
    if machines:
        commands_by_hand.print_machines(machines)
    if not places:
        click.echo(f"no runs in {folder or paths.runs}; `nearmetal run quickstart` makes one")
        return
    console = console_for(False)
    if listed:
        table = Table("run", "study", "made", "state", "trials", box=None, pad_edge=False)
        for one in listed:
            table.add_row(one.run, one.study, one.created[:16].replace("T", " "), one.state, _trials(one))
        # As wide as it is, in a terminal and in a pipe: a folder's name is to be copied whole, and a line is a run.
        console.width = _WIDEST
        console.print(table)
    for bad in unreadable:
        console.print("cannot be read", style="yellow", end=": ")
        console.print(f"{bad.run}: {bad.reason}", soft_wrap=True)


def _trials(one: runs.Listed) -> str:
    """ "24", "4 and 2 again, 1 not ok"; of a run that has not come to its end, "17/24"."""
    again = one.trials - one.planned
    if again > 0:
        told = f"{one.planned} and {again} again"
    else:
        told = str(one.trials) if one.state == "ended" else f"{one.trials}/{one.planned}"
    return told + (f", {one.trials - one.ok} not ok" if one.ok < one.trials else "")


# ── This host ─────────────────────────────────────────────────────────────────────────────────────────────────────


def doctor(as_json: bool) -> int:
    from nearmetal.lab.doctor import examine

    console = console_for(as_json)
    with console.status("trying what this host can do"):
        findings = asyncio.run(examine())
    able = all(finding.ok or not finding.fatal for finding in findings)
    if as_json:
        print_json({"schema": "doctor.v1", "able": able, "findings": [f.model_dump() for f in findings]})
    else:
        for finding in findings:
            mark, style = ("ok", "green") if finding.ok else (("no", "red") if finding.fatal else ("--", "yellow"))
            told = f"{finding.what}: {finding.detail}" if finding.detail else finding.what
            remedy = f"\nremedy: {finding.remedy}" if finding.remedy and not finding.ok else ""
            line = Table.grid(padding=(0, 2, 0, 0))
            line.add_row(Text(mark, style=style), Text(told + remedy, overflow="fold"))
            console.print(line)
    return ExitCode.DONE if able else ExitCode.HOST_CANNOT


def clean(as_json: bool) -> int:
    from nearmetal.lab import clean as cleaning

    cleaned = asyncio.run(cleaning.clean_everything())
    if as_json:
        print_json(cleaned.model_dump(mode="json"))
    else:
        for verb, things in (
            ("removed", cleaned.removed),
            ("restored", cleaned.restored),
            ("still there", cleaned.left),
        ):
            for thing in things:
                click.echo(f"{verb}: {thing}")
        if cleaned.in_use:
            click.echo(f"left alone: what {cleaned.in_use} running nearmetal made")
        elif not cleaned.ledgers:
            whose = "ours" if os.geteuid() == 0 else "this user's"
            click.echo(f"nothing of {whose} is left")
    return ExitCode.HOST_CANNOT if cleaned.left else ExitCode.DONE
