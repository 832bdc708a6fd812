"""A boot: shape, create, attach, change, verify; its trials; undo, destroy. The experimental unit.

Whatever happens, each of its trials gets a record: with its figures, or with the reason why there are none.
"""

import asyncio
import errno
import hashlib
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from nearmetal import model, plugins
from nearmetal.errors import MachineError, NearmetalError
from nearmetal.lab import probe
from nearmetal.lab.changes.change_applier import UndoNotRecorded
from nearmetal.lab.cpus.allocation import Share
from nearmetal.lab.lab import Lab
from nearmetal.lab.machine_files import require_programs
from nearmetal.lab.stage import LabStage
from nearmetal.run import inspection, machine_creation
from nearmetal.run.blame import Fault, Invalid, blame_plugin, describe_fault, find_blamed, find_fault
from nearmetal.run.boot_state import BootTask, ProvisionedBoot
from nearmetal.run.dashboard_link import wait_while_paused
from nearmetal.run.events import BlockSink, Step, TrialEnded, emit_left
from nearmetal.run.kernel_alignment import align_kernels
from nearmetal.run.services import ServiceSet
from nearmetal.run.trial import TrialTask, keep_artifacts, run_trial
from nearmetal.store.events import BootEnded, BootStarted
from nearmetal.system import system_errors

_NO_MORE_IS_WRITTEN = (*system_errors.FULL, errno.EROFS, errno.EIO)
"""Errors of a disk that end the run: what it has recorded stands, and it can go on once that is mended."""


async def run_boot(task: BootTask, lab: Lab, sink: BlockSink) -> bool:
    """Run what is left of a boot. Its events, a record per trial among them, are the outcome; whether it was paused."""
    was_paused = False
    booted = ProvisionedBoot(
        task.resolved, services=ServiceSet(task.resolved.services, task.files, task.resolved.assignment)
    )
    sink.emit(BootStarted(block=task.block, attempt=task.attempt, treatment=task.boot.treatment))
    left = list(task.trials)
    try:
        await _provision_boot(task, booted, lab, sink)
        while left:
            raise_if_cancelled()
            sink.emit(TrialEnded(record=await run_trial(_make_trial_task(task, booted, left[0]), sink)))
            left.pop(0)
            if left and await wait_while_paused(task.request, sink):
                was_paused = True
                booted.note_interruption()
    except Exception as error:  # a plugin's own fault must not take the run with it; its trace is kept
        if (disk := _find_disk_error(error)) is not None:
            raise disk from None
        for trial in left:
            sink.emit(TrialEnded(record=_draft_failed_record(task, booted, trial, error)))
    finally:
        await _tear_down(booted, lab, sink)
    sink.emit(
        BootEnded(block=task.block, attempt=task.attempt, treatment=task.boot.treatment, phases_ns=dict(booted.phases))
    )
    return was_paused


def _find_disk_error(error: Exception) -> OSError | None:
    """What a disk of this host said that ends the run; a site of ours tells it as the cause of its own error."""
    _, error = find_blamed(error, "")
    said = error.__cause__ if isinstance(error, NearmetalError) else error
    return said if isinstance(said, OSError) and said.errno in _NO_MORE_IS_WRITTEN else None


