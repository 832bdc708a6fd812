"""Studies: to see, to plan, to run."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from nearmetal.commands.completion import complete_run, complete_study
from nearmetal.commands.options import (
    GatedCommand,
    RunPath,
    choose_format,
    format_option,
    gate_option,
    json_option,
    lab_option,
)
from nearmetal.errors import BadInput, ExitCode

_quiet_option = click.option("-q", "--quiet", "is_quiet", is_flag=True, help="Print the result alone.")
_engine_option = click.option(
    "--engine", type=click.Choice(["own"]), help="Start a Docker engine for this run, and stop it at its end."
)
_scheduler_option = click.option(
    "--scheduler", metavar="local:N|tcp://HOST:PORT", help="Measure blocks on the sites of a fleet (docs/fleet.md)."
)


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


@click.command(short_help="List the built-in studies, or print one.")
@click.argument("name", required=False, shell_complete=complete_study)
@json_option("studies.v1")
def studies(name: str | None, as_json: bool) -> None:
    """List the built-in studies, or print the file of one.

    `nearmetal studies quickstart > mine.toml` is where a study of your own can begin.
    """
    from nearmetal import studies as built_in

    if name is not None:
        text = built_in.read_study_file(name)
        if as_json:
            remedy = f"leave it out: nearmetal studies {name}"
            raise BadInput("a study is a TOML file, for scripts too", "--json", remedy)
        click.echo(text, nl=False)
        return
    from nearmetal.console.printing import console_for, print_json, print_table, unfold_console
    from nearmetal.study.study_file import read

    found = [(name, read(built_in.read_study_file(name), name).question) for name in built_in.list_names()]
    if as_json:
        from nearmetal.planning.documents import BuiltIn, Studies

        print_json(Studies(studies=tuple(BuiltIn(name=name, question=question) for name, question in found)))
        return
    from nearmetal.console.tables import TextColumn, fit_table

    console = unfold_console(console_for(False))
    print_table(fit_table((TextColumn("study"), TextColumn("question", flows=True)), found, console.width), console)


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
    from nearmetal.commands.plan_output import show_plan
    from nearmetal.planning.opened_study import read_study

    opened = read_study(study, **options)
    if pilot:
        from nearmetal.commands.pilot import make_pilot

        if not make_pilot(opened, available, as_json):
            return ExitCode.INTERRUPTED
    return show_plan(opened, available, as_json, ask or pilot)


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
        from nearmetal.commands.demo import run_on_own_engine

        return run_on_own_engine()
    form = choose_format("run", form, as_json, bool(gates))
    from nearmetal.commands import run_action
    from nearmetal.planning.opened_study import read_study

    return run_action.run_study(read_study(study, **options), output, available, form, gates, is_quiet, scheduler)


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
        from nearmetal.commands.demo import run_on_own_engine

        return run_on_own_engine()
    form = choose_format("resume", form, as_json)
    from nearmetal.commands import run_action

    return run_action.resume_run(run, form, is_quiet, scheduler)
