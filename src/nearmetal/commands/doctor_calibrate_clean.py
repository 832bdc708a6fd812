"""This host: what it can, how far it can be trusted, and what was left on it; and what the hosts of a lab can."""

import os
import sys
import textwrap
from collections.abc import Coroutine, Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from nearmetal.commands.options import RunPath, json_option, lab_option
from nearmetal.control_characters import strip_controls
from nearmetal.errors import BadInput, ExitCode, HostCannot, Interrupted

if TYPE_CHECKING:
    from rich.console import Console

    from nearmetal.lab.doctor import Diagnosis
    from nearmetal.model import Finding

_HANGING = 4
"""Columns of the mark before what was found."""


@click.command()
@click.argument("environments", nargs=-1)
@click.option("--fix", is_flag=True, help="Install the packages that are missing first, by apt.")
@lab_option
@json_option("doctor.v1")
def doctor(environments: tuple[str, ...], fix: bool, lab: Path | None, as_json: bool) -> int:
    """Try what this host can measure.

    With ENVIRONMENTS, of these alone; exits with 3 if one of them cannot run here. --fix installs what they lack, and
    nothing else; without a name those of the study quickstart: host, docker, qemu. If the host has another package
    manager than apt, its command is printed. --lab asks all hosts of a lab, and prints what each can.
    """
    if lab is not None:
        if environments or fix:
            raise click.UsageError("--lab asks the lab's hosts alone, and takes neither ENVIRONMENTS nor --fix")
        return _examine_lab(lab, as_json)
    from nearmetal.console.printing import console_for, print_json, print_warning
    from nearmetal.lab import concurrent_runs
    from nearmetal.lab.doctor import USUAL, examine

    if process := concurrent_runs.other():
        print_warning(concurrent_runs.disturbs(process))
    console = console_for(as_json)
    if fix:
        environments = environments or USUAL
        _install_missing(environments)
    with console.status("trying what this host can do"):
        found = _await_diagnosis(examine(environments), "nothing is left of what was tried")
    if as_json:
        print_json(found)
    else:
        for finding in found.findings:
            told = f"{finding.what}: {finding.detail}" if finding.detail else finding.what
            lines = [told, *([f"remedy: {finding.remedy}"] if finding.remedy and not finding.ok else [])]
            _print_finding(finding, lines, console)
    return ExitCode.DONE if found.able else ExitCode.HOST_CANNOT


def _await_diagnosis(examining: "Coroutine[None, None, Diagnosis]", left: str) -> "Diagnosis":
    """Interrupted, with what is left then."""
    from nearmetal.console.printing import print_beside
    from nearmetal.system.interrupts import until_interrupted

    examined = []

    async def examine() -> None:
        examined.append(await examining)

    if not until_interrupted(examine(), print_beside):
        raise Interrupted(f"nothing was found out, and {left}", remedy="run it again")
    return examined[0]


def _print_finding(finding: "Finding", lines: Sequence[str], console: "Console") -> None:
    """Lines about it behind its mark."""
    from rich.text import Text

    mark, style = _choose_mark(finding)
    width = max(console.width - _HANGING, 1)
    for number, part in enumerate(part for line in lines for part in textwrap.wrap(strip_controls(line), width)):
        console.print(Text.assemble((f"{'' if number else mark:{_HANGING}}", style), part), soft_wrap=True)


def _choose_mark(finding: "Finding") -> tuple[str, str]:
    """ "ok", "no", "--" of what may be missing, "·" of what was not tried; and its colour."""
    if finding.ok:
        return ("·", "dim") if finding.detail.startswith("not tried:") else ("ok", "green")
    return ("no", "red") if finding.fatal else ("--", "yellow")


def _install_missing(environments: Sequence[str]) -> None:
    """By apt. HostCannot, with the command to type, where apt is not the host's, or not ours to use."""
    import asyncio
    import subprocess

    from nearmetal.console.printing import print_beside
    from nearmetal.lab.doctor import find_packages
    from nearmetal.lab.packages import APT, describe_install, find_manager

    packages = asyncio.run(find_packages(environments))
    if not packages:
        print_beside(f"no package is missing for {', '.join(environments)}")
        return
    manager = find_manager()
    command = describe_install(manager, *packages)
    if manager is not APT:
        raise HostCannot("packages are missing, and only apt is used by --fix", remedy=command)
    if os.geteuid() != 0:
        raise HostCannot("packages are missing, and installing them takes root", remedy=f"sudo {command}")
    print_beside(f"installing {', '.join(packages)}")
    quietly = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    # Its words go where ours do that are no result.
    for words in (["update", "-q"], ["install", "-q", "-y", "--no-install-recommends", *packages]):
        ended = subprocess.run([APT.program, *words], stdin=subprocess.DEVNULL, stdout=sys.stderr, env=quietly)
        if ended.returncode != 0:
            raise HostCannot(f"apt-get {words[0]} ended with {ended.returncode}; it says why above", remedy=command)


