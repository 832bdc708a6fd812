"""`doctor` and `clean`: what this host can do, and what dead runs left on it."""

import os
import textwrap

import click
from rich.text import Text

from nearmetal.errors import ExitCode, Interrupted
from nearmetal.interrupts import run_until_done, until_interrupted
from nearmetal.plain import plain
from nearmetal.printing import beside, console_for, print_json, warn

_HANGING = 4
"""Columns of the mark before what was found."""


def doctor(as_json: bool) -> int:
    from nearmetal.lab import others
    from nearmetal.lab.doctor import Examined, examine

    if process := others.other():
        warn(others.disturbs(process))
    console = console_for(as_json)
    examined: list[Examined] = []

    async def examine_it() -> None:
        examined.append(await examine())

    with console.status("trying what this host can do"):
        finished = until_interrupted(examine_it(), beside)
    if not finished:
        raise Interrupted("nothing was found out, and nothing is left of what was tried", remedy="run it again")
    found = examined[0]
    if as_json:
        print_json(found)
    else:
        for finding in found.findings:
            mark, style = ("ok", "green") if finding.ok else (("no", "red") if finding.fatal else ("--", "yellow"))
            told = f"{finding.what}: {finding.detail}" if finding.detail else finding.what
            lines = [told, *([f"remedy: {finding.remedy}"] if finding.remedy and not finding.ok else [])]
            wrapped = [part for line in lines for part in textwrap.wrap(plain(line), max(console.width - _HANGING, 1))]
            for number, part in enumerate(wrapped):
                console.print(Text.assemble((f"{'' if number else mark:{_HANGING}}", style), part), soft_wrap=True)
    return ExitCode.DONE if found.able else ExitCode.HOST_CANNOT


def clean(as_json: bool) -> int:
    from nearmetal.lab.clean import Cleaned, clean_everything
    from nearmetal.lab.machines import kept

    async def put_right() -> Cleaned:
        done = await clean_everything(beside)
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
                click.echo(f"{verb}: {plain(thing)}")
        if cleaned.in_use:
            processes = "process" if cleaned.in_use == 1 else "processes"
            click.echo(f"what {cleaned.in_use} running {processes} of nearmetal made is not touched")
        elif not (cleaned.removed or cleaned.restored or cleaned.left):
            whose = "ours" if os.geteuid() == 0 else "this user's"
            click.echo(f"nothing of {whose} is left")
    return ExitCode.HOST_CANNOT if cleaned.left else ExitCode.DONE
