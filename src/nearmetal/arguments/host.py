"""This host: what it can, how far it can be trusted, and what was left on it."""

from pathlib import Path
from typing import Any

import click

from nearmetal.arguments.options import RunPath, json_option, lab_option


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
    if lab is not None and (environments or fix):
        raise click.UsageError("--lab asks the lab's hosts alone, and takes neither ENVIRONMENTS nor --fix")
    from nearmetal.commands import host

    if lab is not None:
        return host.examine_lab(lab, as_json)
    return host.examine_host(environments, fix, as_json)


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
    from nearmetal.commands import calibrate as command

    return command.calibrate_host(command.CalibrationRequest(**wanted), made, gate, as_json)


@click.command()
@lab_option
@json_option("clean.v1")
def clean(lab: Path | None, as_json: bool) -> int:
    """Put right what an interrupted run left.

    With --lab, also look on each host of the lab for what no ledger here knows.
    """
    from nearmetal.commands import host

    return host.clean_host(as_json, lab)
