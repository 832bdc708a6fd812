"""Ways into a machine that is up, for a person: its environment says which command of this host leads there.

What a study runs goes by `Machine.exec` instead.
"""

import os
from collections.abc import Sequence

from nearmetal import plugins
from nearmetal.by_hand import marked_processes
from nearmetal.errors import HostCannot, MachineLost, NotProvisioned
from nearmetal.lab.commands.command_errors import refuse_zero_bytes
from nearmetal.lab.machines.registry import KeptMachine
from nearmetal.model import Door

SHELL = ("bash", "-l")


async def open_entry(kept: KeptMachine) -> Door | None:
    """None for a kind without one: its machines are reached by `Machine.exec` alone.

    NotProvisioned while it is made; MachineLost when what leads there does not answer.
    """
    if kept.handle is None:
        raise NotProvisioned("it is not up yet", kept.name, "wait until `nearmetal up` returns")
    try:
        return await plugins.load("environments", kept.handle.kind).open_door(kept.handle)
    except HostCannot as error:
        remedy = f"{error.remedy}, or remove it" if error.remedy else "remove it"
        raise MachineLost(
            f"it cannot be reached: {error.what}", kept.name, f"{remedy}: nearmetal down {kept.name}"
        ) from None


def build_command(door: Door, argv: Sequence[str], *, terminal: bool = False, mark: str = "") -> list[str]:
    """The command that runs a program in the machine, `terminal` if it is to have one.

    `mark` is in the environment of its processes, by which `guard_processes` finds them.
    """
    refuse_zero_bytes(argv)
    env = {"TERM": os.environ.get("TERM", "xterm")} if terminal else {}
    if mark:
        env[marked_processes.VARIABLE] = mark
    return door.build_command(argv, env, terminal)
