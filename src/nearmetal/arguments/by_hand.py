"""Machines to work in by hand."""

import click

from nearmetal.arguments.completion import complete_machine
from nearmetal.arguments.options import json_option, strip_separator


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
    from nearmetal.commands import by_hand

    by_hand.start_machine(environment, name, overrides, as_json)


@click.command("exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("name", shell_complete=complete_machine)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, callback=strip_separator)
def execute(name: str, command: tuple[str, ...]) -> int:
    """Run a COMMAND in a machine that is up.

    `nearmetal exec NAME -- COMMAND`.

    Input and output are passed on as they come. The status is the command's own; 125 is nearmetal's own failure.
    """
    from nearmetal.commands import by_hand

    return by_hand.execute_command(name, command)


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("name", shell_complete=complete_machine)
@click.argument("command", nargs=-1, type=click.UNPROCESSED, callback=strip_separator)
def ssh(name: str, command: tuple[str, ...]) -> int:
    """Open a shell in a machine that is up.

    Or have the shell run a COMMAND there, its words joined by spaces, as ssh does. With a terminal where stdin is one.
    """
    from nearmetal.commands import by_hand

    return by_hand.open_shell(name, command)


@click.command("cp")
@click.argument("source")
@click.argument("destination")
def copy(source: str, destination: str) -> None:
    """Copy to a machine that is up, or from it.

    FILE NAME:PATH copies a file or folder there, NAME:PATH FILE back.
    """
    from nearmetal.commands import by_hand

    by_hand.copy_files(source, destination)


@click.command()
@click.argument("name", shell_complete=complete_machine)
@json_option("down.v1")
def down(name: str, as_json: bool) -> int:
    """Remove a machine that is up.

    And all that was made for it.
    """
    from nearmetal.commands import by_hand

    return by_hand.remove_machine(name, as_json)
