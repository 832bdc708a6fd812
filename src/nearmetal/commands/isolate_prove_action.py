"""What `nearmetal isolate prove` does."""

import statistics
from functools import partial

from nearmetal import cpu_lists
from nearmetal.commands.isolate_action import require_root
from nearmetal.console.printing import console_for, print_json
from nearmetal.errors import HostCannot, Interrupted
from nearmetal.isolate import active_isolation, isolation_changes
from nearmetal.isolate import host as hosts
from nearmetal.isolate import proof as proving
from nearmetal.lab.cpus.noise import Heard
from nearmetal.lab.local_site import BoundCommands, LocalSite
from nearmetal.lab.process_locks import hold_measuring_lock
from nearmetal.model import Change
from nearmetal.report import figures
from nearmetal.system.interrupts import until_interrupted
from nearmetal.workloads.noise import list_values


def prove_isolation(cpus: str | None, rounds: int, seconds: float, as_json: bool) -> None:
    with hold_measuring_lock():
        if not until_interrupted(_prove_on_site(LocalSite(), cpus, rounds, seconds, as_json), console_for(True).print):
            raise Interrupted("it was interrupted, and the CPU is as it was", remedy="run it again")


async def _prove_on_site(site: LocalSite, cpus: str | None, rounds: int, seconds: float, as_json: bool) -> None:
    """Of a standing isolation its CPU against another; else the same CPU before and after, which says more."""
    host = await hosts.survey_host(site)
    path = active_isolation.ledger_path()
    held = await active_isolation.held_changes(site, path)
    stands = active_isolation.isolated_cpus(held) or host.isolated
    wanted = hosts.choose_cpus(cpus or stands or None, host)
    cpu = wanted[-1]

    async def hear_cpu(number: int) -> Heard:
        return await proving.hear_cpu(site, site.probe, number, seconds)

    async def hear_isolated() -> Heard:
        within = await active_isolation.list_prefix(site, await active_isolation.held_changes(site, path), site.probe)
        return await proving.hear_cpu(site, site.probe, cpu, seconds, within)

    if stands and cpu in cpu_lists.parse(stands):
        other = max(one for one in host.numbers if one not in cpu_lists.parse(stands))
        isolated = hear_isolated if active_isolation.isolated_cpus(held) else partial(hear_cpu, cpu)
        pairs = await proving.run_rounds(rounds, partial(hear_cpu, other), isolated)
        what = f"CPU {cpu}, which is isolated, against CPU {other}, which is not"
    else:
        require_root()
        if held:
            raise HostCannot(
                f"CPU {cpu} is not part of what is isolated already",
                "--cpus",
                f"prove CPU {stands}, or first: nearmetal isolate off" if stands else "first: nearmetal isolate off",
            )
        cpusets = await hosts.read_cpusets(site, site.probe, wanted)
        changes = isolation_changes.list_changes(host, wanted, cpusets, site.probe, required=False)
        try:
            pairs = await proving.run_rounds(
                rounds, partial(hear_cpu, cpu), _isolate_while_hearing(changes, site, hear_isolated)
            )
        finally:
            await active_isolation.release_cpus(BoundCommands(site), path)
        what = f"CPU {cpu} isolated against the same CPU before"
    _show_proof(what, pairs, as_json)


def _isolate_while_hearing(changes: list[Change], site: LocalSite, hear: proving.Listen) -> proving.Listen:
    async def listen_isolated() -> Heard:
        await active_isolation.isolate_cpus(changes, BoundCommands(site), active_isolation.ledger_path())
        try:
            return await hear()
        finally:
            await active_isolation.release_cpus(BoundCommands(site), active_isolation.ledger_path())

    return listen_isolated


def _show_proof(what: str, pairs: list[proving.ListeningRound], as_json: bool) -> None:
    proved = proving.make_proof(what, pairs)
    if as_json:
        print_json(proved)
        return
    console = console_for(False)
    console.print(f"{what}, {len(pairs)} rounds:")
    for name, one in proved.differences.items():
        without, isolated = (
            figures.format_quantity(statistics.median(list_values(heard)[name] for heard in heards), one.unit)
            for heards in zip(*((pair.without, pair.isolated) for pair in pairs), strict=True)
        )
        differ = figures.format_difference(one.difference, one.interval, one.unit)
        console.print(f"  {name}: {without} without, {isolated} isolated: {differ}", soft_wrap=True)
    if any(one.interval is not None for one in proved.differences.values()):
        console.print("in brackets the 95 % interval of the difference")
    few = "" if len(pairs) >= proving.DECIDING else f"; {proving.DECIDING} rounds are the fewest that can decide"
    console.print(f"about the time that is lost: {proved.verdict}{few}", soft_wrap=True)
