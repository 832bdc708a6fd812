"""Treatments on a machine of any environment: what speaks against one, how one is made to hold, what it changes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from nearmetal import plugins
from nearmetal.lab.cpus.allocation import Share
from nearmetal.lab.lab import Lab
from nearmetal.lab.stage import LabStage
from nearmetal.model import (
    Environment,
    EnvironmentSpec,
    Finding,
    Level,
    LinkSpec,
    Machine,
    MachineSpec,
    Provision,
    Site,
)
from nearmetal.run import machine_creation
from nearmetal.run.boot_state import ProvisionedBoot
from nearmetal.study.resolve import resolve_treatments
from nearmetal.study.study_file import read

LEVELS: tuple[tuple[str, Level], ...] = (("offload", False), ("offload", "tx,sg"), ("contention", "cpu"))
"""Of our own treatments, but for isolation, which may be the whole host's."""
THEIRS: tuple[tuple[str, Level], ...] = (("niceness", 10),)
"""Of third parties' that the tests know."""

_NEIGHBOURS = """
name = "neighbours"
[factors]
environment = ["host"]
[[workloads]]
name = "nothing"
kind = "sysbench"
test = "cpu"
"""


def installed() -> list[tuple[str, Level]]:
    names = plugins.list_names("treatments")
    return [(name, level) for name, level in (*LEVELS, *THEIRS) if name in names]


async def refusal(
    environment: Environment, spec: EnvironmentSpec, provision: Provision, machine: MachineSpec, site: Site
) -> Finding | None:
    """What speaks against such a machine before anything is made; None when it can be had."""
    found = await environment.check(spec.model_copy(update={"provision": provision}), machine, site)
    return next((one for one in found if not one.ok and one.fatal), None)


def stage(lab: Lab, server: Machine, spec: MachineSpec, cpus: list[int]) -> LabStage:
    return LabStage((server,), (), dict(lab.sites), spec, LinkSpec(), "shared", {server.name: 0}, {server.name: cpus})


async def runs_where_it_is_to(stage: LabStage) -> None:
    """As a workload that knows nothing of isolation: what serves and what is measured is on the CPU kept free."""
    (server,) = stage.servers
    kept = str(max(stage.cpus[server.name]))
    service = await stage.serve(server, ["sleep", "600"])
    try:
        (ended,) = await stage.together([(server, ["grep", "Cpus_allowed_list", "/proc/self/status"])], 60)
        assert ended.text.split()[-1] == kept
        found = await stage.verify_placement()
        assert found.ok, found.reason
        programs = [{"program": "grep", "cpus": kept}, {"program": "sleep", "cpus": kept}]
        assert found.values == {server.name: {"cpu": int(kept), "programs": programs}}
    finally:
        assert (await service.stop()).status != 0
    assert not await service.alive()


async def cards(machine: Machine) -> list[str]:
    """All that ethtool tells of the features of its data link, at the ends that are known."""
    told = [(await machine.exec(["ethtool", "-k", machine.interface])).text]
    if machine.peer is not None:
        namespace, _, interface = machine.peer.rpartition("/")
        outside = ["ip", "netns", "exec", namespace, "ethtool", "-k", interface]
        told.append((await machine.site.exec(outside)).text)
    return told


@asynccontextmanager
async def neighbours(lab: Lab, spec: MachineSpec, cpus: str) -> AsyncIterator[None]:
    """What is to go on beside a server of this spec, started as a run does it, and seen to go on. Ended with us."""
    study = read(_NEIGHBOURS, "neighbours.toml")
    (resolved,) = resolve_treatments(study)
    booted = ProvisionedBoot(resolved.model_copy(update={"server": spec}))
    try:
        await machine_creation.start_neighbours(booted, Share((cpus,), ""), lab)
        yield
        for _, readback in await booted.surroundings.verify():
            assert readback.ok, readback.reason
    finally:
        for handle in booted.handles:
            await lab.destroy(handle)
