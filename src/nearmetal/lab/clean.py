"""Putting right what a dead nearmetal left: every ledger without an owner is replayed."""

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import aclosing, closing, suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from nearmetal.config import Paths
from nearmetal.errors import BadInput, HostCannot, NearmetalError
from nearmetal.lab.changes.ledger import Ledger, OfAnotherHost, isolation_folder, ledgers_folder, outstanding, ownerless
from nearmetal.lab.commands import orphans
from nearmetal.lab.host_checks import describe_place
from nearmetal.lab.lab import Lab
from nearmetal.lab.local_site import LocalSite, run_checked
from nearmetal.lab.process_locks import wait_for_dead_run
from nearmetal.lab.qemu import accelerator, snapshot
from nearmetal.lab.site_registry import Sites
from nearmetal.model import Document, HostSpec
from nearmetal.progress_messages import Say, ignore_text, meanwhile
from nearmetal.system import system_errors, temporary_folders


class CleanOutput(Document):
    """What `clean` did: of each ledger, what it held and what could not be put right."""

    schema_: Annotated[Literal["clean.v1"], Field(alias="schema")] = "clean.v1"
    ledgers: int = 0
    removed: tuple[str, ...] = ()
    restored: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    in_use: int = 0
    """Ledgers of living owners, which were left alone."""
    alive: tuple[str, ...] = ()
    """What they hold now."""


async def clean(say: Say = ignore_text) -> CleanOutput:
    """Idempotent. Ledgers of living owners are not touched. Hosts are reached as the ledgers say.

    `say` is told of what takes long, and what that is: a guest that does not answer is waited for.
    """
    await asyncio.to_thread(wait_for_dead_run, say)
    folder = ledgers_folder()
    dead = list(ownerless(folder))
    living = sorted(set(folder.glob("*.jsonl")) - set(dead))
    alive = [what for path in living for what in _holds(path)]
    cleaned = await put_right(dead, say)
    await asyncio.to_thread(temporary_folders.sweep_folders)
    await asyncio.to_thread(snapshot.sweep)
    await asyncio.to_thread(accelerator.sweep, Paths.default().state)
    return cleaned.model_copy(update={"in_use": len(living) + cleaned.in_use, "alive": tuple(alive)})


def left_behind() -> list[str]:
    """What `clean` would put right: what the ledgers of this host's dead owners still hold. Nothing is touched.

    Also a ledger that cannot be read, by its path.
    """
    return [what for path in ownerless(ledgers_folder()) for what in _left_in(path)]


def _left_in(path: Path) -> Iterator[str]:
    try:
        still = outstanding(path)
    except FileNotFoundError:  # put right meanwhile
        return
    except BadInput:
        yield str(path)
        return
    if not still.elsewhere:
        yield from (*still.made, *still.changed)


def _holds(path: Path) -> Iterator[str]:
    """Nothing of one whose owner has ended meanwhile; one that cannot be read is its owner's to tell."""
    with suppress(FileNotFoundError, BadInput):
        yield from outstanding(path).made


async def clean_everything(say: Say = ignore_text) -> CleanOutput:
    """`clean`, and what was asked to stand after its command: an isolation of this host."""
    return _sum([await clean(say), await put_right(list(ownerless(isolation_folder())), say)])


async def clean_hosts(hosts: Mapping[str, HostSpec], say: Say = ignore_text) -> CleanOutput:
    """`clean_everything`, and what stands on these hosts that is ours by its name and in no ledger here.

    That is told and not removed: another controller may be at work there, or have died and own it.
    """
    cleaned = await clean_everything(say)
    known = {path.stem for path in ledgers_folder().glob("*.jsonl")}
    async with aclosing(Sites(hosts)) as open_site:
        found = await asyncio.gather(*(_find_unknown(name, open_site, known) for name in hosts))
    return _sum([cleaned, *(CleanOutput(left=left) for left in found)])


_LIST_OURS = """
ls -d /run/netns/nm-* /var/lib/nearmetal/machines/nm-* 2>/dev/null
find /sys/fs/cgroup -maxdepth 2 -type d -name 'nearmetal-nm-*' 2>/dev/null
:"""
_TOKEN = re.compile(r"nm-([0-9a-f]{6})\b")


async def _find_unknown(name: str, open_site: Sites, known: Set[str]) -> tuple[str, ...]:
    try:
        site = await open_site(name)
        lines = (await run_checked(site, "sh", "-c", _LIST_OURS)).decode().splitlines()
    except NearmetalError as error:
        return (f"host {name}: {describe_place(error)}",)
    ours = [line for line in lines if (token := _TOKEN.search(line)) and token[1] not in known]
    why = "in no ledger of this host: another's, or its ledger is lost"
    return tuple(f"{line} on {name} ({why})" for line in ours)


async def put_right(paths: Sequence[Path], say: Say = ignore_text) -> CleanOutput:
    """Replay these ledgers, whose owners are dead. One that cannot be, as one of another host, is told, and keeps none
    from the others."""
    return _sum([await _replay(path, say) for path in paths])


async def _replay(path: Path, say: Say) -> CleanOutput:
    try:
        try:
            ledger = Ledger(path)
        except (BadInput, OfAnotherHost) as error:
            return CleanOutput(ledgers=1, left=(str(error),))
        except HostCannot:
            return CleanOutput(in_use=1)  # somebody has taken it since: who owns it, or who cleans as well
        with closing(ledger):
            async with meanwhile(say, partial(_still, ledger)):
                await orphans.wait_settled(path.stem)
                ledger.settle_other_boots(LocalSite().boot_id)
                before = ledger.outstanding()
                async with aclosing(Sites(before.hosts)) as open_site:
                    cleared = await Lab(path.stem, ledger, open_site).clear()
                after = ledger.outstanding()
    except OSError as error:
        return CleanOutput(ledgers=1, left=(system_errors.in_full(error),))
    removed = tuple(f"{h.kind} {h.name}" for h in before.handles if h not in after.handles)
    return CleanOutput(ledgers=1, removed=removed, restored=cleared.restored, left=tuple(map(str, cleared.left)))


def _still(ledger: Ledger) -> str:
    still = ledger.outstanding()
    # What was changed in a machine goes with it.
    things = still.made or still.changed or ["it is nearly done"]
    return f"still putting right what a dead run left: {', '.join(things)}"


def _sum(all_cleaned: Sequence[CleanOutput]) -> CleanOutput:
    return CleanOutput(
        ledgers=sum(one.ledgers for one in all_cleaned),
        removed=tuple(what for one in all_cleaned for what in one.removed),
        restored=tuple(what for one in all_cleaned for what in one.restored),
        left=tuple(what for one in all_cleaned for what in one.left),
        in_use=sum(one.in_use for one in all_cleaned),
        alive=tuple(what for one in all_cleaned for what in one.alive),
    )
