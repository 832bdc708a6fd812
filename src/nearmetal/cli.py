"""The command line: arguments to calls. What is heavy is imported where it is used: --help answers at once."""

import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import click

from nearmetal import __version__, pipes, search_path
from nearmetal.errors import ExitCode, LeftAtOnce, NearmetalError

_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


def main() -> None:
    """The command line. Errors of ours become one message and their exit code; never a traceback."""
    try:
        pipes.be_patient()
        search_path.widen()
        status = _carried_out()
    except Exception as error:
        if not _is_of_interruption(error):
            raise
        status = _interrupted()
    except KeyboardInterrupt:
        status = _interrupted()
    sys.exit(int(status or 0))


def _carried_out() -> int | None:
    """The exit code of what was asked for."""
    try:
        status: int | None = cli.main(prog_name="nearmetal", standalone_mode=False)
    except click.exceptions.Abort as error:
        if isinstance(error.__cause__, LeftAtOnce):
            _leave()
        status = _interrupted()
    except click.ClickException as error:
        from nearmetal import refusals

        if refusals.is_help(error):
            error.show()
        else:
            _complain(str(refusals.refusal(error)))
        status = ExitCode.BAD_INPUT
    except NearmetalError as error:
        _complain(str(error))
        status = error.exit_code
    except OSError as error:
        from nearmetal import system_errors

        _complain(system_errors.in_full(error, of_run=sys.argv[1:2] in (["run"], ["resume"])))
        status = ExitCode.HOST_CANNOT
    return status


def _is_of_interruption(error: BaseException | None) -> bool:
    """Whether Ctrl-C stands behind it. While a class is made, as on import, Python makes another error of that."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _interrupted() -> ExitCode:
    click.echo("nearmetal: interrupted", err=True)
    return ExitCode.INTERRUPTED


def _leave() -> NoReturn:
    """As one who is killed: an end in good order would wait for what is still under way. Ledgers know all of it."""
    click.echo("nearmetal: left at once; what is not put right yet: nearmetal clean", err=True)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(ExitCode.INTERRUPTED)


def _complain(text: str) -> None:
    """On stderr; folded between words where that is a terminal."""
    text = f"nearmetal: {text}"
    if sys.stderr.isatty():
        from nearmetal.printing import folded

        text = folded(text)
    click.echo(text, err=True)


@click.group(context_settings=_CONTEXT)
@click.version_option(__version__)
def cli() -> None:
    """What does this way of virtualizing cost me, for this workload, and can I trust the answer?

    Start with `nearmetal doctor`, then `nearmetal run quickstart`.
    """


class _NumberWithin(click.FloatRange):
    """NaN is neither below a range nor above it, and the library lets it pass."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a number", param, ctx)
        return number


def _json_option(*schemas: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """What it prints is told by name: see docs/json.md."""
    told = f"Print one JSON document for scripts: {' or '.join(schemas)}."
    return click.option("--json", "as_json", is_flag=True, help=told)


def _study_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.argument("study"),
        click.option(
            "--set",
            "overrides",
            multiple=True,
            metavar="KEY=VALUE",
            help="Set a key of the study file: machine.nic=e1000, workloads.NAME.duration=5s.",
        ),
        click.option("--blocks", type=click.IntRange(1), help="Run this many blocks."),
        click.option("--seed", type=int, help="Seed of the random order."),
        click.option("--quick", is_flag=True, help="Use the study's own scaled-down version."),
        click.option("--available", is_flag=True, help="Leave out what this host cannot run."),
    ):
        command = option(command)
    return command


# ── Studies ───────────────────────────────────────────────────────────────────────────────────────────────────────


@cli.command()
@click.argument("name", required=False)
@_json_option("studies.v1")
def studies(name: str | None, as_json: bool) -> None:
    """List the built-in studies, or print the file of one.

    `nearmetal studies quickstart > mine.toml` is where a study of your own can begin.
    """
    from nearmetal.commands import study as command

    if name is None:
        command.list_studies(as_json)
    else:
        command.print_study(name, as_json)


@cli.command()
@_study_options
@_json_option("plan.v1")
def plan(study: str, as_json: bool, **options: Any) -> int:
    """Show what a study would run, and how long.

    And what it would compare. Changes nothing.
    """
    from nearmetal.commands import study as command

    return command.show_plan(command.read_study(study, **options), options["available"], as_json)


