"""`doctor` and `clean`: what this host can do, or each host of a lab, and what dead runs left."""

import asyncio
import os
import subprocess
import sys
import textwrap
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.text import Text

from nearmetal.console.printing import console_for, print_beside, print_json, print_table, print_warning
from nearmetal.console.tables import TextColumn, fit_table
from nearmetal.errors import ExitCode, HostCannot, Interrupted
from nearmetal.model import Finding
from nearmetal.plain import strip_controls
from nearmetal.study.lab_file import read_lab, read_lab_file
from nearmetal.system.interrupts import run_until_done, until_interrupted

if TYPE_CHECKING:
    from nearmetal.lab.doctor import Diagnosis, HostDiagnosis

_HANGING = 4
"""Columns of the mark before what was found."""


def examine_host(environments: Sequence[str], fix: bool, as_json: bool) -> int:
    """`fix`: packages are installed first that these environments lack, or else those of the study quickstart."""
    from nearmetal.lab import others
    from nearmetal.lab.doctor import USUAL, examine

    if process := others.other():
        print_warning(others.disturbs(process))
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


def _await_diagnosis(examining: Coroutine[None, None, "Diagnosis"], left: str) -> "Diagnosis":
    """Interrupted; `left` says what is left then."""
    examined = []

    async def examine() -> None:
        examined.append(await examining)

    if not until_interrupted(examine(), print_beside):
        raise Interrupted(f"nothing was found out, and {left}", remedy="run it again")
    return examined[0]


def _print_finding(finding: Finding, lines: Sequence[str], console: Console) -> None:
    """Lines about it, behind its mark."""
    mark, style = ("ok", "green") if finding.ok else (("no", "red") if finding.fatal else ("--", "yellow"))
    width = max(console.width - _HANGING, 1)
    for number, part in enumerate(part for line in lines for part in textwrap.wrap(strip_controls(line), width)):
        console.print(Text.assemble((f"{'' if number else mark:{_HANGING}}", style), part), soft_wrap=True)


def _install_missing(environments: Sequence[str]) -> None:
    """By apt. HostCannot, with the command to type, where apt is not the host's, or not ours to use."""
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


def examine_lab(lab: Path, as_json: bool) -> int:
    """What each of its hosts can, as a matrix, and below it what is lacking."""
    from nearmetal.lab.doctor_hosts import examine_hosts

    hosts = read_lab(read_lab_file(lab), str(lab))
    console = console_for(as_json)
    with console.status(f"asking {len(hosts)} hosts"):
        found = _await_diagnosis(examine_hosts(hosts), "nothing was made")
    if as_json:
        print_json(found)
        return ExitCode.DONE if found.able else ExitCode.HOST_CANNOT
    titles = list(dict.fromkeys(one.what for host in found.hosts for one in host.findings))

    def row(host: "HostDiagnosis") -> list[str]:
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


def _show_cell(found: Finding | None) -> str:
    """ "yes" or what is told of what holds, "no" of what must hold and does not, else "-"; "" of what was not asked."""
    if found is None:
        return ""
    if found.ok:
        return found.detail or "yes"
    return "no" if found.fatal else "-"


def clean_host(as_json: bool, lab: Path | None = None) -> int:
    """`lab`: the file of a lab on whose hosts is looked, too."""
    from nearmetal.lab.clean import CleanOutput, clean_everything, clean_hosts
    from nearmetal.lab.machines import kept

    hosts = None if lab is None else read_lab(read_lab_file(lab), str(lab))

    async def put_right() -> CleanOutput:
        done = await (clean_everything(print_beside) if hosts is None else clean_hosts(hosts, print_beside))
        await kept.forget_dead()
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
