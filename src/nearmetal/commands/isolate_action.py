"""What the commands about isolating CPUs of this host do."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from rich.console import Console

from nearmetal import cpu_lists
from nearmetal.commands.by_hand import own_failures_apart
from nearmetal.console.printing import console_for, print_json
from nearmetal.errors import ExitCode, HostCannot
from nearmetal.isolate import active_isolation, documents, isolation_changes
from nearmetal.isolate import host as hosts
from nearmetal.isolate.active_isolation import ActiveChange
from nearmetal.isolate.host import Bystanders, Cpusets, Host
from nearmetal.lab.changes.change_applier import UndoOutcome
from nearmetal.lab.cpus.free_cpus import CPUSET
from nearmetal.lab.local_site import BoundCommands, LocalSite
from nearmetal.lab.process_locks import hold_measuring_lock
from nearmetal.model import Change
from nearmetal.system.interrupts import run_until_done

BOOT_AGAIN = "boot this host again for the kernel's part"
_OFF = "nearmetal isolate off"
_TOLD = {"bystanders": "everybody else", "cpuset": "programs"}
"""Changes whose target says nothing to people."""


def plan_isolation(cpus: str | None, as_json: bool) -> None:
    run_until_done(_plan_on_site(LocalSite(), cpus, as_json))


@dataclass(frozen=True)
class _IsolationPlan:
    """What `isolate on` would do for these CPUs, and what stands already."""

    host: Host
    wanted: tuple[int, ...]
    there: Bystanders
    cpusets: Cpusets
    held: Sequence[Change]

    @property
    def stands(self) -> str:
        return active_isolation.isolated_cpus(self.held)

    def in_words(self, change: Change) -> str:
        return isolation_changes.describe_change(change, self.host, self.there, self.cpusets)


async def _plan_on_site(site: LocalSite, cpus: str | None, as_json: bool) -> None:
    host = await hosts.survey_host(site)
    wanted = hosts.choose_cpus(cpus, host)
    planned = _IsolationPlan(
        host=host,
        wanted=wanted,
        there=await hosts.find_bystanders(site, site.probe, wanted),
        cpusets=await hosts.read_cpusets(site, site.probe, wanted),
        held=await active_isolation.held_changes(site, active_isolation.ledger_path()),
    )
    changes = (
        []
        if planned.stands
        else isolation_changes.list_changes(host, wanted, planned.cpusets, site.probe, required=False)
    )
    if as_json:
        print_json(_make_document(planned, changes))
    elif planned.stands:
        _say_stands(planned)
    else:
        _say_planned(planned, changes)


def _make_document(planned: _IsolationPlan, changes: Sequence[Change]) -> documents.IsolatePlan:
    host = planned.host
    return documents.IsolatePlan(
        cpus=cpu_lists.show(planned.wanted),
        stands=planned.stands,
        topology=tuple(
            documents.Cpu(cpu=cpu.number, siblings=cpu.siblings, package=cpu.package, governor=cpu.governor)
            for cpu in host.cpus
        ),
        isolated=host.isolated,
        nohz_full=host.nohz_full,
        changes=tuple(
            documents.PlannedChange(kind=one.kind, target=one.target, words=planned.in_words(one)) for one in changes
        ),
        way=None if planned.stands else _make_way(planned.cpusets),
        boot=documents.Boot(
            arguments=isolation_changes.make_boot_change(planned.wanted).after, grub=host.can_tell_grub
        ),
        movable=planned.there.movable,
        fixed=planned.there.fixed,
        notes=tuple(isolation_changes.list_notes(host, planned.wanted)),
    )


def _say_stands(planned: _IsolationPlan) -> None:
    console = console_for(False)
    _say_topology(planned.host, cpu_lists.parse(planned.stands), "isolated", console)
    already = f"\nCPU {planned.stands} is kept free already: `isolate on` adds nothing. For other CPUs, first: {_OFF}"
    console.print(already, soft_wrap=True)


def _say_planned(planned: _IsolationPlan, changes: Sequence[Change]) -> None:
    console = console_for(False)
    _say_topology(planned.host, planned.wanted, "to be isolated", console)
    console.print("\n`isolate on` changes, until `isolate off`:")
    for change in changes:
        console.print(f"  {planned.in_words(change)}", soft_wrap=True)
    console.print(isolation_changes.describe_way(planned.cpusets), soft_wrap=True)
    console.print("\nwith --boot, and after the next boot of this host:")
    console.print(f"  {planned.in_words(isolation_changes.make_boot_change(planned.wanted))}", soft_wrap=True)
    if not planned.host.can_tell_grub:
        console.print("  this host has no update-grub: set these arguments by hand in its boot loader")
    if planned.held:
        console.print("  the boot loader has been told already")
    for note in isolation_changes.list_notes(planned.host, planned.wanted):
        console.print("note", style="yellow", end=": ")
        console.print(note, soft_wrap=True)


def _say_topology(host: Host, marked: Iterable[int], what: str, console: Console) -> None:
    for cpu in host.cpus:
        shared = [one for one in cpu.siblings if one != cpu.number]
        core = f"shares its core with CPU {cpu_lists.show(shared)}" if shared else "has a core of its own"
        mark = f"  <- {what}" if cpu.number in marked else ""
        console.print(f"CPU {cpu.number}, package {cpu.package}, {core}{mark}")


def _make_way(cpusets: Cpusets) -> documents.MoveMethod:
    return documents.MoveMethod(
        by="affinities" if cpusets.unfit else "cpuset", words=isolation_changes.describe_way(cpusets)
    )


def isolate_cpus(cpus: str | None, boot: bool, strict: bool, as_json: bool) -> int:
    return run_until_done(_isolate_on_site(LocalSite(), cpus, boot, strict, as_json))


async def _isolate_on_site(site: LocalSite, cpus: str | None, boot: bool, strict: bool, as_json: bool) -> int:
    host = await hosts.survey_host(site)
    wanted = hosts.choose_cpus(cpus, host)
    require_root()
    cpusets = await hosts.read_cpusets(site, site.probe, wanted)
    changes = isolation_changes.list_changes(host, wanted, cpusets, site.probe, strict)
    if boot:
        changes.insert(0, _make_grub_change(host, wanted))
    with hold_measuring_lock():
        applied = await active_isolation.isolate_cpus(changes, BoundCommands(site), active_isolation.ledger_path())
    warnings = [active_isolation.strip_site(warning.text) for warning in applied.warnings]
    unmade = [CPUSET.describe_unmet(change) for change in changes if change.kind == "cpuset"]
    if any(unmet in warning for unmet in unmade for warning in warnings):
        cpusets = replace(cpusets, unfit="it could not be made")
    if as_json:
        print_json(
            documents.IsolateOn(
                cpus=cpu_lists.show(wanted),
                way=_make_way(cpusets),
                warnings=tuple(warnings),
                reboot=bool(applied.reboot),
            )
        )
    else:
        _say_applied(wanted, cpusets, warnings, bool(applied.reboot))
    return ExitCode.NOT_ALL_OF_IT if warnings else ExitCode.DONE


def _say_applied(wanted: Iterable[int], cpusets: Cpusets, warnings: Sequence[str], reboot: bool) -> None:
    console = console_for(False)
    for warning in warnings:
        console.print("not all of it", style="yellow", end=": ")
        console.print(warning, soft_wrap=True)
    kept = f"CPU {cpu_lists.show(wanted)} is kept free until `{_OFF}`"
    console.print(f"as far as that goes, {kept}" if warnings else kept)
    console.print(isolation_changes.describe_way(cpusets), soft_wrap=True)
    console.print("run there what is to have it: nearmetal isolate exec -- PROGRAM")
    if reboot:
        console.print(BOOT_AGAIN)


def _make_grub_change(host: Host, wanted: tuple[int, ...]) -> Change:
    change = isolation_changes.make_boot_change(wanted)
    if not host.can_tell_grub:
        remedy = f"leave out --boot, and set by hand in its boot loader: {change.after}"
        raise HostCannot("this host has no update-grub, by which kernel arguments are set", "--boot", remedy)
    return change


def require_root() -> None:
    if os.geteuid() != 0:
        raise HostCannot("only root may isolate CPUs", "this host", "run nearmetal as root")


def release_cpus(as_json: bool) -> int:
    return run_until_done(_release_on_site(LocalSite(), as_json))


async def _release_on_site(site: LocalSite, as_json: bool) -> int:
    path = active_isolation.ledger_path()
    require_root()
    with hold_measuring_lock():
        undone = await active_isolation.release_cpus(BoundCommands(site), path)
    reboot = any(one.change.kind == "boot" for one in undone) and "nohz_full" in " ".join(
        (await hosts.survey_host(site)).arguments
    )
    done = documents.IsolateOff(
        restored=_list_undone(undone, "restored", "already so", "gone"),
        left=_list_undone(undone, "left"),
        failed=_list_undone(undone, "failed"),
        reboot=reboot,
    )
    if as_json:
        print_json(done)
    else:
        console = console_for(False)
        for told in done.left:
            console.print(f"changed by somebody else meanwhile, and left: {told}", soft_wrap=True)
        for told in done.failed:
            console.print(f"could not be put back: {told}", soft_wrap=True)
        console.print(f"{len(done.restored)} values are as they were" if undone else "nothing is isolated")
        if reboot:
            console.print("boot this host again to be rid of the kernel's part")
    if done.failed:
        return ExitCode.HOST_CANNOT
    return ExitCode.NOT_ALL_OF_IT if done.left else ExitCode.DONE


def _list_undone(undone: Iterable[UndoOutcome], *outcomes: str) -> tuple[str, ...]:
    return tuple(active_isolation.strip_site(one.told).rstrip(": ") for one in undone if one.outcome in outcomes)


def become_program(program: Sequence[str]) -> int:
    """This process becomes the program, on the isolated CPUs and no others. Returns only when that fails."""
    return own_failures_apart(lambda: _replace_process(LocalSite(), program))


def _replace_process(site: LocalSite, program: Sequence[str]) -> NoReturn:
    require_root()
    words = [*run_until_done(_list_prefix(site)), *program]
    os.execv(words[0], words)


async def _list_prefix(site: LocalSite) -> Sequence[str]:
    held = await active_isolation.held_changes(site, active_isolation.ledger_path())
    if not active_isolation.isolated_cpus(held):
        raise HostCannot("no CPU is isolated to run it on", remedy="first: nearmetal isolate on")
    return await active_isolation.list_prefix(site, held, site.probe)


def show_status(as_json: bool) -> int:
    return run_until_done(_show_status_of(LocalSite(), as_json))


async def _show_status_of(site: LocalSite, as_json: bool) -> int:
    """Not all of it, when something is not as it was set any more, or never was."""
    host = await hosts.survey_host(site)
    stands = await active_isolation.list_active(site, active_isolation.ledger_path())
    cpus = active_isolation.isolated_cpus([one.change for one in stands])
    holds = all(one.state == "holds" for one in stands)
    if as_json:
        print_json(
            documents.IsolateStatus(
                on=bool(stands),
                cpus=cpus,
                holds=holds,
                kernel=documents.ByKernel(isolated=host.isolated, nohz_full=host.nohz_full),
                changes=tuple(
                    documents.Stands(kind=one.change.kind, target=one.change.target, now=one.now, state=one.state)
                    for one in stands
                ),
            )
        )
    else:
        _say_status(host, stands, cpus)
    return ExitCode.DONE if holds else ExitCode.NOT_ALL_OF_IT


def _say_status(host: Host, stands: Sequence[ActiveChange], cpus: str) -> None:
    console = console_for(False)
    console.print(
        f"by the kernel since it booted: isolated {host.isolated or 'none'}, nohz_full {host.nohz_full or 'none'}"
    )
    if not stands and os.geteuid() != 0:
        console.print("kept free by nearmetal: only root is told")
        return
    console.print(f"kept free by nearmetal: CPU {cpus}" if cpus else "kept free by nearmetal: none")
    for one in stands:
        what = _TOLD.get(one.change.kind, f"{one.change.kind} {one.change.target}")
        console.print(f"  {one.state:14} {what}: {one.now}", soft_wrap=True)
    if not stands:
        return
    escaped = sum(one.state != "holds" for one in stands)
    if escaped:
        again = f"what could be moved is moved again by: {_OFF}, then on"
        console.print(f"{escaped} of {len(stands)} do not hold; {again}", soft_wrap=True)
    else:
        console.print(f"all {len(stands)} hold" if len(stands) > 1 else "it holds")
    for one in stands:
        if one.change.kind == "boot" and not set(one.change.after.split()) <= set(host.arguments):
            console.print(BOOT_AGAIN)