@cli.command()
@_study_options
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Folder of the run.")
@_json_option("summary.v1")
def run(study: str, output: Path | None, as_json: bool, **options: Any) -> int:
    """Run a study.

    By its file, or its built-in name.
    """
    from nearmetal.commands import run as command
    from nearmetal.commands.study import read_study

    return command.run(read_study(study, **options), output, options["available"], as_json)


@cli.command()
@click.argument("run", type=click.Path(path_type=Path))
@_json_option("summary.v1")
def resume(run: Path, as_json: bool) -> int:
    """Go on with a run that was interrupted."""
    from nearmetal.commands import run as command

    return command.resume(run, as_json)


# ── Runs ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@cli.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "form",
    type=click.Choice(["html", "md", "json", "csv", "png"]),
    default="html",
    show_default=True,
    help="html writes the report and prints its path, others are printed. Of json the schema is analysis.v1.",
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Write this file alone, and nothing to the run's folder."
)
def report(run: Path, form: Any, output: Path | None) -> None:
    """Write the report of a run.

    From its folder alone.
    """
    from nearmetal.commands import run as command

    command.report(run, form, output)


@cli.command()
@click.argument("run", type=click.Path(path_type=Path))
@_json_option("summary.v1")
def show(run: Path, as_json: bool) -> None:
    """Show the verdicts of a run."""
    from nearmetal.commands import run as command

    command.show(run, as_json)


def _share(context: click.Context, parameter: click.Parameter, text: str | None) -> float | None:
    if text is None:
        return None
    from nearmetal import units

    try:
        share = units.share(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    if not 0 < share <= 1:
        raise click.BadParameter(f"{text!r} is not above 0 and at most 100%; write it like '2%'")
    return share


@cli.command()
@click.argument("before", type=click.Path(path_type=Path))
@click.argument("after", type=click.Path(path_type=Path))
@click.option("--margin", metavar="SHARE", callback=_share, help="Closer than this is the same; else the study's own.")
@click.option(
    "--gate",
    is_flag=True,
    help="Exit with 5 if anything stands surely worse to its reference, is gone, or cannot be judged.",
)
@_json_option("compare.v1")
def compare(before: Path, after: Path, margin: float | None, gate: bool, as_json: bool) -> int:
    """Compare two runs of a study.

    What each treatment gives now and gave before, and what else was not the same.
    """
    from nearmetal.commands import compare as command

    return command.compare(before, after, margin, gate, as_json)


@cli.command()
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@_json_option("ls.v1")
def ls(folder: Path | None, as_json: bool) -> None:
    """List machines that are up, and runs.

    The runs are those known on this host, or those in a FOLDER.
    """
    from nearmetal.commands import run as command

    command.list_runs(folder, as_json)


@cli.command()
@click.argument("sql", required=False)
@click.option(
    "--run", "runs", multiple=True, type=click.Path(path_type=Path), help="Only this run, or those in a folder."
)
@_json_option("query.v1")
def query(sql: str | None, runs: tuple[Path, ...], as_json: bool) -> None:
    """Ask all runs a question in SQL.

    Without one, list the tables. The runs are those known on this host.
    """
    from nearmetal.commands import query as command

    command.ask(sql, runs, as_json)


@cli.command()
@click.argument("run", required=False, type=click.Path(path_type=Path))
@click.option("--port", type=click.IntRange(0, 65535), help="Of 127.0.0.1; else one that is free.")
@_json_option("dashboard.v1")
def dashboard(run: Path | None, port: int | None, as_json: bool) -> int:
    """Show runs in a browser, as they go on.

    Serves on 127.0.0.1 until Ctrl-C. Without a RUN, all that are known on this host.
    """
    from nearmetal.commands import dashboard as command

    return command.dashboard(run, port, as_json)


# ── Machines to work in by hand ───────────────────────────────────────────────────────────────────────────────────


@cli.command()
@click.argument("environment")
@click.option("--name", help="What to call the machine; else the environment's name.")
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set a key of a study's [machine]: machine.memory=1GiB, machine.vcpus=2.",
)
@_json_option("up.v1")
def up(environment: str, name: str | None, overrides: tuple[str, ...], as_json: bool) -> None:
    """Make a machine, and keep it until `down`.

    ENVIRONMENT is the kind of machine, such as host, docker or qemu.
    """
    from nearmetal.commands import by_hand

    by_hand.up(environment, name, overrides, as_json)


