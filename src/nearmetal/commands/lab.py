"""`doctor --lab`: what each host of a lab can, as a matrix, and below it what is lacking."""

import textwrap
from pathlib import Path

from rich.text import Text

from nearmetal.console.printing import console_for, print_beside, print_json, print_table
from nearmetal.console.tables import TextColumn, fit_table
from nearmetal.errors import ExitCode, Interrupted
from nearmetal.model import Finding
from nearmetal.plain import strip_controls
from nearmetal.study.lab_file import read_lab, read_lab_file
from nearmetal.system.interrupts import until_interrupted


def doctor(lab: Path, as_json: bool) -> int:
    from nearmetal.lab.doctor import Diagnosis, HostDiagnosis
    from nearmetal.lab.doctor_hosts import examine_hosts

    hosts = read_lab(read_lab_file(lab), str(lab))
    console = console_for(as_json)
    examined: list[Diagnosis] = []

    async def examine() -> None:
        examined.append(await examine_hosts(hosts))

    with console.status(f"asking {len(hosts)} hosts"):
        finished = until_interrupted(examine(), print_beside)
    if not finished:
        raise Interrupted("nothing was found out, and nothing was made", remedy="run it again")
    (found,) = examined
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
                lines = textwrap.wrap(
                    strip_controls(f"{host.name}: {one.what}: {one.detail}{remedy}"), max(console.width - 4, 1)
                )
                mark, style = ("no", "red") if one.fatal else ("--", "yellow")
                for number, line in enumerate(lines):
                    console.print(Text.assemble((f"{'' if number else mark:4}", style), line), soft_wrap=True)
    return ExitCode.DONE if found.able else ExitCode.HOST_CANNOT


def _show_cell(found: Finding | None) -> str:
    """ "yes" or what is told of what holds, "no" of what must hold and does not, else "-"; "" of what was not asked."""
    if found is None:
        return ""
    if found.ok:
        return found.detail or "yes"
    return "no" if found.fatal else "-"
