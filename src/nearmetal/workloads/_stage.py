"""Which machine faces which, and how its address gets into a command."""

from nearmetal.errors import ToolFailed
from nearmetal.model import Completed, Machine, Stage

SERVER = "$server"
"""Stands for the address of the server that a client faces. Braces would be a factor's level."""


def facing(stage: Stage, client: int) -> Machine:
    """The server that a client loads, by the client's index."""
    return stage.servers[client] if stage.connect == "pairs" else stage.servers[0]


def last_words(ended: Completed) -> str:
    """What a program said last, for an error message: its errors, else its output."""
    said = (ended.stderr.strip() or ended.stdout.strip()).decode("utf-8", "replace")
    return said[-500:] or "it said nothing"


def succeeded(ended: Completed, what: str, machine: Machine) -> Completed:
    """The same, unless it ended badly: ToolFailed with its last words."""
    if ended.status != 0:
        raise ToolFailed(f"{what} ended with status {ended.status}: {last_words(ended)}", machine.name)
    return ended