def _words(context: click.Context, parameter: click.Parameter, words: tuple[str, ...]) -> tuple[str, ...]:
    """A program's, without what may part them from ours."""
    own = words[1:] if words[:1] == ("--",) else words
    if parameter.required and not own:
        raise click.MissingParameter(ctx=context, param=parameter)
    return own


@cli.command("exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("name")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, callback=_words)
def execute(name: str, command: tuple[str, ...]) -> int:
    """Run a COMMAND in a machine that is up.

    `nearmetal exec NAME -- COMMAND`.

    Input and output are passed on as they come. The status is the command's own; 125 is nearmetal's own failure.
    """
    from nearmetal.commands import by_hand

    return by_hand.execute(name, command)


@cli.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("name")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, callback=_words)
def ssh(name: str, command: tuple[str, ...]) -> int:
    """Open a shell in a machine that is up.

    Or have the shell run a COMMAND there, its words joined by spaces, as ssh does. With a terminal where stdin is one.
    """
    from nearmetal.commands import by_hand

    return by_hand.shell(name, command)


@cli.command("cp")
@click.argument("source")
@click.argument("destination")
def copy(source: str, destination: str) -> None:
    """Copy to a machine that is up, or from it.

    FILE NAME:PATH copies a file or folder there, NAME:PATH FILE back.
    """
    from nearmetal.commands import by_hand

    by_hand.copy(source, destination)


@cli.command()
@click.argument("name")
@_json_option("down.v1")
def down(name: str, as_json: bool) -> int:
    """Remove a machine that is up.

    And all that was made for it.
    """
    from nearmetal.commands import by_hand

    return by_hand.down(name, as_json)


# ── This host ─────────────────────────────────────────────────────────────────────────────────────────────────────


@cli.command()
@_json_option("doctor.v1")
def doctor(as_json: bool) -> int:
    """Try what this host can measure."""
    from nearmetal.commands import host

    return host.doctor(as_json)


@cli.command()
@click.argument("environment", required=False)
@click.option("--from", "made", type=click.Path(path_type=Path), help="Tell of this run, instead of making one.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Folder of the run.")
@click.option("--blocks", type=click.IntRange(1), help="Run this many blocks; 8 are the fewest that can tell.")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Set a key of the study `calibration`.")
@click.option("--quick", is_flag=True, help="Shorter trials, fewest blocks.")
@click.option("--gate", is_flag=True, help="Exit with 5 unless answers here can be trusted.")
@_json_option("calibrate.v1")
def calibrate(made: Path | None, gate: bool, as_json: bool, **wanted: Any) -> int:
    """Try how far answers can be trusted here.

    And how small a difference can be seen, with how many blocks. ENVIRONMENT is the kind of machine; else host.
    """
    from nearmetal.commands import calibrate as command

    return command.calibrate(command.Wanted(**wanted), made, gate, as_json)


@cli.command()
@_json_option("clean.v1")
def clean(as_json: bool) -> int:
    """Put right what an interrupted run left."""
    from nearmetal.commands import host

    return host.clean(as_json)


@cli.group()
def isolate() -> None:
    """Keep CPUs of this host free.

    Of everything that can be moved; and give them back.
    """


def _cpus_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--cpus", metavar="LIST", help='Which, such as "1" or "2-3"; by default the last.')(command)


@isolate.command("plan")
@_cpus_option
@_json_option("isolate.plan.v1")
def isolate_plan(cpus: str | None, as_json: bool) -> None:
    """Show the CPUs, and each change in words. Changes nothing."""
    from nearmetal.commands import isolate as command

    command.plan(cpus, as_json)


@isolate.command("on")
@_cpus_option
@click.option("--boot", is_flag=True, help="Also tell the boot loader (GRUB), for after the next boot.")
@click.option("--strict", is_flag=True, help="Isolate nothing when something cannot be changed or moved.")
@_json_option("isolate.on.v1")
def isolate_on(cpus: str | None, boot: bool, strict: bool, as_json: bool) -> int:
    """Isolate CPUs until `isolate off`. Exit code 1: done, but not everything could be moved or changed."""
    from nearmetal.commands import isolate as command

    return command.on(cpus, boot, strict, as_json)


