"""What the commands about machines to work in by hand do.

Modules are imported where they are needed: to import them all takes longer than most commands that run in a machine,
and the keeper of a machine that is to come up imports its own meanwhile.
"""

import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from nearmetal.console.printing import console_for, print_beside, print_json
from nearmetal.errors import ExitCode, HostCannot, MachineError, NearmetalError
from nearmetal.system import pipes, system_errors
from nearmetal.system.interrupts import run_until_done
from nearmetal.units import show_size

if TYPE_CHECKING:
    from nearmetal.by_hand.documents import MachineUp, State
    from nearmetal.lab.machines.kept import KeptMachine


def start_machine(environment: str, name: str | None, overrides: Sequence[str], as_json: bool) -> None:
    from nearmetal.by_hand.up import start_machine as have

    console = console_for(as_json)
    kept = have(environment, name, overrides, console.print)

    from nearmetal.by_hand.documents import Up, machine_up

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


def remove_machine(name: str, as_json: bool) -> int:
    from nearmetal.by_hand.documents import Down
    from nearmetal.by_hand.down import remove_machine as end

    left = run_until_done(end(name, print_beside))
    if as_json:
        print_json(Down(name=name, left=tuple(left)))
        return ExitCode.HOST_CANNOT if left else ExitCode.DONE
    for what in left:
        print_beside(f"still there (nearmetal clean tries again): {what}")
    if not left:
        click.echo(f"{name} is down")
    return ExitCode.HOST_CANNOT if left else ExitCode.DONE


def copy_files(source: str, destination: str) -> None:
    from nearmetal.by_hand.copying import copy_path as carry

    try:
        carry(source, destination)
    except MachineError as error:
        raise HostCannot(error.what, error.where, error.remedy) from None


def execute_command(name: str, argv: Sequence[str]) -> int:
    from nearmetal.by_hand import enter
    from nearmetal.lab.machines.kept import find

    return own_failures_apart(lambda: enter.run(find(name), argv))


def open_shell(name: str, command: Sequence[str] = ()) -> int:
    """With a terminal where we have one ourselves; else, and without a command, what stdin says is run."""
    from nearmetal.by_hand import doors, enter
    from nearmetal.lab.machines.kept import find

    argv = [*doors.SHELL, *(["-c", " ".join(command)] if command else [])]
    return own_failures_apart(lambda: enter.run(find(name), argv, terminal=sys.stdin.isatty()))


def own_failures_apart(work: Callable[[], int]) -> int:
    """A command's own status may be any, so what goes wrong with us has one status of its own; that nobody reads what
    a command says is not ours."""
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


# ── Which are up ──────────────────────────────────────────────────────────────────────────────────────────────────


def list_machines() -> "list[MachineUp]":
    """Those that are kept, for `ls`."""
    from nearmetal.by_hand.documents import machine_up
    from nearmetal.lab.machines.kept import everything

    async def all_told() -> "list[MachineUp]":
        return [machine_up(kept, await _find_state(kept)) for kept in everything()]

    return run_until_done(all_told())


async def _find_state(kept: "KeptMachine") -> "State":
    from nearmetal.by_hand.doors import open_door

    if await kept.is_lost():
        return "lost"
    if kept.handle is None:
        return "starting"
    try:
        await open_door(kept)
    except MachineError:
        return "unreachable"
    return "up"


def print_machines(listed: "Sequence[MachineUp]") -> None:
    from nearmetal.console.tables import TextColumn, fit_table

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
