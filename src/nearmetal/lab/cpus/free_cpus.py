"""CPUs that are kept for something else, as values that can be changed. A `target` is "PROBE CPUS", those CPUs.

By a cpuset of the kernel's, all tasks of programs are kept away from them. The value to be set is what the probe listed
when that was planned. Nothing is touched that it does not name, so that it also says how to undo it. Bystanders are all
who may run there, whom the probe moves away and moves back.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nearmetal.lab.local_site import run_checked
from nearmetal.model import Change, Commands
from nearmetal.shortened_list import shorten_list

NAMED = 10
"""Of those that may run there, so many are told by name."""
_LINE = re.compile(r"irq:\d+")
"""The key of an interrupt line."""


@dataclass(frozen=True)
class FreeCpus:
    """A way to keep CPUs free, by a verb of the probe's."""

    verb: str
    done: str
    """The value once nobody is left who could be kept away so."""
    find_left: Callable[[dict[str, Any]], list[str]]
    """What keeps it from being so, for people, from what the probe lists."""
    undone: str
    wish: str
    """Words before what is left, and of what could not be done."""

    async def read(self, commands: Commands, target: str) -> str | None:
        """`done`, or the probe's list, as it printed it."""
        probe, cpus = target.split()
        ended = await commands.exec([probe, self.verb, "list", "--json", "--cpus", cpus])
        if ended.status != 0:
            return None
        return ended.text.strip() if self.find_left(json.loads(ended.text)) else self.done

    def holds(self, actual: str | None, value: str) -> bool:
        return actual == self.done

    def show(self, value: str | None) -> str:
        if value is None or value == self.done:
            return repr(value)
        return f"{self.undone} {shorten_list(self.find_left(json.loads(value)), NAMED)}"

    def describe_unmet(self, change: Change) -> str:
        return f"CPU {change.target.split()[-1]} could not be {self.wish}"


def find_bystanders(listed: dict[str, Any]) -> list[str]:
    """Names of all that could be moved, and still may run there: interrupt lines, of which a host may have many, last.

    Not of an interrupt line that may be served there and is served elsewhere: the timer of a PC is one that nobody can
    move, and that no CPU but its own ever sees.
    """
    elsewhere = set(listed.get("elsewhere", ()))
    named = {
        (_LINE.fullmatch(key) is not None, one["name"])
        for key, one in listed["movable"].items()
        if key not in elsewhere
    }
    return list(dict.fromkeys(name for _, name in sorted(named)))


def _find_lacking(listed: dict[str, Any]) -> list[str]:
    """What keeps a cpuset from standing."""
    own = [] if listed["stands"] else ["no control group keeps it free"]
    wide = [f"control group {name}" for name, group in listed["groups"].items() if group.get("apart")]
    return [*own, *wide, *sorted(set(listed["tasks"].values()))]


CPUSET = FreeCpus("cpuset", "apart", _find_lacking, "not apart:", "set apart by a cpuset")
BYSTANDERS = FreeCpus("bystanders", "clear", find_bystanders, "not clear of", "cleared of all others")


async def list_cpuset(commands: Commands, probe: str, cpus: str) -> str:
    """The probe's `cpuset.v1`: whether a cpuset can keep these CPUs free here, and how."""
    return (await run_checked(commands, probe, "cpuset", "list", "--json", "--cpus", cpus)).decode().strip()


async def set_apart(commands: Commands, target: str, value: str | None) -> None:
    probe, _ = target.split()
    await run_checked(commands, probe, "cpuset", "apart", "--json", stdin=str(value).encode())


async def undo_apart(commands: Commands, change: Change) -> str:
    """What somebody else has changed meanwhile, and what the kernel refused; ""."""
    probe, _ = change.target.split()
    done = json.loads(await run_checked(commands, probe, "cpuset", "back", "--json", stdin=change.after.encode()))
    return "; ".join(f"{one['what']}: {one['why']}" for one in done["left"])


def find_joined(change: Change) -> str:
    """The folder of the control group whose programs may run on CPUs that were set apart so."""
    folder: str = json.loads(change.after)["hierarchy"]["joins"]
    return folder


async def move_bystanders(commands: Commands, target: str, value: str | None) -> None:
    probe, cpus = target.split()
    await run_checked(commands, probe, "bystanders", "away", "--json", "--cpus", cpus)


async def return_bystanders(commands: Commands, change: Change) -> str:
    """Who is not where they were, and why; ""."""
    probe, _ = change.target.split()
    done = json.loads(
        await run_checked(commands, probe, "bystanders", "back", "--json", stdin=str(change.before).encode())
    )
    return "; ".join(f"{one['name']}: {one['why']}" for one in [*done["left"], *done["refused"]])
