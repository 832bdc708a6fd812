"""CPUs of this host that are kept free."""

from collections.abc import Callable
from typing import Any

import click

from nearmetal.commands.options import NumberWithin, json_option, strip_separator


@click.group()
def isolate() -> None:
    """Keep CPUs of this host free.

    Of everything that can be moved; and give them back.
    """


def _cpus_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--cpus", metavar="LIST", help='Which, such as "1" or "2-3"; by default the last.')(command)


@isolate.command("plan")
@_cpus_option
@json_option("isolate.plan.v1")
def isolate_plan(cpus: str | None, as_json: bool) -> None:
    """Show the CPUs, and each change in words. Changes nothing."""
    from nearmetal.commands import isolate_action

    isolate_action.plan_isolation(cpus, as_json)


@isolate.command("on")
@_cpus_option
@click.option("--boot", is_flag=True, help="Also tell the boot loader (GRUB), for after the next boot.")
@click.option("--strict", is_flag=True, help="Isolate nothing when something cannot be changed or moved.")
@json_option("isolate.on.v1")
def isolate_on(cpus: str | None, boot: bool, strict: bool, as_json: bool) -> int:
    """Isolate CPUs until `isolate off`. Exit code 1: done, but not everything could be moved or changed."""
    from nearmetal.commands import isolate_action

    return isolate_action.isolate_cpus(cpus, boot, strict, as_json)


@isolate.command("status")
@json_option("isolate.status.v1")
def isolate_status(as_json: bool) -> int:
    """Show what is isolated, and whether it holds.

    Exit code 1: not all of it is still as it was set.
    """
    from nearmetal.commands import isolate_action

    return isolate_action.show_status(as_json)


@isolate.command("exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("program", nargs=-1, required=True, type=click.UNPROCESSED, callback=strip_separator)
def isolate_exec(program: tuple[str, ...]) -> int:
    """Become a PROGRAM on the isolated CPUs.

    `nearmetal isolate exec -- PROGRAM`.

    The status is the program's own; 127 when there is none, 126 when it cannot be run, 125 is nearmetal's own failure.
    """
    from nearmetal.commands import isolate_action

    return isolate_action.become_program(program)


@isolate.command("prove")
@_cpus_option
@click.option("--rounds", type=click.IntRange(1, 1000), default=8, show_default=True, help="Listen so often to each.")
@click.option("--seconds", type=NumberWithin(0.1, 60), default=0.5, show_default=True, help="How long each time.")
@json_option("isolate.prove.v1")
def isolate_prove(cpus: str | None, rounds: int, seconds: float, as_json: bool) -> None:
    """Compare a CPU with and without isolation.

    Listens to it, in turns. Leaves it as it was.
    """
    from nearmetal.commands import isolate_prove_action

    isolate_prove_action.prove_isolation(cpus, rounds, seconds, as_json)


@isolate.command("off")
@json_option("isolate.off.v1")
def isolate_off(as_json: bool) -> int:
    """Put everything back that `isolate on` changed."""
    from nearmetal.commands import isolate_action

    return isolate_action.release_cpus(as_json)
