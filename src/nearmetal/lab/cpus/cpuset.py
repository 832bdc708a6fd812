"""CPUs kept free by the kernel's cpusets, as a value that can be changed: all tasks of programs away from them.

What the probe lists, sets apart and gives back. A `target` is "PROBE CPUS", the CPUs to keep free; the value to be set
is what the probe listed when that was planned. Nothing is touched that it does not name, so that it also says how to
undo it.
"""

import json
from typing import Any

from nearmetal.in_short import in_short
from nearmetal.lab.cpus.bystanders import NAMED
from nearmetal.lab.site import must
from nearmetal.model import Change, Commands

APART = "apart"
"""Our group stands, and nobody else can run there who could be kept away by it."""


async def listed(commands: Commands, probe: str, cpus: str) -> str:
    """The probe's `cpuset.v1`: whether a cpuset can keep these CPUs free here, and how."""
    return (await must(commands, probe, "cpuset", "list", "--json", "--cpus", cpus)).decode().strip()


async def read(commands: Commands, target: str) -> str | None:
    """APART, or the probe's list of what that lacks, as it printed it."""
    probe, cpus = target.split()
    ended = await commands.exec([probe, "cpuset", "list", "--json", "--cpus", cpus])
    if ended.status != 0:
        return None
    return ended.text.strip() if _lacking(json.loads(ended.text)) else APART


def holds(actual: str | None, value: str) -> bool:
    return actual == APART


def _lacking(found: dict[str, Any]) -> list[str]:
    """What keeps it from standing, for people."""
    own = [] if found["stands"] else ["no control group keeps it free"]
    wide = [f"control group {name}" for name, group in found["groups"].items() if group.get("apart")]
    return [*own, *wide, *sorted(set(found["tasks"].values()))]


async def apart(commands: Commands, target: str, value: str | None) -> None:
    probe, _ = target.split()
    await must(commands, probe, "cpuset", "apart", "--json", stdin=str(value).encode())


async def put_back(commands: Commands, change: Change) -> str:
    """What somebody else has changed meanwhile, and what the kernel refused; ""."""
    probe, _ = change.target.split()
    done = json.loads(await must(commands, probe, "cpuset", "back", "--json", stdin=change.after.encode()))
    return "; ".join(f"{one['what']}: {one['why']}" for one in done["left"])


def shown(value: str | None) -> str:
    if value is None or value == APART:
        return repr(value)
    return f"not apart: {in_short(_lacking(json.loads(value)), NAMED)}"


def unmet(change: Change) -> str:
    return f"CPU {change.target.split()[-1]} could not be set apart by a cpuset"


def joined(change: Change) -> str:
    """The folder of the control group whose programs may run on CPUs that were set apart so."""
    folder: str = json.loads(change.after)["hierarchy"]["joins"]
    return folder
