"""This host: what it can measure, and what the hosts of a lab can."""

import os
import sys
import textwrap
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nearmetal.commands.options import json_option, lab_option
from nearmetal.control_characters import strip_controls
from nearmetal.errors import ExitCode, HostCannot, Interrupted

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
