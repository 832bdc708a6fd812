"""Runs that are kept: listed, shown, reported, checked."""

import errno
import os
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from nearmetal.commands.completion import complete_run
from nearmetal.commands.options import FileToWrite, RunPath, json_option
from nearmetal.commands.output import check_output, write_output
from nearmetal.control_characters import strip_controls
from nearmetal.errors import BadInput, ExitCode, HostCannot

if TYPE_CHECKING:
    from nearmetal.report.chart_files import ChartFormat
    from nearmetal.report.report_input import ReportInput
    from nearmetal.report.write import Format
    from nearmetal.store.run_folder import RunFolder
    from nearmetal.store.runs import RunEntry
    from nearmetal.store.verify import Verification

_WIDEST = 10_000
"""Columns: more than a line ever has."""
_NAMED = 20
"""Of files that no record names, so many are shown; `--json` has them all."""


@click.command()
@click.argument("run", type=RunPath(), shell_complete=complete_run)
@click.option(
    "--format",
    "form",
    type=click.Choice(["html", "md", "json", "csv", "svg", "png", "vega"]),
    default="html",
    show_default=True,
    help="html writes the report; svg, png and vega write each chart into report/charts. These print where it is; "
    "others are printed. Of json the schema is analysis.v1.",
)
@click.option("-o", "--output", type=FileToWrite(), help="Write this file alone; of charts, the verdicts.")
@json_option("report.v1")
def report(run: Path, form: Any, output: Path | None, as_json: bool) -> None:
    """Write the report of a run, or its charts.

    From its folder alone.
    """
    from nearmetal.store.run_folder import RunFolder

    folder = RunFolder.open(run)
    check_output(output, folder)
    _refuse_two_documents(form, output, as_json)
    if (form == "svg" or form == "png" or form == "vega") and output is None:
        written = _save_charts(folder, form)
        is_there = written[0].parent
    elif form == "html" and output is None and folder.bundle is None:
        written = [write_report(folder)]
        is_there = written[0]
    else:
        page = _place_beside(folder.bundle, ".html") if form == "html" and folder.bundle is not None else None
        to = output or page
        write_output(_render(folder, form), to)
        if to is None or not (as_json or to == page):
            return
        written, is_there = [to], to
    if as_json:
        from nearmetal.console.printing import print_json
        from nearmetal.report.documents import ReportFiles

        print_json(ReportFiles(run=str(folder.named), format=form, files=tuple(map(str, written))))
    else:
        click.echo(is_there)


def _refuse_two_documents(form: str, output: Path | None, as_json: bool) -> None:
    """BadInput if standard output would have a part of the report and the document that says where it is."""
    if as_json and (output == Path("-") or (output is None and form in ("md", "json", "csv"))):
        what = f"--json prints which files were written, and {form} would be printed, not written"
        raise BadInput(what, "report", "name a file by -o, or leave out --json")


def _render(folder: "RunFolder", form: "Format | ChartFormat") -> str | bytes:
    from nearmetal.console.printing import print_warning
    from nearmetal.report.chart_files import render_verdicts
    from nearmetal.report.write import render

    if form == "svg" or form == "png" or form == "vega":
        return render_verdicts(folder, form, print_warning)
    return render(folder, form, print_warning)


def _save_charts(folder: "RunFolder", form: "ChartFormat") -> list[Path]:
    from nearmetal.console.printing import print_warning
    from nearmetal.report.chart_files import save_charts

    to = folder.report / "charts" if folder.bundle is None else _place_beside(folder.bundle, "-charts")
    try:
        written = save_charts(folder, to, form, print_warning)
    except OSError as error:
        raise _explain_unwritten(error, folder, f" --format {form}") from None
    if not written:
        raise BadInput("no chart of this run can be drawn", str(folder.named), "read why: nearmetal report --format md")
    return written


def _place_beside(bundle: Path, ending: str) -> Path:
    return bundle.with_name(f"{bundle.name.split('.')[0]}{ending}")


@click.command()
@click.argument("run", type=RunPath(), shell_complete=complete_run)
@json_option("summary.v1")
def show(run: Path, as_json: bool) -> None:
    """Show the verdicts of a run."""
    from nearmetal.commands.gates import judge_run, print_outcomes
    from nearmetal.console.printing import console_for, print_json, unfold_console
    from nearmetal.report.report_input import read_run_input
    from nearmetal.report.terminal import counts_line
    from nearmetal.store import runs
    from nearmetal.store.run_folder import RunFolder

    folder = RunFolder.open(run)
    results = read_run_input(folder)
    state = runs.find_state(folder.journal)
    judged = judge_run(results)
    if as_json:
        from nearmetal.analysis.summary import summary

        print_json(summary(results.analysis, str(folder.named), results.manifest.study.name, state, judged.outcomes))
        return
    from rich.text import Text

    console = unfold_console(console_for(False))
    about = Text(f"{results.manifest.study.name} of {results.manifest.created}, {state}: ")
    console.print(about.append_text(counts_line(results.analysis.trials)))
    print_verdicts(results)
    print_outcomes(judged, console)
    if state == "interrupted":
        console.print(say_how_to_go_on(folder), soft_wrap=True)


