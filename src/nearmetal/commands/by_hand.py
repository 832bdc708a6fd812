"""Machines to work in by hand.

Modules are imported where they are needed: to import them all takes longer than most commands that run in a machine,
and the keeper of a machine that is to come up imports its own meanwhile.
"""

import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from nearmetal.commands.completion import complete_names
from nearmetal.commands.options import json_option, strip_separator
from nearmetal.errors import ExitCode, HostCannot, MachineError, NearmetalError
from nearmetal.system import pipes

if TYPE_CHECKING:
    from nearmetal.by_hand.documents import MachineUp, State
    from nearmetal.lab.machines.registry import KeptMachine


def _complete_machine(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    return complete_names(begun, (machine.name for machine in list_machines()))


@click.command()
@click.argument("environment")
@click.option("--name", help="What to call the machine; else the environment's name.")
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set a key of a study's [machine]: machine.memory=1GiB, machine.vcpus=2.",
)
@json_option("up.v1")
def up(environment: str, name: str | None, overrides: tuple[str, ...], as_json: bool) -> None:
    """Make a machine, and keep it until `down`.

    ENVIRONMENT is the kind of machine, such as host, docker or qemu.
    """
    from nearmetal.by_hand.up import start_machine
    from nearmetal.console.printing import console_for, print_json

    console = console_for(as_json)
    kept = start_machine(environment, name, overrides, console.print)

    from nearmetal.by_hand.documents import Up, machine_up
    from nearmetal.units import show_size

    if as_json:
        print_json(Up(**dict(machine_up(kept, "up"))))
        return
    cpus = f"{kept.spec.vcpus} CPU{'s' if kept.spec.vcpus > 1 else ''}"
    how = f"{kept.environment} ({kept.accel})" if kept.accel else kept.environment
    console.print(f"{kept.name} is up: {how}, {cpus}, {show_size(kept.spec.memory)}")
    for words, what in (
        (f"exec {kept.name} -- COMMAND", "run a command in it"),
        (f"ssh {kept.name}", "a shell in it"),
        (f"cp FILE {kept.name}:PATH", "copy there, and back the other way round"),
        (f"down {kept.name}", "remove it"),
    ):
        console.print(f"  nearmetal {words:<32}{what}", soft_wrap=True)
    if kept.address:
        where = f" on the lab's switch, {kept.switch}" if kept.switch else ""
        console.print(f"  {kept.address} is its address{where}", soft_wrap=True)
    if (port := machine_up(kept, "up").ssh_port) is not None:
        from nearmetal.by_hand.ssh_config import locate_file

        console.print(f"  127.0.0.1:{port} leads to its SSH server; for scp, rsync and others:", soft_wrap=True)
        console.print(f"  ssh -F {shlex.quote(str(locate_file()))} {kept.name}", soft_wrap=True)


@click.command()
@click.argument("name", shell_complete=_complete_machine)
@json_option("down.v1")
def down(name: str, as_json: bool) -> int:
    """Remove a machine that is up.

    And all that was made for it.
    """
    from nearmetal.by_hand.documents import Down
    from nearmetal.by_hand.down import remove_machine
    from nearmetal.console.printing import print_beside, print_json
    from nearmetal.system.interrupts import run_until_done

    left = run_until_done(remove_machine(name, print_beside))
    if as_json:
        print_json(Down(name=name, left=tuple(left)))
        return ExitCode.HOST_CANNOT if left else ExitCode.DONE
    for what in left:
        print_beside(f"still there (nearmetal clean tries again): {what}")
    if not left:
        click.echo(f"{name} is down")
    return ExitCode.HOST_CANNOT if left else ExitCode.DONE


@click.command("cp")
@click.argument("source")
@click.argument("destination")
def copy(source: str, destination: str) -> None:
    """Copy to a machine that is up, or from it.

    FILE NAME:PATH copies a file or folder there, NAME:PATH FILE back.
    """
    from nearmetal.by_hand.copying import copy_path

    try:
        copy_path(source, destination)
    except MachineError as error:
        raise HostCannot(error.what, error.where, error.remedy) from None


@click.command("exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("name", shell_complete=_complete_machine)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, callback=strip_separator)
def execute(name: str, command: tuple[str, ...]) -> int:
    """Run a COMMAND in a machine that is up.

    `nearmetal exec NAME -- COMMAND`.

    Input and output are passed on as they come. The status is the command's own; 125 is nearmetal's own failure.
    """
    from nearmetal.by_hand import program
    from nearmetal.lab.machines.registry import find

    return own_failures_apart(lambda: program.run(find(name), command))


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("name", shell_complete=_complete_machine)
@click.argument("command", nargs=-1, type=click.UNPROCESSED, callback=strip_separator)
def ssh(name: str, command: tuple[str, ...]) -> int:
    """Open a shell in a machine that is up.

    Or have the shell run a COMMAND there, its words joined by spaces, as ssh does. With a terminal where stdin is one.
    """
    from nearmetal.by_hand import entry_commands, program
    from nearmetal.lab.machines.registry import find

    argv = [*entry_commands.SHELL, *(["-c", " ".join(command)] if command else [])]
    return own_failures_apart(lambda: program.run(find(name), argv, terminal=sys.stdin.isatty()))


def own_failures_apart(work: Callable[[], int]) -> int:
    """A command's own status may be any, so what goes wrong with us has one status of its own; that nobody reads what
    a command says is not ours."""
    from nearmetal.console.printing import print_beside
    from nearmetal.system import system_errors

    try:
        return work()
    except NearmetalError as error:
        print_beside(f"nearmetal: {error}")
    except BrokenPipeError:
        pipes.fall_silent(sys.stdout)
        return 128 + signal.SIGPIPE
    except OSError as error:
        print_beside(f"nearmetal: {system_errors.in_full(error)}")
    return ExitCode.OWN_FAILURE


def list_machines() -> "list[MachineUp]":
    """Those that are kept, for `ls`."""
    from nearmetal.by_hand.documents import machine_up
    from nearmetal.lab.machines.registry import everything
    from nearmetal.system.interrupts import run_until_done

    async def all_told() -> "list[MachineUp]":
        return [machine_up(kept, await _find_state(kept)) for kept in everything()]

    return run_until_done(all_told())


async def _find_state(kept: "KeptMachine") -> "State":
    from nearmetal.by_hand.entry_commands import open_entry

    if await kept.is_lost():
        return "lost"
    if kept.handle is None:
        return "starting"
    try:
        await open_entry(kept)
    except MachineError:
        return "unreachable"
    return "up"


def print_machines(listed: "Sequence[MachineUp]") -> None:
    from nearmetal.console.printing import console_for
    from nearmetal.console.tables import TextColumn, fit_table
    from nearmetal.units import show_size

    titles = ("machine", "environment", "state", "CPUs", "memory", "address", "made (UTC)")
    rows = [
        (
            one.name,
            one.environment,
            one.state,
            str(one.machine.vcpus),
            show_size(one.machine.memory),
            one.address,
            one.made[:16].replace("T", " "),
        )
        for one in listed
    ]
    console = console_for(False)
    console.print(fit_table([TextColumn(title) for title in titles], rows, console.width))
    if any(one.state == "unreachable" for one in listed):
        console.print("unreachable: its engine does not answer; nearmetal exec NAME -- true tells what to do")
    if any(one.state == "lost" for one in listed):
        console.print("lost: it ended by itself, or its keeper died, and it too; remove the rest by: nearmetal clean")
