"""Studies: to see, to plan, to run."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from nearmetal.arguments.completion import complete_run, complete_study
from nearmetal.arguments.gates import GatedCommand, choose_format, format_option, gate_option
from nearmetal.arguments.options import RunPath, json_option, lab_option
from nearmetal.errors import ExitCode

_quiet_option = click.option("-q", "--quiet", "is_quiet", is_flag=True, help="Print the result alone.")


def _study_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.argument("study", shell_complete=complete_study),
        click.option(
            "--set",
            "overrides",
            multiple=True,
            metavar="KEY=VALUE",
            help="Set a key of the study file: machine.nic=e1000, workloads.NAME.duration=5s.",
        ),
        lab_option,
        click.option("--blocks", type=click.IntRange(1), help="Run this many blocks."),
        click.option("--seed", type=int, help="Seed of the random order; each run draws its own."),
        click.option("--quick", is_flag=True, help="Use the study's own scaled-down version."),
        click.option("--available", is_flag=True, help="Leave out what this host cannot run."),
    ):
        command = option(command)
    return command


_engine_option = click.option(
    "--engine", type=click.Choice(["own"]), help="Start a Docker engine for this run, and stop it at its end."
)


def _run_on_own_engine() -> int:
    from nearmetal.commands import demo as command

    return command.run_on_own_engine(sys.argv[1:])


@click.command(short_help="List the built-in studies, or print one.")
@click.argument("name", required=False, shell_complete=complete_study)
@json_option("studies.v1")
def studies(name: str | None, as_json: bool) -> None:
    """List the built-in studies, or print the file of one.

    `nearmetal studies quickstart > mine.toml` is where a study of your own can begin.
    """
    from nearmetal.commands import study as command

    if name is None:
        command.list_studies(as_json)
    else:
        command.print_study(name, as_json)


@click.command()
@_study_options
@click.option("--ask", is_flag=True, help="Ask hosts, engines and plugins of others whether it can run.")
@click.option("--pilot", is_flag=True, help="Measure first how much boots and trials vary here.")
@json_option("plan.v1")
def plan(study: str, ask: bool, pilot: bool, available: bool, as_json: bool, **options: Any) -> int:
    """Show what a study would run, and how long.

    And what it would compare, and how small a difference it would find. Changes nothing, touches no other machine, and
    runs nothing that the study names. --ask logs in to the study's hosts, and has plugins look. --pilot runs a few
    boots of the study and keeps how much they vary, for this plan and later ones.
    """
    from nearmetal.commands import study as command
    from nearmetal.planning.opened_study import read_study

    opened = read_study(study, **options)
    if pilot:
        from nearmetal.commands.pilot import make_pilot

        if not make_pilot(opened, available, as_json):
            return ExitCode.INTERRUPTED
    return command.show_plan(opened, available, as_json, ask or pilot)


_scheduler_option = click.option(
    "--scheduler", metavar="local:N|tcp://HOST:PORT", help="Measure blocks on the sites of a fleet (docs/fleet.md)."
)


@click.command(cls=GatedCommand)
@_study_options
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Folder of the run.")
@gate_option()
@format_option()
@_quiet_option
@_engine_option
@json_option("summary.v1")
@_scheduler_option
def run(
    study: str,
    output: Path | None,
    available: bool,
    is_quiet: bool,
    gates: Any,
    form: Any,
    engine: str | None,
    as_json: bool,
    scheduler: str | None,
    **options: Any,
) -> int:
    """Run a study.

    By its file, its built-in name, or as it comes through stdin (-).
    """
    if engine:
        return _run_on_own_engine()
    form = choose_format("run", form, as_json, bool(gates))
    from nearmetal.commands import run as command
    from nearmetal.planning.opened_study import read_study

    return command.run(read_study(study, **options), output, available, form, gates, is_quiet, scheduler)


@click.command()
@click.argument("run", type=RunPath(), shell_complete=complete_run)
@format_option()
@_quiet_option
@_engine_option
@json_option("summary.v1")
@_scheduler_option
def resume(run: Path, form: Any, is_quiet: bool, engine: str | None, as_json: bool, scheduler: str | None) -> int:
    """Go on with a run that was interrupted."""
    if engine:
        return _run_on_own_engine()
    form = choose_format("resume", form, as_json)
    from nearmetal.commands import run as command

    return command.resume_run(run, form, is_quiet, scheduler)


@click.command()
@click.option("--resume", "run", type=RunPath(), metavar="RUN", help="Go on with the demo's run.")
def demo(run: Path | None) -> int:
    """Measure this host, a container and a VM.

    The study quickstart, with what this host has. Where no Docker engine answers it starts one of its own, and stops
    it at its end.
    """
    from nearmetal.commands import demo as command

    return command.run_demo(run)


@click.command()
@click.argument("word")
def explain(word: str) -> None:
    """Explain a key of a study, a warning or a cause.

    As the manual has it: nearmetal explain workers, nearmetal explain busy-host.
    """
    from nearmetal.commands import explain as command

    command.explain_word(word)


@click.command()
@click.argument("scheduler", metavar="tcp://HOST:PORT")
@click.option("--name", help="Of the site; else that of this host.")
def worker(scheduler: str, name: str | None) -> int:
    """Let this host be a site of a fleet.

    It runs blocks that `nearmetal run --scheduler` gives to the Dask scheduler at this address, one at a time.
    """
    from nearmetal.commands import fleet as command

    return command.start_worker(scheduler, name)


@click.command(hidden=True)
def block() -> int:
    """Run one block: a task as JSON on standard input, its events on standard output.

    For `nearmetal run` on another host; people have no use for it.
    """
    from nearmetal.run import block_child

    return block_child.main()
