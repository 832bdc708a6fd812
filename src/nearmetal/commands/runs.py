"""`report`, `show` and `ls`: runs that are kept."""

import errno
import os
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import click
from rich.padding import Padding
from rich.text import Text

from nearmetal.commands.output import check_output, write_output
from nearmetal.config import Paths
from nearmetal.console.printing import console_for, print_json, print_table, print_warning, unfold_console
from nearmetal.console.tables import TextColumn, fit_table
from nearmetal.errors import HostCannot
from nearmetal.plain import strip_controls
from nearmetal.store import journal, runs
from nearmetal.store.folder import RunFolder
from nearmetal.system import system_errors

if TYPE_CHECKING:
    from nearmetal.report.reading import ReportInput
    from nearmetal.report.write import Format

_WIDEST = 10_000
"""Columns: more than a line ever has."""


def report(path: Path, form: "Format", output: Path | None) -> None:
    from nearmetal.report.write import render

    folder = RunFolder.open(path)
    check_output(output, folder)
    if form == "html" and output is None and folder.bundle is None:
        click.echo(write_report(folder))
        return
    page = None
    if form == "html" and output is None and folder.bundle is not None:
        page = folder.bundle.with_name(f"{folder.bundle.name.split('.')[0]}.html")
    write_output(render(folder, form, print_warning), output or page)
    if page is not None:
        click.echo(page)


def show(path: Path, as_json: bool) -> None:
    from nearmetal.commands.gates import judge_run, print_outcomes
    from nearmetal.report.reading import read as read_run
    from nearmetal.report.terminal import counts_line

    folder = RunFolder.open(path)
    results = read_run(folder)
    state = runs.find_state(folder.journal)
    judged = judge_run(results)
    if as_json:
        from nearmetal.analysis.summary import summary

        print_json(summary(results.analysis, str(folder.named), results.manifest.study.name, state, judged.outcomes))
        return
    console = unfold_console(console_for(False))
    about = Text(f"{results.manifest.study.name} of {results.manifest.created}, {state}: ")
    console.print(about.append_text(counts_line(results.analysis.trials)))
    print_verdicts(results)
    print_outcomes(judged, console)
    if state == "interrupted":
        console.print(say_how_to_go_on(folder), soft_wrap=True)


def list_runs(folder: Path | None, as_json: bool) -> None:
    """Those in a folder; without one, those where runs are put by themselves and those that the index knows.

    And the machines that are up.
    """
    from nearmetal.by_hand.documents import Ls
    from nearmetal.commands import by_hand as by_hand_commands

    paths = Paths.default()
    places = runs.find_runs(folder) if folder else runs.list_known(paths.runs, paths.state)
    listed, unreadable = runs.list_entries(places)
    machines = by_hand_commands.list_machines()
    if as_json:
        print_json(Ls(runs=tuple(listed), unreadable=tuple(unreadable), machines=tuple(machines)))
        return
    if machines:
        by_hand_commands.print_machines(machines)
    if not places:
        click.echo(strip_controls(f"no runs in {folder or paths.runs}; `nearmetal run quickstart` makes one"))
        return
    console = console_for(False)
    if listed:
        if not console.is_terminal:
            console.width = _WIDEST  # for scripts, a line is a run
        rows = [(one.run, one.study, one.created[:16].replace("T", " "), one.state, _trials(one)) for one in listed]
        columns = [TextColumn(title) for title in ("run", "study", "made (UTC)", "state", "trials")]
        console.print(fit_table(columns, rows, console.width, whole=True), crop=False)
    for bad in unreadable:
        what = Text("cannot be read", style="yellow")
        if console.is_terminal:
            console.print(bad.run, soft_wrap=True)
            console.print(Padding(what.append(f": {bad.reason}", style="default"), (0, 0, 0, 2), expand=False))
        else:
            console.print(what.append(f": {bad.run}: {bad.reason}", style="default"), soft_wrap=True)


def _trials(one: runs.RunEntry) -> str:
    """ "24", "6, none ok", "4 and 2 again, 1 not ok"; of a run that has not come to its end, "17/24"."""
    first = one.trials - one.again
    trials = str(first) if one.state == "ended" else f"{first}/{one.planned}"
    if one.again:
        trials += f" and {one.again} again"
    bad = one.trials - one.ok
    if bad == 0:
        return trials
    return f"{trials}, {bad} not ok" if one.ok else f"{trials}, none ok"


def say_how_to_go_on(folder: RunFolder) -> str:
    command = os.environ.get("NEARMETAL_RESUME_HINT", "nearmetal resume ")
    joined = [one["scheduler"] for one in journal.read_events(folder.journal) if one["event"] == "SitesJoined"]
    where = f" --scheduler {quote(joined[-1])}" if joined else ""
    return f"go on with: {command}{quote(str(folder.path))}{where}"


def write_report(folder: RunFolder) -> Path:
    """The report's page, in the run's folder. HostCannot where nothing may be written there."""
    from nearmetal.report.write import write

    try:
        return write(folder, print_warning)
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM, *system_errors.FULL):
            raise
        what = f"the report cannot be written there: {os.strerror(error.errno)}"
        again = f"nearmetal report {quote(str(folder.path))}"
        remedy = f"free some space, then: {again}" if error.errno in system_errors.FULL else f"{again} -o FILE"
        raise HostCannot(what, str(folder.path), remedy) from None


def print_verdicts(report: "ReportInput") -> None:
    from nearmetal.report.terminal import verdict_table, why_lines

    console = unfold_console(console_for(False))
    print_table(verdict_table(report.analysis, console.width, report.labels.kinds), console)
    if lines := why_lines(report):
        print_table(lines, console)