@click.command()
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@json_option("ls.v1")
def ls(folder: Path | None, as_json: bool) -> None:
    """List machines that are up, and runs.

    The runs are those known on this host, or those in a FOLDER.
    """
    from rich.padding import Padding
    from rich.text import Text

    from nearmetal.by_hand.documents import Ls
    from nearmetal.commands.by_hand import list_machines, print_machines
    from nearmetal.config import Paths
    from nearmetal.console.printing import console_for, print_json
    from nearmetal.console.tables import TextColumn, fit_table
    from nearmetal.store import runs

    paths = Paths.default()
    places = runs.find_runs(folder) if folder else runs.list_known(paths.runs, paths.state)
    listed, unreadable = runs.list_entries(places)
    machines = list_machines()
    if as_json:
        print_json(Ls(runs=tuple(listed), unreadable=tuple(unreadable), machines=tuple(machines)))
        return
    if machines:
        print_machines(machines)
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


def _trials(one: "RunEntry") -> str:
    """ "24", "6, none ok", "4 and 2 again, 1 not ok"; of a run that has not come to its end, "17/24"."""
    first = one.trials - one.again
    trials = str(first) if one.state == "ended" else f"{first}/{one.planned}"
    if one.again:
        trials += f" and {one.again} again"
    bad = one.trials - one.ok
    if bad == 0:
        return trials
    return f"{trials}, {bad} not ok" if one.ok else f"{trials}, none ok"


def say_how_to_go_on(folder: "RunFolder") -> str:
    from nearmetal.store import journal

    command = os.environ.get("NEARMETAL_RESUME_HINT", "nearmetal resume ")
    joined = [one["scheduler"] for one in journal.read_events(folder.journal) if one["event"] == "SitesJoined"]
    where = f" --scheduler {quote(joined[-1])}" if joined else ""
    return f"go on with: {command}{quote(str(folder.path))}{where}"


def write_report(folder: "RunFolder") -> Path:
    """The report's page, in the run's folder. HostCannot where nothing may be written there."""
    from nearmetal.console.printing import print_warning
    from nearmetal.report.write import write

    try:
        return write(folder, print_warning)
    except OSError as error:
        raise _explain_unwritten(error, folder) from None


def _explain_unwritten(error: OSError, folder: "RunFolder", options: str = "") -> Exception:
    """HostCannot if the place takes no files; any other error as it is."""
    from nearmetal.system import system_errors

    if error.errno is None or error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM, *system_errors.FULL):
        return error
    what = f"the report cannot be written there: {os.strerror(error.errno)}"
    again = f"nearmetal report {quote(str(folder.path))}{options}"
    remedy = f"free some space, then: {again}" if error.errno in system_errors.FULL else f"{again} -o FILE"
    return HostCannot(what, str(folder.path), remedy)


def print_verdicts(report: "ReportInput") -> None:
    from nearmetal.console.printing import console_for, print_table, unfold_console
    from nearmetal.report.terminal import verdict_table, why_lines

    console = unfold_console(console_for(False))
    print_table(verdict_table(report.analysis, console.width, report.labels.kinds), console)
    if lines := why_lines(report):
        print_table(lines, console)


@click.command()
@click.argument("run", type=RunPath(), shell_complete=complete_run)
@json_option("verify.v1")
def verify(run: Path, as_json: bool) -> int:
    """Check that a run is as it was written.

    Its manifest, each line, each trial against the plan, each file of a trial. Exits with 2 if anything is damaged.
    """
    from nearmetal.console.printing import console_for, print_json
    from nearmetal.store.verify import verify as verify_run

    with console_for(True).status("looking at the run") as status:
        found = verify_run(run, lambda what: status.update(f"looking at {what}"))
    if as_json:
        print_json(found)
    else:
        _print_verification(found)
    return ExitCode.DONE if found.is_whole else ExitCode.BAD_INPUT


def _print_verification(found: "Verification") -> None:
    from nearmetal.console.printing import console_for, unfold_console
    from nearmetal.report.figures import format_count

    console = unfold_console(console_for(False))
    for one in found.damaged:
        console.print(f"{strip_controls(one.file)}: {strip_controls(one.what)}", style="red")
    of_trials = found.list_without_record()
    others = sorted({*found.unknown} - {*of_trials})
    for name in others[:_NAMED]:
        console.print(f"{strip_controls(name)}: no record names it", style="yellow")
    if (more := len(others) - _NAMED) > 0:
        console.print(f"and {format_count(more, 'more file')} that no record names", style="yellow")
    if of_trials:
        text = f"{format_count(len(of_trials), 'file')} of trials that have no record, as an interrupted one leaves"
        console.print(text, style="yellow")
    if found.without_checksum:
        lines = format_count(found.without_checksum, "line")
        console.print(f"{lines} of an earlier version without a checksum: whether they were changed cannot be told")
    counts = ", ".join(
        (
            format_count(found.trials, "trial"),
            f"{format_count(found.lines, 'line')} of the journal",
            format_count(found.artifacts, "file"),
        )
    )
    if found.is_whole:
        console.print(f"{'nothing is damaged' if of_trials else 'whole'}: {counts}", style="green")
    else:
        damaged = format_count(len(found.damaged), "damage")
        console.print(
            f"{damaged} in {counts}; restore what is damaged from a copy of the run's folder", style="bold red"
        )
