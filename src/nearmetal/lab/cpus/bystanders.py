"""Who may run on CPUs that are to be kept for something else, as a value that can be changed: all of them away.

What the probe lists, moves away and moves back. A `target` is "PROBE CPUS", the CPUs to keep free.
"""

import json
import re
from typing import Any

from nearmetal.in_short import in_short
from nearmetal.lab.site import must
from nearmetal.model import Change, Commands

CLEAR = "clear"
"""Nothing that could be moved runs there."""
NAMED = 10
"""Of those that may run there, so many are told by name."""
_LINE = re.compile(r"irq:\d+")
"""The key of an interrupt line."""


async def read(commands: Commands, target: str) -> str | None:
    """CLEAR, or the probe's list of who may run there, as it printed it."""
    probe, cpus = target.split()
    ended = await commands.exec([probe, "bystanders", "list", "--json", "--cpus", cpus])
    if ended.status != 0:
        return None
    return ended.text.strip() if still_there(json.loads(ended.text)) else CLEAR


def still_there(listed: dict[str, Any]) -> list[str]:
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


async def away(commands: Commands, target: str, value: str | None) -> None:
    probe, cpus = target.split()
    await must(commands, probe, "bystanders", "away", "--json", "--cpus", cpus)


async def put_back(commands: Commands, change: Change) -> str:
    """Who is not where they were, and why; ""."""
    probe, _ = change.target.split()
    done = json.loads(await must(commands, probe, "bystanders", "back", "--json", stdin=str(change.before).encode()))
    return "; ".join(f"{one['name']}: {one['why']}" for one in [*done["left"], *done["refused"]])


def shown(value: str | None) -> str:
    if value is None or value == CLEAR:
        return repr(value)
    return f"not clear of {in_short(still_there(json.loads(value)), NAMED)}"


def unmet(change: Change) -> str:
    return f"CPU {change.target.split()[-1]} could not be cleared of all others"
