"""What was left on this host, and is put right."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nearmetal.commands.options import json_option, lab_option
from nearmetal.control_characters import strip_controls
from nearmetal.errors import ExitCode

if TYPE_CHECKING:
    pass


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