def raise_if_cancelled() -> None:
    """End here when that was asked for: a wait that was just over when the request came has not passed it on."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def _provision_boot(task: BootTask, booted: ProvisionedBoot, lab: Lab, sink: BlockSink) -> None:
    if task.resumed:
        booted.note_interruption()
    with _emit_step(booted, sink, "create"):
        share = await machine_creation.share_out(booted, lab)
        environment = booted.asked.environment
        is_elsewhere = environment.description.placement == "elsewhere"
        clients = [] if is_elsewhere else await _make_clients(booted, share, lab, ())
        began = time.monotonic_ns()
        with blame_plugin(_name_environment(environment)):
            servers = await machine_creation.make_servers(booted, share, lab)
    with _emit_step(booted, sink, "attach"):
        with blame_plugin(_name_environment(environment)):
            machines = await asyncio.gather(*(lab.attach(handle) for handle in servers))
        if environment.provision == "restart":
            began = time.monotonic_ns()  # what it took to have one that can be restarted is nothing to a restart
            await asyncio.gather(*(machine.reboot() for machine in machines))
        # The servers' own way from nothing, or from the order to restart, to an answer, without the clients'.
        ready = (time.monotonic_ns() - began) / 1e9
        booted.responses["ready"] = model.Response(value=ready, unit="s", better="lower")
        if booted.spec.brings_image:
            await asyncio.gather(*(require_programs(machine, booted.spec.image) for machine in machines))
        if is_elsewhere:
            clients = await _make_clients(booted, share, lab, machines)
        stage = booted.stage = await machine_creation.make_stage(booted, lab, machines, clients)
    with _emit_step(booted, sink, "surround"):
        booted.readback |= await booted.surroundings.join_hosts(booted.asked, lab, stage)
        seed = int(task.boot.trials[0].id[:8], 16)  # of what chance decides in this boot and no other
        await booted.surroundings.lay_link(booted.asked, lab, stage, share.clients, seed=seed)
        await machine_creation.start_neighbours(booted, share, lab)
    with _emit_step(booted, sink, "change"):
        kernels = await _change_machines(task, booted, lab, stage)
    with _emit_step(booted, sink, "facts"):
        await inspection.inspect_machines(task, booted, lab, stage, sink)
    with _emit_step(booted, sink, "verify"):
        for called, treatment, level, those in _list_treatments(booted.asked, stage):
            with blame_plugin(f"the treatment {treatment.name!r}"):
                readback = await treatment.verify(those, level)
            booted.note_readback(called, readback)
        if kernels.values or not kernels.ok:
            booted.note_readback("kernels", kernels)
        for name, readback in await booted.surroundings.verify():
            booted.note_readback(name, readback)


async def _make_clients(
    booted: ProvisionedBoot, share: Share, lab: Lab, servers: Sequence[model.Machine]
) -> list[model.Handle]:
    with _mark_client_errors(), blame_plugin(_name_environment(booted.asked.clients.environment)):
        return await machine_creation.make_clients(booted, share, lab, servers)


@contextmanager
def _mark_client_errors() -> Iterator[None]:
    """A machine that fails in here is no server, whatever its name."""
    try:
        yield
    except MachineError as error:
        error.cause = error.cause or model.Cause.CLIENT_NOT_PROVISIONED
        raise


def _name_environment(environment: model.ResolvedEnvironment) -> str:
    return f"the environment {environment.kind!r}"


def _list_treatments(
    resolved: model.Resolved, stage: LabStage
) -> Iterator[tuple[str, model.Treatment, model.Level, LabStage]]:
    """The treatments to carry out: what each is called in the record, its level, and the machines that have it."""
    of_clients = resolved.clients.treatments
    for name, level in resolved.treatments.items():
        machines = replace(stage, clients=()) if name in of_clients else stage
        yield name, plugins.load("treatments", name), level, machines
    for name, level in of_clients.items():
        yield f"clients.{name}", plugins.load("treatments", name), level, replace(stage, servers=())


async def _change_machines(task: BootTask, booted: ProvisionedBoot, lab: Lab, stage: LabStage) -> model.Readback:
    """Make the changes of treatments, then kernels alike; what is read back of the latter."""
    wanted: list[model.Change] = []
    for _, treatment, level, machines in _list_treatments(booted.asked, stage):
        with blame_plugin(f"the treatment {treatment.name!r}"):
            wanted += treatment.changes(machines, level)
    applied = await lab.apply(wanted)
    booted.warnings += applied.warnings
    if applied.refused:
        raise Invalid("; ".join(applied.refused))
    for machine in stage.servers:
        if machine.name in applied.reboot:
            await machine.reboot()
            await probe.ensure(machine)
    # After a reboot, and without what treatments have set by themselves.
    taken = {(change.on, change.target) for change in wanted if change.kind == "sysctl"}
    handles = {handle.name: handle for handle in booted.handles}
    booted.kernels, readback = await align_kernels(task.kernel_table, booted.asked, handles, lab, stage, taken)
    return readback


@contextmanager
def _emit_step(booted: ProvisionedBoot, sink: BlockSink, name: str) -> Iterator[None]:
    sink.emit(Step(name=name, state="begins"))
    began = time.monotonic_ns()
    try:
        yield
    finally:
        booted.phases[name] = time.monotonic_ns() - began
    sink.emit(Step(name=name, state="ended"))


async def _tear_down(booted: ProvisionedBoot, lab: Lab, sink: BlockSink) -> None:
    """Put back and remove. What cannot be is told and stays in the ledger. UndoNotRecorded, when all that is done."""
    await booted.services.end_services()
    with _emit_step(booted, sink, "undo"):
        left = [undone.left for undone in await lab.undo_first() if undone.outcome == "left"]
    with _emit_step(booted, sink, "destroy"):
        left += await lab.take_up()
        # The ledger, not `booted`, knows also of a machine whose creation failed half-way.
        left += await lab.destroy_all(lab.machines())
    # What was changed in a machine that is removed now is no longer owed.
    unnoted = None
    try:
        again = await lab.undo()
    except UndoNotRecorded as error:
        again, unnoted = error.undone, error
    left += [undone.left for undone in again if undone.outcome in ("left", "failed")]
    emit_left(sink, left, lab.left_told)
    if unnoted is not None:
        raise unnoted


def address_trial(block: int, attempt: int, treatment: model.Assignment, trial: model.TrialPlan) -> model.TrialAddress:
    return model.TrialAddress(
        id=trial.id,
        block=block,
        attempt=attempt,
        position=trial.position,
        repeat=trial.repeat,
        treatment=treatment,
        workload=trial.workload,
    )


def _address_of_trial(task: BootTask, trial: model.TrialPlan) -> model.TrialAddress:
    return address_trial(task.block, task.attempt, task.boot.treatment, trial)


def derive_trial_seed(plan: str, block: int, attempt: int, workload: str, repeat: int) -> int:
    """Of what chance decides in a trial: alike for the treatments of a block, whose trials are compared in pairs.

    `plan` is the digest that the study had when it was planned.
    """
    return int(hashlib.sha256(repr((plan, block, attempt, workload, repeat)).encode()).hexdigest()[:8], 16)


def _make_trial_task(task: BootTask, booted: ProvisionedBoot, trial: model.TrialPlan) -> TrialTask:
    if booted.stage is None or booted.liveness is None:
        raise AssertionError("trials run on a stage that was looked at")
    return TrialTask(
        address=_address_of_trial(task, trial),
        workload=(workload := booted.asked.workload(trial.workload)),
        under=None if workload.under is None else booted.asked.workload(workload.under),
        stage=replace(
            booted.stage, seed=derive_trial_seed(task.plan, task.block, task.attempt, trial.workload, trial.repeat)
        ),
        observe=booted.asked.observe,
        treatments=tuple(_list_treatments(booted.asked, booted.stage)),
        services=booted.services,
        surroundings=booted.surroundings,
        kernels=booted.kernels,
        liveness=booted.liveness,
        clocks=booted.asked.clients.clocks,
        is_pretended=booted.asked.is_pretended,
        hosts=_list_hosts(booted),
        artifacts=task.artifacts,
        record=_draft_record(task, booted, trial, model.TrialStatus.OK),
    )


def _list_hosts(booted: ProvisionedBoot) -> frozenset[str]:
    """Other hosts on which machines lie; one that is itself a machine of the trial is no host of it."""
    environment, clients = booted.asked.environment, booted.asked.clients
    placed = {
        booted.spec.host: environment.description.placement,
        **dict.fromkeys(clients.places, clients.environment.description.placement),
    }
    return frozenset(host for host, placement in placed.items() if host != "local" and placement != "host")


def _draft_record(
    task: BootTask,
    booted: ProvisionedBoot,
    trial: model.TrialPlan,
    status: model.TrialStatus,
    fault: Fault | None = None,
) -> model.TrialRecord:
    found = describe_fault(fault)
    servers = booted.stage.servers if booted.stage else ()
    return model.TrialRecord(
        trial=_address_of_trial(task, trial),
        site=booted.spec.host,
        boot=_record_boot(booted, servers[0]) if servers else None,
        machines=tuple(
            model.MachineRecord(
                role="server" if machine in servers else "client",
                environment=(booted.asked if machine in servers else booted.asked.clients).environment.level,
                boot_id=machine.boot_id,
                cpus=booted.cpusets[machine.name],
                cpu_kinds=booted.name_cpu_kinds(machine),
                host=machine.site.name,
            )
            for machine in (*servers, *(booted.stage.clients if booted.stage else ()))
        ),
        status=status,
        reason=found["reason"],
        blame=found["blame"],
        cause=found["cause"],
        observed_family=booted.observed_family,
        phases_ns=dict(booted.phases),
        responses=dict(booted.responses),
        readback=dict(booted.readback),
        warnings=tuple(booted.warnings),
    )


def _record_boot(booted: ProvisionedBoot, server: model.Machine) -> model.BootRecord:
    how, snapshot = booted.asked.environment.provision, booted.find_handle(server).image.snapshot
    return model.BootRecord(id=server.boot_id, how=how, snapshot=snapshot)


def _draft_failed_record(
    task: BootTask, booted: ProvisionedBoot, trial: model.TrialPlan, error: Exception
) -> model.TrialRecord:
    status, said = model.TrialStatus.FAILED, {}
    _, what = find_blamed(error, "")
    if isinstance(what, Invalid):
        status = model.TrialStatus.INVALID
    elif isinstance(what, MachineError):
        status = model.TrialStatus.LOST
    elif not isinstance(what, NearmetalError):
        said = {"traceback.txt": "".join(traceback.format_exception(what)).encode()}
    clients = {handle.name for handle in booted.handles if handle.role == "client"}
    record = _draft_record(task, booted, trial, status, find_fault(error, "its boot", clients, _list_hosts(booted)))
    return record.model_copy(update={"responses": {}, "artifacts": keep_artifacts(task.artifacts, trial.id, said)})
