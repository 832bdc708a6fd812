"""This host: what it can, how far it can be trusted, and what was left on it."""

from pathlib import Path
from typing import Any

import click

from nearmetal.arguments.options import RunPath, json_option


@click.command()
@click.argument("environments", nargs=-1)
@click.option("--fix", is_flag=True, help="Install the packages that are missing first, by apt.")
@json_option("doctor.v1")
def doctor(environments: tuple[str, ...], fix: bool, as_json: bool) -> int:
    """Try what this host can measure.

    With ENVIRONMENTS, of these alone. --fix installs what they lack, and nothing else; without a name those of the
    study quickstart: host, docker, qemu. If the host has another package manager than apt, its command is printed.
    """
    from nearmetal.commands import host

    return host.doctor(environments, fix, as_json)


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

    return command.calibrate(command.Wanted(**wanted), made, gate, as_json)


@click.command()
@json_option("clean.v1")
def clean(as_json: bool) -> int:
    """Put right what an interrupted run left."""
    from nearmetal.commands import host

    return host.clean(as_json)
