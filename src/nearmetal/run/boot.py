"""A boot: shape, create, attach, change, verify; its trials; undo, destroy. The experimental unit.

Whatever happens, each of its trials gets a record: with its figures, or with the reason why there are none.
"""

import asyncio
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nearmetal import factors as words
from nearmetal import plugins
from nearmetal.errors import MachineError, NearmetalError
from nearmetal.factors import Asked
from nearmetal.lab import cpus, kernel, link, network, probe
from nearmetal.lab import share as shares
from nearmetal.lab.lab import Lab
from nearmetal.lab.site import available_cpus
from nearmetal.lab.stage import LabStage, offsets
from nearmetal.model import (
    BootPlan,
    BootRecord,
    Change,
    EnvironmentSpec,
    Handle,
    Machine,
    MachineRecord,
    MachineSpec,
    Provision,
    Reached,
    Readback,
    Response,
    SharedNetwork,
    Site,
    Study,
    TrialAddress,
    TrialPlan,
    TrialRecord,
    TrialStatus,
    Warned,
)
from nearmetal.run import placement, shape, verify
from nearmetal.run.events import BootEnded, BootStarted, FactsSeen, LeftBehind, Step, Stream, TrialEnded
from nearmetal.run.surroundings import Neighbour, Surroundings
from nearmetal.run.trial import TrialTask, run_trial
from nearmetal.study import provision_of

HASHED = ("/usr/sbin/lighttpd", "/usr/bin/iperf3", "/usr/bin/sysbench", "/usr/bin/php-cgi", "/usr/sbin/sshd")
"""The programs under test: their hashes show in the fairness diff that they are the same everywhere."""

NEIGHBOURHOOD = "host"
"""The kind of machine that a server's neighbours are."""


class Invalid(NearmetalError):
    """The set-up is not as declared; the boot's trials are kept as invalid."""


@dataclass(frozen=True)
class BootTask:
    study: Study
    block: int
    attempt: int
    boot: BootPlan
    trials: tuple[TrialPlan, ...]
    """Those that are not done yet."""
    artifacts: Path
    resumed: bool = False
    """An interruption fell into this boot: what is left of it runs in a boot of its own, and says so."""


@dataclass
class Booted:
    """What a boot has become so far; filled in step by step, so that a record can tell how far it came."""

    asked: Asked
    environment: EnvironmentSpec
    provision: Provision
    spec: MachineSpec
    phases: dict[str, int] = field(default_factory=dict)
    handles: list[Handle] = field(default_factory=list)
    cpusets: dict[str, str] = field(default_factory=dict)
    stage: LabStage | None = None
    surroundings: Surroundings = field(default_factory=Surroundings)
    readback: dict[str, Any] = field(default_factory=dict)
    warnings: list[Warned] = field(default_factory=list)
    responses: dict[str, Response] = field(default_factory=dict)
    """Of the boot itself: what it took to get ready, and the memory it costs."""


async def run_boot(task: BootTask, lab: Lab, stream: Stream) -> None:
    """Run what is left of a boot. Its events, a record per trial among them, are the outcome."""
    booted = _shaped(task)
    stream.emit(BootStarted(block=task.block, attempt=task.attempt, treatment=task.boot.treatment))
    left = list(task.trials)
    try:
        await _provision(task, booted, lab, stream)
        while left:
            heed_cancellation()
            stream.emit(TrialEnded(record=await run_trial(_trial_task(task, booted, left[0]), stream)))
            left.pop(0)
    except NearmetalError as error:
        for trial in left:
            stream.emit(TrialEnded(record=_without_figures(task, booted, trial, error)))
    finally:
        await _tear_down(booted, lab, stream)
    stream.emit(
        BootEnded(block=task.block, attempt=task.attempt, treatment=task.boot.treatment, phases_ns=dict(booted.phases))
    )