@isolate.command("status")
@_json_option("isolate.status.v1")
def isolate_status(as_json: bool) -> int:
    """Show what is isolated, and whether it holds.

    Exit code 1: not all of it is still as it was set.
    """
    from nearmetal.commands import isolate as command

    return command.status(as_json)


@isolate.command("exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("program", nargs=-1, required=True, type=click.UNPROCESSED, callback=_words)
def isolate_exec(program: tuple[str, ...]) -> int:
    """Become a PROGRAM on the isolated CPUs.

    `nearmetal isolate exec -- PROGRAM`.

    The status is the program's own; 127 when there is none, 126 when it cannot be run, 125 is nearmetal's own failure.
    """
    from nearmetal.commands import isolate_exec

    return isolate_exec.become(program)


@isolate.command("prove")
@_cpus_option
@click.option("--rounds", type=click.IntRange(1, 1000), default=8, show_default=True, help="Listen so often to each.")
@click.option("--seconds", type=_NumberWithin(0.1, 60), default=0.5, show_default=True, help="How long each time.")
@_json_option("isolate.prove.v1")
def isolate_prove(cpus: str | None, rounds: int, seconds: float, as_json: bool) -> None:
    """Compare a CPU with and without isolation.

    Listens to it, in turns. Leaves it as it was.
    """
    from nearmetal.commands import isolate_prove

    isolate_prove.prove(cpus, rounds, seconds, as_json)


@isolate.command("off")
@_json_option("isolate.off.v1")
def isolate_off(as_json: bool) -> int:
    """Put everything back that `isolate on` changed."""
    from nearmetal.commands import isolate as command

    return command.off(as_json)


@cli.group()
def image() -> None:
    """Build and list images of machines.

    The lab image is one root filesystem for every environment.
    """


@image.command("build")
@click.option("--package", "packages", multiple=True, metavar="NAME", help="Also install this Debian package.")
@click.option("--file", "files", multiple=True, metavar="FILE:PATH", help="Also lay this file at that path in it.")
@click.option("--name", default="lab", show_default=True)
@_json_option("image.built.v1")
def image_build(packages: tuple[str, ...], files: tuple[str, ...], name: str, as_json: bool) -> None:
    """Build the image, or find it built already."""
    from nearmetal.commands import image as command

    command.build(packages, files, name, as_json)


@image.command("box")
@click.argument("name", default="lab")
@click.option("-o", "--output", "out", type=click.Path(path_type=Path), help="The file to write; else NAME.box here.")
@_json_option("box.v1")
def image_box(name: str, out: Path | None, as_json: bool) -> None:
    """Write an image that is built as a Vagrant box, for machines by libvirt."""
    from nearmetal.commands import image as command

    command.box(name, out, as_json)


@image.command("ls")
@_json_option("images.v1")
def image_ls(as_json: bool) -> None:
    """List the images that are built."""
    from nearmetal.commands import image as command

    command.ls(as_json)


@image.command("rm")
@click.argument("name")
def image_rm(name: str) -> int:
    """Remove an image, by its name or digest."""
    from nearmetal.commands import image as command

    return command.rm(name)


@cli.command()
@click.argument("captures", metavar="PCAP...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--request", "number", type=int, help="Draw this request, from 1, or print it (--json).")
@click.option("--html", type=click.Path(path_type=Path), help="Write a page with the requests over time (- prints it).")
@click.option(
    "--requests",
    type=click.Path(path_type=Path),
    help="Write each request: JSON lines (- prints them), or FILE.parquet.",
)
@_json_option("trace.v1", "trace.request.v1")
def trace(captures: tuple[Path, ...], as_json: bool, **options: Any) -> int:
    """Show what captures say of HTTP requests.

    Of one end, or of both ends of the same traffic.
    """
    from nearmetal.commands import trace as command

    return command.trace(captures, as_json=as_json, **options)


@cli.command(context_settings={"ignore_unknown_options": True, "help_option_names": []}, add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def load(arguments: tuple[str, ...]) -> None:
    """Load a web server, and show how it answers.

    See `nearmetal load URL --help`.
    """
    from nearmetal.lab import probe

    os.execv(probe.path(), ["nearmetal", "load", *arguments])
