"""An isolation that stands after the command that made it: its ledger, and putting everything back.

Its ledger lies beside those of runs, in a folder of its own: a run replays the ledgers of dead runs before it starts,
and it must not undo what somebody wants to stand. Only `isolate off` and `clean` do. A boot of the host takes along
all but what its boot loader was told; what it took is no longer held, and may be set again.
"""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from nearmetal.errors import HostCannot
from nearmetal.isolate.isolation_changes import ON
from nearmetal.lab.changes import change_applier
from nearmetal.lab.changes.change_applier import ChangeOutcome, UndoOutcome
from nearmetal.lab.changes.kinds import KINDS
from nearmetal.lab.changes.ledger import Ledger, isolation_folder, outstanding
from nearmetal.lab.cpus import free_cpus
from nearmetal.lab.local_site import run_checked
from nearmetal.model import Change, Commands

State = Literal["holds", "in part", "as before", "changed since", "gone"]


@dataclass(frozen=True)
class ActiveChange:
    """A change that the ledger holds, and what has become of its value.

    `in part`: of a value that is made of many, not all are as they were set, by whosever doing.
    """

    change: Change
    now: str
    """For people."""
    state: State


def ledger_path() -> Path:
    return isolation_folder() / "host.jsonl"


async def held_changes(commands: Commands, path: Path) -> tuple[Change, ...]:
    """What stands, oldest first; nothing when nothing does."""
    if not path.exists():
        return ()
    return tuple(change for _, change in reversed(outstanding(path).changes_of_boot(await _boot_id(commands))))


async def _boot_id(commands: Commands) -> str:
    return (await run_checked(commands, "cat", "/proc/sys/kernel/random/boot_id")).decode().strip()


def isolated_cpus(stands: Sequence[Change]) -> str:
    """In the kernel's notation; "" when only the boot loader was told."""
    return next((change.target.split()[-1] for change in stands if change.kind in ("cpuset", "bystanders")), "")


async def list_prefix(commands: Commands, stands: Sequence[Change], probe: str) -> tuple[str, ...]:
    """The words before a command's own that start it on the isolated CPUs, in their cpuset if that could be made."""
    wanted = [free_cpus.find_joined(one) for one in stands if one.kind == "cpuset"]
    there = [folder for folder in wanted if (await commands.exec(["test", "-d", folder])).status == 0]
    joined = [word for folder in there for word in ("--cgroup", folder)]
    return (probe, "launch", *joined, "--cpus", isolated_cpus(stands), "--")


def strip_site(told: str) -> str:
    """Without the name of the site: it is this host."""
    return told.removeprefix(f"{ON}: ")


async def isolate_cpus(wanted: Sequence[Change], commands: Commands, path: Path) -> ChangeOutcome:
    """Change it all, so that it stands. What is required and does not stick undoes the rest, and is HostCannot."""
    with closing(_open_ledger(path)) as ledger:
        ledger.begin_boot(await _boot_id(commands))
        told = dict(ledger.outstanding().changes)
        boot = [change.after for change in wanted if change.kind == "boot"]  # what the boot loader is to be told
        if any(change.kind != "boot" or boot not in ([], [change.after]) for change in told.values()):
            raise HostCannot("this host is isolated already", str(path), "first: nearmetal isolate off")
        new = [change for change in wanted if change.kind != "boot" or not told]
        applied = await change_applier.apply_changes(new, ledger, _make_reach(commands))
        if applied.refused:
            undone = await change_applier.undo_changes(ledger, _make_reach(commands), but=told)
            left = [strip_site(one.told).splitlines()[0] for one in undone if one.outcome in ("left", "failed")]
            outcome = "everything was put back" if not left else f"not put back: {'; '.join(left)}"
            raise HostCannot(
                f"{'; '.join(map(strip_site, applied.refused))}. {outcome}", remedy=_find_remedy(wanted, applied)
            )
        return applied


def _find_remedy(wanted: Sequence[Change], applied: ChangeOutcome) -> str:
    """What was refused is what was required: the boot loader's part when it was asked for, all with --strict."""
    boot = [KINDS[change.kind].unmet(change) for change in wanted if change.kind == "boot"]
    if any(unmet in refused for unmet in boot for refused in applied.refused):
        return "put right what it says, or leave out --boot and set the arguments in the boot loader by hand"
    return "leave out --strict to isolate what can be"


async def release_cpus(commands: Commands, path: Path) -> list[UndoOutcome]:
    """Put everything back, as the ledger says it was. Nothing is isolated: nothing is done."""
    if not path.exists():
        return []
    with closing(_open_ledger(path)) as ledger:
        ledger.settle_other_boots(await _boot_id(commands))
        return await change_applier.undo_changes(ledger, _make_reach(commands))


def _open_ledger(path: Path) -> Ledger:
    try:
        return Ledger(path)
    except PermissionError:
        raise HostCannot("CPUs are isolated by root only", str(path), "run nearmetal as root") from None


async def list_active(commands: Commands, path: Path) -> list[ActiveChange]:
    return [await _find_active(change, commands) for change in await held_changes(commands, path)]


async def _find_active(change: Change, commands: Commands) -> ActiveChange:
    kind = KINDS[change.kind]
    now = await kind.read(commands, change.target)
    state: State = "changed since"
    if now is None:
        state = "gone"
    elif kind.holds(now, change.after):
        state = "holds"
    elif now == change.before:
        state = "as before"
    elif kind.put_back is not None:
        state = "in part"
    return ActiveChange(change, kind.shown(now), state)


def _make_reach(commands: Commands) -> change_applier.Reach:
    async def reach_commands(on: str) -> Commands:
        return commands

    return reach_commands