def heed_cancellation() -> None:
    """End here when that was asked for: a wait that was just over when the request came has not passed it on."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


# ── Shape ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _shaped(task: BootTask) -> Booted:
    """Pure: what is to be made."""
    asked = words.ask(task.study, task.boot.treatment, plugins.names("treatments"))
    environment = task.study.environment(asked.environment)
    return Booted(asked, environment, provision_of(task.study, environment), shape.server(asked))


# ── Create, attach, change, verify ────────────────────────────────────────────────────────────────────────────────


async def _provision(task: BootTask, booted: Booted, lab: Lab, stream: Stream) -> None:
    if task.resumed:
        booted.warnings.append(Warned(code="interrupted", text="the run was interrupted within this boot's block"))
    with _step(booted, stream, "create"):
        share = await _share(booted, lab)
        clients = await _create_clients(task, booted, share, lab)
        began = time.monotonic_ns()
        servers = await _create_servers(booted, share, lab)
    with _step(booted, stream, "attach"):
        machines = await asyncio.gather(*(lab.attach(handle) for handle in servers))
        # The servers' own way from nothing to an answer: the clients were there before.
        ready = (time.monotonic_ns() - began) / 1e9
        booted.responses["ready"] = Response(value=ready, unit="s", better="lower")
        stage = booted.stage = await _stage(booted, lab, machines, clients)
    with _step(booted, stream, "surround"):
        booted.readback |= await booted.surroundings.join(booted.asked, task.study, lab)
        await booted.surroundings.lay(booted.asked, lab, stage, share.clients)
        await _crowd(task, booted, share, lab)
    with _step(booted, stream, "change"):
        await _change(booted, lab, stage)
    with _step(booted, stream, "facts"):
        await _look(task, booted, lab, stage, stream)
    with _step(booted, stream, "verify"):
        for treatment, level in shape.treatments(booted.asked):
            _note(booted, treatment.name, await treatment.verify(stage, level))
        for name, readback in await booted.surroundings.verify():
            _note(booted, name, readback)


async def _share(booted: Booted, lab: Lab) -> cpus.Share:
    """Who gets which CPUs of the site."""
    host, clients_host = booted.spec.host, booted.asked.clients.host
    available = await available_cpus(await lab.site(host))
    elsewhere = None if clients_host == host else await available_cpus(await lab.site(clients_host))
    return shape.share(booted.asked, booted.spec, available, elsewhere)


async def _create_servers(booted: Booted, share: cpus.Share, lab: Lab) -> list[Handle]:
    site = await lab.site(booted.spec.host)
    hung = link.bridge(booted.asked.link, "server")
    creations = [
        lab.create(booted.environment, booted.spec, "server", booted.provision, cpuset, site, hung)
        for cpuset in share.servers
    ]
    return await _all(booted, share.servers, creations)


async def _create_clients(task: BootTask, booted: Booted, share: cpus.Share, lab: Lab) -> list[Handle]:
    clients = booted.asked.clients
    site = await lab.site(clients.host)
    environment = task.study.environment(clients.environment)
    spec = shape.client(booted.spec, share)
    hung = link.bridge(booted.asked.link, "client")
    shared = await _shared(booted, site, lab)
    provision = shape.client_provision(environment)
    creations = [
        lab.create(environment, spec, "client", provision, share.clients, site, hung, shared)
        for _ in range(clients.count)
    ]
    return await _all(booted, [share.clients] * clients.count, creations)


async def _shared(booted: Booted, clients: Site, lab: Lab) -> SharedNetwork | None:
    """The clients' site's own network, where that is the way to servers that do not hang on the lab's switch."""
    if not isinstance(plugins.load("environments", booted.environment.kind), Reached):
        return None
    servers = await lab.site(booted.spec.host)
    return await network.facing(str(servers.underlay), clients)


async def _crowd(task: BootTask, booted: Booted, share: cpus.Share, lab: Lab) -> None:
    """Start what goes on beside each server, on its CPUs."""
    site = await lab.site(booted.spec.host)
    kind = task.study.environment(NEIGHBOURHOOD)
    for cpuset in share.servers:
        spec = MachineSpec(image=shape.image_beside(booted.spec), vcpus=len(cpus.parse(cpuset)), memory=2**30)
        for argv in booted.spec.neighbours:
            (handle,) = await _all(booted, [cpuset], [lab.create(kind, spec, "neighbour", "boot", cpuset, site, None)])
            neighbour = await lab.attach(handle)
            booted.surroundings.neighbours.append(Neighbour(argv, await neighbour.spawn(argv)))