def _examine_lab(lab: Path, as_json: bool) -> int:
    """What each of its hosts can, as a matrix, and below it what is lacking."""
    from nearmetal.console.printing import console_for, print_json, print_table
    from nearmetal.console.tables import TextColumn, fit_table
    from nearmetal.lab.doctor import HostDiagnosis
    from nearmetal.lab.doctor_hosts import examine_hosts
    from nearmetal.study.lab_file import read_lab, read_lab_file

    hosts = read_lab(read_lab_file(lab), str(lab))
    console = console_for(as_json)
    with console.status(f"asking {len(hosts)} hosts"):
        found = _await_diagnosis(examine_hosts(hosts), "nothing was made")
    if as_json:
        print_json(found)
        return ExitCode.DONE if found.able else ExitCode.HOST_CANNOT
    titles = list(dict.fromkeys(one.what for host in found.hosts for one in host.findings))

    def row(host: HostDiagnosis) -> list[str]:
        told = {one.what: one for one in host.findings}
        words = ", ".join((*host.roles, *host.tags))
        return [host.name, words, *(_show_cell(told.get(title)) for title in titles)]

    columns = [TextColumn("host"), TextColumn("roles, tags"), *map(TextColumn, titles)]
    print_table(fit_table(columns, map(row, found.hosts), console.width), console)
    for host in found.hosts:
        for one in host.findings:
            if not one.ok:
                remedy = f"; remedy: {one.remedy}" if one.remedy else ""
                _print_finding(one, [f"{host.name}: {one.what}: {one.detail}{remedy}"], console)
    return ExitCode.DONE if found.able else ExitCode.HOST_CANNOT


def _show_cell(found: "Finding | None") -> str:
    """ "yes" or what is told of what holds, "no" of what must hold and does not, else "-"; "" of what was not asked."""
    if found is None:
        return ""
    if found.ok:
        return found.detail or "yes"
    return "no" if found.fatal else "-"


@click.command()
@click.argument("environment", required=False)
@click.option("--from", "made", type=RunPath(), help="Tell of this run, instead of making one.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Folder of the run.")
@click.option("--blocks", type=click.IntRange(1), help="Run this many blocks; 8 are the fewest that can tell.")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Set a key of the study `calibration`.")
@click.option("--quick", is_flag=True, help="Shorter trials, fewest blocks.")
@click.option("--gate", is_flag=True, help="Exit with 5 unless answers here can be trusted.")
@json_option("calibrate.v1")
def calibrate(made: Path | None, gate: bool, as_json: bool, **wanted: Any) -> int:
    """Try how far answers can be trusted here.

    And how small a difference can be seen, with how many blocks. ENVIRONMENT is the kind of machine; else host.
    """
    from nearmetal.commands import calibrate_action
    from nearmetal.console.printing import console_for, print_json, print_warning
    from nearmetal.report.figures import join_listing
    from nearmetal.report.write import write
    from nearmetal.store.run_folder import RunFolder

    console = console_for(as_json)
    if made is not None:
        options = {"-o": "output", "--blocks": "blocks", "--set": "overrides", "--quick": "quick"}
        given = [option for option, name in options.items() if wanted[name]]
        if wanted["environment"] is not None:
            given.insert(0, wanted["environment"])
        if given:
            what = f"--from tells of a run that was made, which leaves no use for {join_listing(given)}"
            remedy = f"nearmetal calibrate --from {quote(str(made))}; or leave out --from, to make a run"
            raise BadInput(what, "calibrate", remedy)
        folder = RunFolder.open(made)
    else:
        folder, finished = calibrate_action.run_calibration(console, **wanted)
        if not finished:
            return calibrate_action.end_interrupted(folder)
        write(folder, print_warning)
    found = calibrate_action.read_found(folder)
    path = calibrate_action.keep_found(found, folder)
    if as_json:
        print_json(found)
    else:
        calibrate_action.print_calibration(found, console)
        console.print(calibrate_action.describe_keeping(found, path), style="dim")
        if folder.page.exists():
            console.print(f"report: {folder.page}", soft_wrap=True)
    bad = found.trials.invalid + found.trials.failed + found.trials.lost
    if gate and found.verdict != "sound":
        return ExitCode.GATE_NOT_MET
    return ExitCode.SOME_TRIALS_BAD if bad else ExitCode.DONE


@click.command()
@lab_option
@json_option("clean.v1")
def clean(lab: Path | None, as_json: bool) -> int:
    """Put right what an interrupted run left.

    With --lab, also look on each host of the lab for what no ledger here knows.
    """
    from nearmetal.console.printing import print_beside, print_json
    from nearmetal.lab.clean import CleanOutput, clean_everything, clean_hosts
    from nearmetal.lab.machines import registry
    from nearmetal.study.lab_file import read_lab, read_lab_file
    from nearmetal.system.interrupts import run_until_done

    hosts = None if lab is None else read_lab(read_lab_file(lab), str(lab))

    async def put_right() -> CleanOutput:
        done = await (clean_everything(print_beside) if hosts is None else clean_hosts(hosts, print_beside))
        await registry.forget_dead()
        return done

    cleaned = run_until_done(put_right())
    if as_json:
        print_json(cleaned)
    else:
        for verb, things in (
            ("removed", cleaned.removed),
            ("restored", cleaned.restored),
            ("still there", cleaned.left),
            ("left alone", cleaned.alive),
        ):
            for thing in things:
                click.echo(f"{verb}: {strip_controls(thing)}")
        if cleaned.in_use:
            processes = "process" if cleaned.in_use == 1 else "processes"
            click.echo(f"what {cleaned.in_use} running {processes} of nearmetal made is not touched")
        elif not (cleaned.removed or cleaned.restored or cleaned.left):
            whose = "ours" if os.geteuid() == 0 else "this user's"
            click.echo(f"nothing of {whose} is left")
    return ExitCode.HOST_CANNOT if cleaned.left else ExitCode.DONE
