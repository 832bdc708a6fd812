"""A CPU kept free on machines of every environment for a workload that knows nothing of it, and given back; afterwards
the whole host is as it was before.

Alone, because a machine that shares the host's kernel has everybody on this host moved, and the whole host is looked
at.
"""

import os

import pytest

from nearmetal import cpu_lists
from nearmetal.lab import probe
from nearmetal.lab.lab import Lab
from nearmetal.lab.machines import kernel
from nearmetal.model import Environment, EnvironmentSpec, Level, Machine, MachineSpec, Provision
from nearmetal.treatments.isolation import plugin
from tests.live import task_placement
from tests.live.leftovers import after_a_moment
from tests.live.snapshot import changed, placement, snapshot

from . import machine_treatments
from .conftest import SPEC, laboratory, maker, place

HOST_CPUS = sorted(os.sched_getaffinity(0))[:2]

pytestmark = [
    pytest.mark.alone,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(len(HOST_CPUS) < 2, reason="of one CPU none can be kept free"),
]

LEVELS: tuple[Level, ...] = ("kernel+user", "user")
"""Until one can be had."""


async def test_a_cpu_is_kept_free_and_given_back(
    environment: Environment, spec: EnvironmentSpec, provision: Provision
) -> None:
    before = snapshot()
    async with laboratory(environment, spec) as lab:
        for level in LEVELS:
            shaped = plugin.shape(SPEC.model_copy(update={"vcpus": 2}), level)
            site = await lab.site(place(environment))
            if refusal := await machine_treatments.refusal(environment, spec, provision, shaped, site):
                assert refusal.detail and refusal.remedy
                assert lab.machines() == []
                continue
            handle, machine = await maker(lab, spec, environment, provision)(shaped, cpu_lists.show(HOST_CPUS))
            if await _kept_free_and_given_back(lab, machine, shaped, level):
                break
            await lab.destroy(handle)
    assert after_a_moment(lambda: changed(before, snapshot())) == []


async def _kept_free_and_given_back(lab: Lab, machine: Machine, spec: MachineSpec, level: Level) -> bool:
    """Whether it held. Where it did not, that was said, with the reason."""
    is_hosts = kernel.is_its_hosts(machine)
    await probe.ensure(machine)
    stage = machine_treatments.stage(lab, machine, spec, HOST_CPUS if is_hosts else [0, 1])

    async def look() -> dict[str, str]:
        return placement() if is_hosts else await task_placement.snapshot(machine)

    before = await look()
    applied = await lab.apply(plugin.changes(stage, level))
    readback = await plugin.verify(stage, level)
    holds = readback.ok and not applied.refused
    assert holds or (level == "kernel+user" and (readback.reason or applied.refused))
    if holds:
        await machine_treatments.runs_where_it_is_to(stage)
    during = await look()
    assert [name for name, value in before.items() if during.get(name, value) != value]
    assert {undone.outcome for undone in await lab.undo()} <= {"restored", "already so"}
    after = await look()
    both = before.keys() & after.keys()
    assert {name: after[name] for name in both} == {name: before[name] for name in both}
    return holds