async def _all(booted: Booted, cpusets: Sequence[str], creations: Sequence[Any]) -> list[Handle]:
    """Make several machines at once. What was made is remembered for tearing down also when one of them fails."""
    made = await asyncio.gather(*creations, return_exceptions=True)
    handles = [handle for handle in made if isinstance(handle, Handle)]
    booted.handles += handles
    for handle, cpuset in zip(made, cpusets, strict=True):
        if isinstance(handle, BaseException):
            raise handle
        booted.cpusets[handle.name] = cpuset
    return handles


async def _stage(booted: Booted, lab: Lab, servers: list[Machine], client_handles: list[Handle]) -> LabStage:
    clients = await asyncio.gather(*(lab.attach(handle) for handle in client_handles))
    if booted.provision == "restart":
        for machine in servers:
            await machine.reboot()
    machines = [*servers, *clients]
    await asyncio.gather(*(probe.ensure(machine) for machine in machines))
    # Only commands on several machines have to start together; those of one machine need no clock but their own.
    timed = machines if len(clients) > 1 else ()
    return LabStage(
        servers=tuple(servers),
        clients=tuple(clients),
        sites=dict(lab.sites),
        spec=booted.spec,
        link=booted.asked.link,
        connect=booted.asked.clients.connect,
        cpus={machine.name: _numbered(machine, booted) for machine in machines},
        offsets=await offsets(timed, lab.host_boot_id),
    )


def _numbered(machine: Machine, booted: Booted) -> list[int]:
    """A machine's CPUs by its own numbers: with a kernel of its own it counts from 0, else as the host does."""
    given = cpus.parse(booted.cpusets[machine.name])
    if kernel.is_its_hosts(machine):
        return given
    return list(range(booted.spec.vcpus if machine.role == "server" else len(given)))


async def _look(task: BootTask, booted: Booted, lab: Lab, stage: LabStage, stream: Stream) -> None:
    """Read back what the machines are, for validity, the fairness diff, and what a machine's memory costs."""
    for index, server in enumerate(stage.servers):
        facts = await _facts(server)
        if image := _told(booted, server).get("image"):
            facts["image"] = image
        if index == 0:
            stream.emit(FactsSeen(treatment=task.boot.treatment, role="server", facts=facts))
            await _memory_overhead(booted, server, facts)
        _note(booted, "resources", verify.resources(booted.spec, facts, _told(booted, server)))
        _note(booted, "share", await shares.verify(server, booted.spec))
    if stage.clients:
        stream.emit(FactsSeen(treatment=task.boot.treatment, role="client", facts=await _facts(stage.clients[0])))
    await _locate(booted, lab)


def _told(booted: Booted, server: Machine) -> Mapping[str, Any]:
    """What its environment wrote down of a machine."""
    return next(handle.data for handle in booted.handles if handle.name == server.name)


async def _locate(booted: Booted, lab: Lab) -> None:
    """Read back on which CPUs each machine of ours is."""
    found = {
        handle.name: await placement.read(handle, await lab.site(handle.site), booted.cpusets.get(handle.name, ""))
        for handle in booted.handles
    }
    told = {name: readback for name, readback in found.items() if readback is not None}
    if told:
        booted.readback["cpus"] = {name: dict(readback.values) for name, readback in told.items()}
    for name, readback in told.items():
        if not readback.ok:
            raise Invalid(f"{name} is not where it was put: {readback.reason}")


async def _facts(machine: Machine) -> dict[str, Any]:
    hashed = [word for path in HASHED for word in ("--hash", path)]
    ended = await machine.exec([machine.probe, "facts", "--json", *hashed])
    if ended.status != 0:
        raise Invalid(f"the probe cannot tell its facts: {ended.stderr.decode(errors='replace')[-300:]}", machine.name)
    return dict(json.loads(ended.stdout))


async def _memory_overhead(booted: Booted, server: Machine, facts: dict[str, Any]) -> None:
    """What the host holds for the machine beyond what the machine itself uses; 0 where it shares the host's kernel."""
    cost = await server.cost()
    if cost is None:
        return
    beyond = 0
    if not kernel.is_its_hosts(server):
        used = facts["memory"]["total_bytes"] - facts["memory"]["available_bytes"]
        beyond = cost.memory_bytes - used
    booted.responses["memory_overhead"] = Response(value=beyond, unit="B", better="lower", scale="difference")


