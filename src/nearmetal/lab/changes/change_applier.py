"""The one engine that changes values and puts them back.

Before a value is changed, the ledger holds what it was; an undo restores only what still has the value that we gave
it. What somebody else set meanwhile is theirs: it is left, and told.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Literal, cast

from nearmetal.errors import HostCannot, MachineGone, message_of
from nearmetal.lab.changes.host_wide_values import change_host, is_shared, release_host
from nearmetal.lab.changes.kinds import KINDS
from nearmetal.lab.changes.ledger import Ledger
from nearmetal.lab.leftovers import Leftover
from nearmetal.lab.local_site import run_checked
from nearmetal.model import Change, Commands, Machine, Warned

Reach = Callable[[str], Awaitable[Commands]]
"""From a change's `on` to what commands run on. MachineGone when it has been removed."""

Outcome = Literal["restored", "already so", "left", "gone", "failed"]


@dataclass(frozen=True)
class UndoOutcome:
    """What became of one change.

    `left`: somebody else has changed the value since. `gone`: its machine, or the thing itself, is no more.
    `failed`: it is tried again.
    """

    change: Change
    outcome: Outcome
    detail: str = ""

    @property
    def told(self) -> str:
        return str(self.left)

    @property
    def left(self) -> Leftover:
        return Leftover(f"{self.change.on}: {self.change.kind} {self.change.target}", self.detail)


class UndoNotRecorded(OSError):
    """The ledger could not be told what has become of some changes, as on a full disk: it still holds them.

    Each was tried nevertheless: `undone`.
    """

    def __init__(self, error: OSError, undone: list[UndoOutcome]) -> None:
        super().__init__(error.errno, f"{error.strerror}: what is put back could not be noted", error.filename)
        self.undone = undone


@dataclass(frozen=True)
class ChangeOutcome:
    """What became of the wish to change: `required` changes that did not stick, and warnings about the others."""

    refused: tuple[str, ...]
    warnings: tuple[Warned, ...]
    reboot: tuple[str, ...]
    """Names of machines that must boot again for their changes to take effect."""


async def apply_changes(changes: Sequence[Change], ledger: Ledger, reach: Reach) -> ChangeOutcome:
    """Make each change, in order, and read it back. HostCannot while another ledger holds changes of this host."""
    refused: list[str] = []
    warnings: list[Warned] = []
    reboot: dict[str, None] = {}
    for change in changes:
        commands = await reach(change.on)
        kind = KINDS[change.kind]
        before = await kind.read(commands, change.target)
        if kind.holds(before, change.after):
            continue
        if before is not None or change.kind == "file":
            with change_host(ledger.path) if is_shared(change) else nullcontext():
                if is_shared(change):
                    before = await kind.read(commands, change.target)  # what another put back meanwhile
                ledger.changing(change.model_copy(update={"before": before}))
            problem = await _write(change, commands)
        else:
            problem = "there is no such thing here"
        if problem:
            text = f"{change.on}: {kind.unmet(change)}: {problem}"
            if change.required:
                refused.append(text)
            else:
                warnings.append(Warned(code="change-refused", text=text))
        elif change.kind == "boot":
            reboot[change.on] = None
    return ChangeOutcome(tuple(refused), tuple(warnings), tuple(reboot))


async def _write(change: Change, commands: Commands) -> str:
    """Write and read back; why it did not stick, or ""."""
    kind = KINDS[change.kind]
    try:
        await kind.write(commands, change.target, change.after)
    except HostCannot as error:
        return error.what
    actual = await kind.read(commands, change.target)
    return "" if kind.holds(actual, change.after) else f"it reads back as {kind.shown(actual)}"


async def undo_changes(ledger: Ledger, reach: Reach, *, but: Collection[int] = ()) -> list[UndoOutcome]:
    """Put back everything the ledger still holds `but` these numbers, newest first. Idempotent.

    What could not be put back, for whatever reason, keeps none of the others from it, and stays in the ledger for
    `clean` to try again. What somebody else has changed since is theirs, and what was on a machine that is gone went
    with it: both are told, and forgotten. UndoNotRecorded, once all was tried, when the ledger could not be told of it.
    """
    outcomes: list[UndoOutcome] = []
    unnoted: OSError | None = None
    for number, change in ledger.outstanding().changes:
        if number in but:
            continue
        if number not in ledger.settled:
            outcomes.append(await _undo_change(change, reach))
            if outcomes[-1].outcome == "failed":
                continue
        try:
            ledger.undone(number)
        except OSError as error:
            unnoted = error
    if unnoted is not None:
        raise UndoNotRecorded(unnoted, outcomes)
    if any(is_shared(one.change) for one in outcomes):
        release_host(ledger.path)
    return outcomes


async def _undo_change(change: Change, reach: Reach) -> UndoOutcome:
    try:
        return await _put_back(change, await reach(change.on))
    except MachineGone as error:
        return UndoOutcome(change, "gone", str(error))
    except Exception as error:
        return UndoOutcome(change, "failed", message_of(error))


async def _put_back(change: Change, commands: Commands) -> UndoOutcome:
    kind = KINDS[change.kind]
    current = await kind.read(commands, change.target)
    if current is None and kind.passes:
        return UndoOutcome(change, "gone", "there is no such thing any more")
    if kind.put_back is not None and change.before is not None:
        left = await kind.put_back(commands, change)
        return UndoOutcome(change, "left" if left else "restored", left)
    if current != change.before and not kind.holds(current, change.after):
        return UndoOutcome(change, "left", f"it is {current!r} now, which is not what nearmetal set ({change.after!r})")
    if current != change.before:
        await kind.write(commands, change.target, change.before)
    if change.kind == "boot" and not change.on.startswith("site:"):
        # A machine boots again that still runs with our kernel arguments, before the ledger forgets them. Not a host:
        # others use it, and whoever had its boot loader told boots it again.
        running = (await run_checked(commands, "cat", "/proc/cmdline")).decode().split()
        if set(change.after.split()) <= set(running):
            await cast(Machine, commands).reboot()
    return UndoOutcome(change, "already so" if current == change.before else "restored")