async def _change(booted: Booted, lab: Lab, stage: LabStage) -> None:
    wanted: list[Change] = []
    for treatment, level in shape.treatments(booted.asked):
        wanted += treatment.changes(stage, level)
    applied = await lab.apply(wanted)
    booted.warnings += applied.warnings
    if applied.refused:
        raise Invalid("; ".join(applied.refused))
    for machine in stage.servers:
        if machine.name in applied.reboot:
            await machine.reboot()
            await probe.ensure(machine)


def _note(booted: Booted, name: str, readback: Readback) -> None:
    booted.readback[name] = dict(readback.values)
    booted.warnings += readback.warnings
    if not readback.ok:
        raise Invalid(f"{name}: {readback.reason}")


@contextmanager
def _step(booted: Booted, stream: Stream, name: str) -> Iterator[None]:
    stream.emit(Step(name=name, state="begins"))
    began = time.monotonic_ns()
    try:
        yield
    finally:
        booted.phases[name] = time.monotonic_ns() - began
    stream.emit(Step(name=name, state="ended"))


# ── Undo, destroy ─────────────────────────────────────────────────────────────────────────────────────────────────


async def _tear_down(booted: Booted, lab: Lab, stream: Stream) -> None:
    """Put back and remove. What cannot be is told and stays in the ledger; it never hides the trials' records."""
    with _step(booted, stream, "undo"):
        left = [undone.told for undone in await lab.undo() if undone.outcome == "left"]
    with _step(booted, stream, "destroy"):
        left += await lab.take_up()
        # The ledger, not `booted`, knows also of a machine whose creation failed half-way.
        ended = await asyncio.gather(*(lab.destroy(handle) for handle in lab.machines()), return_exceptions=True)
    # What was changed in a machine that is removed now is no longer owed.
    left += [undone.told for undone in await lab.undo() if undone.outcome in ("left", "failed")]
    for error in ended:
        if isinstance(error, NearmetalError | OSError):
            left.append(str(error))
        elif error is not None:
            raise error
    for what in left:
        stream.emit(LeftBehind(what=what))


# ── Records ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _address(task: BootTask, trial: TrialPlan) -> TrialAddress:
    return TrialAddress(
        id=trial.id,
        block=task.block,
        attempt=task.attempt,
        position=trial.position,
        repeat=trial.repeat,
        treatment=task.boot.treatment,
        workload=trial.workload,
    )


def _trial_task(task: BootTask, booted: Booted, trial: TrialPlan) -> TrialTask:
    if booted.stage is None:
        raise AssertionError("trials run on a stage")
    return TrialTask(
        address=_address(task, trial),
        workload=next(spec for spec in booted.asked.workloads if spec.name == trial.workload),
        stage=booted.stage,
        observe=booted.asked.observe,
        treatments=tuple(shape.treatments(booted.asked)),
        surroundings=booted.surroundings,
        artifacts=task.artifacts,
        record=_record(task, booted, trial, TrialStatus.OK),
    )


def _record(
    task: BootTask, booted: Booted, trial: TrialPlan, status: TrialStatus, reason: str | None = None
) -> TrialRecord:
    """What is known of a trial from its boot."""
    servers = booted.stage.servers if booted.stage else ()
    return TrialRecord(
        trial=_address(task, trial),
        site=booted.spec.host,
        boot=_boot(booted, servers[0]) if servers else None,
        machines=tuple(
            MachineRecord(
                role="server" if machine in servers else "client",
                environment=booted.asked.environment if machine in servers else booted.asked.clients.environment,
                boot_id=machine.boot_id,
                cpus=booted.cpusets[machine.name],
            )
            for machine in (*servers, *(booted.stage.clients if booted.stage else ()))
        ),
        status=status,
        reason=reason,
        phases_ns=dict(booted.phases),
        responses=dict(booted.responses),
        readback=dict(booted.readback),
        warnings=tuple(booted.warnings),
    )


def _boot(booted: Booted, server: Machine) -> BootRecord:
    return BootRecord(id=server.boot_id, how=booted.provision, snapshot=_told(booted, server).get("snapshot"))


def _without_figures(task: BootTask, booted: Booted, trial: TrialPlan, error: NearmetalError) -> TrialRecord:
    if isinstance(error, Invalid):
        status = TrialStatus.INVALID
    else:
        status = TrialStatus.LOST if isinstance(error, MachineError) else TrialStatus.FAILED
    record = _record(task, booted, trial, status, str(error))
    return record.model_copy(update={"responses": {}})
