"""A trial: prepare, measure while observers listen, verify again. Gives a record, whatever happens."""

import asyncio
import hashlib
import time
import traceback
from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from nearmetal import model, plugins
from nearmetal.config import LIMITS
from nearmetal.errors import MachineLost, NearmetalError, NotProvisioned, ToolFailed
from nearmetal.lab import concurrent_runs
from nearmetal.lab.clocks import ClockOffset, ClockWatch, compare_hosts
from nearmetal.lab.service import describe_end
from nearmetal.lab.stage import LabStage
from nearmetal.run import blame, clock_gate, contention, disk_space, pause_detection
from nearmetal.run.background_load import BackgroundLoad
from nearmetal.run.boot_surroundings import BootSurroundings
from nearmetal.run.clock_gate import HostClocks
from nearmetal.run.contention import Accounts
from nearmetal.run.events import BlockSink, Step, TrialStarted
from nearmetal.run.kernel_alignment import Kernels
from nearmetal.run.liveness import Liveness
from nearmetal.run.machine_state import MachineState
from nearmetal.run.services import ServiceFailed, ServiceSet
from nearmetal.shortened_list import shorten_list
from nearmetal.study.resolve import build_workload
from nearmetal.system.files import write_whole

T = TypeVar("T")

_LOOK_AGAIN = 5.0
"""Seconds of preparing after which it is looked whether an answer can still come: seldom are there as many."""
_CONTROLLER_STOPPED = 3.0
"""Seconds in which this process did not run and that explain why something failed. Limits of commands are longer."""


@dataclass(frozen=True)
class TrialTask:
    address: model.TrialAddress
    workload: model.ResolvedWorkload
    under: model.ResolvedWorkload | None
    """What loads the stage meanwhile."""
    stage: LabStage
    observe: model.ObserveSpec
    treatments: tuple[tuple[str, model.Treatment, model.Level, LabStage], ...]
    """What each is called, its level, and the machines that have it."""
    services: ServiceSet
    surroundings: BootSurroundings
    kernels: Kernels
    liveness: Liveness
    clocks: float
    """Seconds by which clocks may be apart for what needs those of both ends."""
    is_pretended: bool
    """Whether no machine is real: then others on this host disturb nothing."""
    hosts: frozenset[str]
    """Names of the hosts on which machines lie, beside this one."""
    artifacts: Path
    record: model.TrialRecord
    """What is known from the boot; the trial adds to it."""

    @property
    def clients(self) -> frozenset[str]:
        return frozenset(client.name for client in self.stage.clients)


@dataclass(frozen=True)
class TrialBeginning:
    """What is known of the machines and their hosts before something that may go wrong."""

    since: float
    """Unix time."""
    awake: pause_detection.SuspensionReading
    vitals: tuple[MachineState, ...]


async def run_trial(task: TrialTask, sink: BlockSink) -> model.TrialRecord:
    """Measure. MachineLost and NotProvisioned pass on, since they end the boot; all else becomes a record."""
    sink.emit(TrialStarted(trial=task.address))
    try:
        return await _record_trial(_Trial(task, sink), task)
    except MachineLost as error:
        raise await task.liveness.explain_lost(error) from None


async def _record_trial(trial: "_Trial", task: TrialTask) -> model.TrialRecord:
    try:
        return await trial.run()
    except (MachineLost, NotProvisioned):
        raise
    except Exception as error:  # a plugin's own fault must not take the run with it; its trace is kept
        await _require_machines(task.stage)
        _, what = blame.find_blamed(error, "")
        if isinstance(what, ToolFailed):
            trial.keep_artifacts(what.said)
        elif not isinstance(what, NearmetalError) or what.cause == model.Cause.BROKE:
            trial.keep_artifacts({"traceback.txt": "".join(traceback.format_exception(what)).encode()})
        return trial.make_record(
            model.TrialStatus.FAILED, trial.found or blame.find_fault(error, "the trial", task.clients, task.hosts)
        )


def _blame_observer(name: str) -> AbstractContextManager[None]:
    return blame.blame_plugin(f"the observer {name!r}")


def _load_observer(name: str, setting: Any) -> model.Observer:
    with _blame_observer(name):
        return plugins.load("observers", name)(setting)


def _list_hosts_of_clients(stage: LabStage) -> list[model.Site]:
    """Those that are not the servers'."""
    sites = {client.site.name: client.site for client in stage.clients}
    return [site for name, site in sites.items() if name != stage.servers[0].site.name]


async def _ask_hosts(stage: LabStage) -> HostClocks:
    """The clocks of the clients' hosts against that of the servers', if they are others. MachineLost."""
    if not (client_hosts := _list_hosts_of_clients(stage)):
        return clock_gate.NO_HOST_CLOCKS
    return HostClocks(time.monotonic(), await compare_hosts(stage.servers[0].site, client_hosts))


async def _require_machines(stage: model.Stage) -> None:
    """MachineLost where a machine is: that is why, whatever else was said. What cannot be asked is not why, however."""
    try:
        await contention.require_machines(stage, await contention.read_accounts(stage))
    except MachineLost:
        raise
    except Exception:
        return


class _Trial:
    def __init__(self, task: TrialTask, sink: BlockSink) -> None:
        self._task = task
        self._sink = sink
        self._phases: dict[str, int] = dict(task.record.phases_ns)
        self._responses: dict[str, model.Response] = dict(task.record.responses)
        self._events: float | None = None
        self._observed: dict[str, Any] = {}
        self._warnings: list[model.Warned] = list(task.record.warnings)
        self._artifacts: list[model.Artifact] = []
        self._stood_still: blame.Fault | None = None
        self._not_placed: blame.Fault | None = None
        self._clocks: tuple[model.ClockRecord | None, ...] = ()
        self._hosts_before = clock_gate.NO_HOST_CLOCKS
        self._hosts_during: Mapping[str, ClockOffset] = {}
        self._host_clocks: Mapping[str, model.ClockRecord] = {}
        self._beginning = TrialBeginning(
            time.time(),
            pause_detection.SuspensionReading(pause_detection.measure_sleep(), {}),
            task.liveness.seen.inside,
        )
        self._began = time.monotonic()
        self._said_by_services: Mapping[str, bytes] = {}
        self._background_load: BackgroundLoad | None = None
        self._room: disk_space.Room = {}
        """Before services started; empty if none does."""
        self.found: blame.Fault | None = None
        """Why it fails, whatever its tools said; looked for before what serves is stopped."""

    async def run(self) -> model.TrialRecord:
        stage = self._task.stage
        workload = build_workload(self._task.workload)
        if self._task.under is not None:
            self._background_load = BackgroundLoad(self._task.under, workload)
        try:
            await self._time_step("prepare", self._prepare(workload, stage))
            measurement, cost, memory = await self._time_step("measure", self._measure_workload(workload, stage))
            self._phases["measure"] -= self._phases["alive"]
        except (MachineLost, NotProvisioned):
            raise
        except Exception as error:
            self.found = self.found or await self._find_fault_of_failed()
            if isinstance(error, ServiceFailed) and self.found and self.found.cause is model.Cause.SERVICE_DIED:
                self.found = None  # which the error itself says, with a remedy
            elif self.found is None and self._room:
                self.found = disk_space.find_full(await disk_space.read_room(stage.servers))
            raise
        finally:
            try:
                with self._blame_workload():
                    await workload.finish(stage)
            finally:
                try:
                    await self._stop_background_load(stage)
                finally:
                    self._said_by_services = await self._task.services.end_services(lifetimes=("trial",))
        task = self._task
        gated = clock_gate.gate_responses(measurement, task.workload.primary, task.clocks)
        uneven = clock_gate.find_uneven_start(task.liveness.machines, self._clocks, stage.offsets, task.clocks)
        self._responses |= gated.responses
        self._events = measurement.events
        # What the load cost cannot be told from what is measured.
        if cost is not None and measurement.events > 0 and self._background_load is None:
            self._responses["cpu_per_event"] = model.Response(value=cost / measurement.events, unit="s", better="lower")
        if memory is not None:
            self._responses["host_memory"] = model.Response(value=memory, unit="B", better="lower")
        self._warnings += measurement.warnings
        self._warnings += gated.warnings
        self._warnings += clock_gate.warn_of_steps(task.liveness.machines, self._clocks)
        self._warnings += task.liveness.warnings
        if self._room:
            self._warnings += disk_space.warn_of_filling(self._room, await disk_space.read_room(stage.servers))
        self.keep_artifacts(measurement.artifacts)
        changed, not_kept = await self._time_step("check", self._check_machines())
        invalid = blame.Fault(model.Cause.MEASUREMENT_INVALID, measurement.invalid) if measurement.invalid else None
        # First what may be why something else is wrong.
        if self._stood_still is None and self.found is not None:
            return self.make_record(model.TrialStatus.FAILED, self.found)
        clocks = gated.fault or uneven
        fault = self._stood_still or changed or invalid or clocks or not_kept or self._not_placed
        return self.make_record(model.TrialStatus.INVALID if fault else model.TrialStatus.OK, fault)

    async def _prepare(self, workload: model.Workload, stage: LabStage) -> None:
        """Without waiting for an answer that cannot come. MachineLost."""
        services, asked = self._task.services, self._task.workload
        under = self._task.under
        every = [asked] if under is None else [under, asked]
        for one in every:
            await services.place_files(one.files, *stage.servers, *stage.clients)
        needed = tuple(dict.fromkeys(name for one in every for name in one.services))
        if needed:
            self._room = await disk_space.read_room(stage.servers)
        await self._run_watched(services.start(needed, stage))
        if self._background_load is not None:
            with blame.blame_plugin(f"the load of {self._background_load.name!r}"):
                await self._run_watched(self._background_load.start_load(stage))
        with self._blame_workload():
            await self._run_watched(workload.prepare(stage))

    async def _stop_background_load(self, stage: LabStage) -> None:
        if self._background_load is not None:
            with blame.blame_plugin(f"the load of {self._background_load.name!r}"):
                await self._background_load.stop_load(stage)
            self._observed["under"] = {"workload": self._background_load.name, "begun": self._background_load.begun}

    async def _run_watched(self, work: Coroutine[None, None, None]) -> None:
        """The work, until it is seen that an answer cannot come any more: TrialFailed, MachineLost."""
        preparing = asyncio.ensure_future(self._until_lost(work))
        try:
            while not (await asyncio.wait({preparing}, timeout=_LOOK_AGAIN))[0]:
                self.found = await self._find_fault()
                if self.found is not None:
                    raise blame.TrialFailed(self.found)
            await preparing
        finally:
            preparing.cancel()
            await asyncio.wait({preparing})

    async def _until_lost(self, work: Coroutine[None, None, T]) -> T:
        """The work, until a machine counts as lost: MachineLost."""
        working, losing = asyncio.ensure_future(work), asyncio.ensure_future(self._task.liveness.wait_lost())
        try:
            await asyncio.wait({working, losing}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                return working.result()
            raise losing.result()
        finally:
            for one in (working, losing):
                one.cancel()
            await asyncio.gather(working, losing, return_exceptions=True)

    async def _find_fault(self) -> blame.Fault | None:
        """What has died or was cut since the trial before. MachineLost, HostCannot."""
        faults = await self._task.liveness.find_faults()
        if any(fault.cause is model.Cause.LINK_BROKEN for fault in faults):
            await _require_machines(self._task.stage)  # the interface of a machine that is gone goes with it
        for service in self._task.stage.services:
            if not await service.alive() and service.ended is not None:
                cause = model.Cause.GENERATOR_DIED if service.machine.role == "client" else model.Cause.SERVICE_DIED
                where = f"on the {service.machine.role} {service.machine.name}"
                faults.append(blame.Fault(cause, f"{where} {describe_end(service.program, service.ended)}"))
        return blame.combine_faults(faults)

    async def _find_fault_of_failed(self) -> blame.Fault | None:
        """What `_find_fault` finds, and what else explains why a trial has failed. MachineLost."""
        try:
            found = await self._find_fault()
            if (stood := await self._find_standstill()) is not None or found is not None:
                return stood or found
            for name, readback in await self._task.surroundings.verify_way():
                if not readback.ok:
                    return blame.Fault(model.Cause.LINK_BROKEN, f"{name}: {readback.reason}")
        except (MachineLost, NotProvisioned):
            raise
        except NearmetalError:
            pass  # it failed for a reason of its own
        stopped = pause_detection.measure_longest_pause(self._began)
        if stopped > _CONTROLLER_STOPPED:
            return blame.Fault(model.Cause.CONTROLLER_STOPPED, f"the controller was stopped for {stopped:.0f} s")
        killed = next((one for one in self._task.stage.killed if one.machine.role == "client"), None)
        if killed is not None:
            return blame.Fault(model.Cause.GENERATOR_DIED, f"on the client {killed.machine.name} {killed.words}")
        return None

    async def _find_standstill(self) -> blame.Fault | None:
        """Whether a host was suspended or a machine stood still until `_find_fault` has read them. MachineLost."""
        begun, stage = self._beginning, self._task.stage
        if slept := pause_detection.describe_suspension(begun.awake, await pause_detection.read_suspension(stage)):
            return blame.Fault(model.Cause.SUSPENDED, slept)
        liveness = self._task.liveness
        stood = await pause_detection.explain_stall(liveness.machines, begun.vitals, liveness.seen.inside, begun.since)
        return blame.Fault(model.Cause.STOOD_STILL, stood) if stood else None

    def _blame_workload(self) -> AbstractContextManager[None]:
        return blame.blame_plugin(f"the workload {self._task.workload.kind!r}")

    async def _measure_workload(
        self, workload: model.Workload, stage: LabStage
    ) -> tuple[model.Measurement, float | None, int | None]:
        """The measurement, the host's CPU seconds meanwhile, and the bytes that it holds at the end: of servers only,
        None where it cannot tell."""
        observers = [_load_observer(name, setting) for name, setting in self._task.observe.chosen.items()]
        await self._start_observers([observer for observer in observers if observer.around], "before")
        limit = workload.limit + LIMITS.trial_slack
        self._note_others()
        await self._time_around_measurement(self._read_before(stage))
        # One within the other, so that none observes how another starts or stops; `usage`, the first, is innermost.
        async with AsyncExitStack() as listening:
            if client_hosts := _list_hosts_of_clients(stage):
                watched = await ClockWatch.start(stage.servers[0].site, client_hosts, limit)
                listening.push_async_callback(self._stop_clocks, watched)
            for observer in reversed([observer for observer in observers if not observer.around]):
                with _blame_observer(observer.name):
                    watch = await observer.start(stage)
                listening.push_async_callback(self._stop, observer.name, watch)
            before = await contention.read_accounts(stage)
            with self._blame_workload():
                try:
                    measurement = await asyncio.wait_for(self._until_lost(workload.run(stage)), limit)
                except TimeoutError:
                    what = f"the workload did not end within {limit:g} s"
                    raise NearmetalError(what, cause=model.Cause.TIMED_OUT) from None
                if strange := sorted(measurement.responses.keys() - workload.responses.keys()):
                    raise ValueError(f"it measured {shorten_list(strange, 3)}, and its `responses` do not have that")
            after = await contention.read_accounts(stage)
            if self._background_load is not None:
                with blame.blame_plugin(f"the load of {self._background_load.name!r}"):
                    self._background_load.check()
        # Not while they listen: each machine is asked, and one that is gone is told by that.
        self.found = await self._time_around_measurement(self._find_fault())
        self._stood_still = await self._time_around_measurement(self._find_standstill())
        self._clocks = clock_gate.compare_clocks(self._beginning.vitals, self._task.liveness.seen.inside)
        hosts_after = await self._time_around_measurement(_ask_hosts(stage))
        self._host_clocks = clock_gate.compare_host_clocks(self._hosts_before, hosts_after, self._hosts_during)
        await self._start_observers([observer for observer in observers if observer.around], "after")
        await self._note_placement()
        self._note_contention(before, after)
        self._note_others()
        servers = range(len(stage.servers))
        spent = contention.sum_cpu_time(before.machines, after.machines, servers)
        return measurement, spent, contention.sum_memory(after.machines, servers)

    async def _read_before(self, stage: LabStage) -> None:
        """Read what tells afterwards of pauses and of clocks. MachineLost."""
        since = time.time()
        awake, vitals = await asyncio.gather(pause_detection.read_suspension(stage), self._task.liveness.read_clocks())
        self._beginning = TrialBeginning(since, awake, vitals)
        clock_gate.forget_moved(self._task.liveness.machines, vitals, stage.offsets, self._task.clocks)
        self._hosts_before = await _ask_hosts(stage)
        machines = (*stage.servers, *stage.clients)
        clock_gate.correct_starts(machines, stage.servers[0].site.name, self._hosts_before.offsets, stage.offsets)

    def _note_others(self) -> None:
        """Once, however often it is looked for."""
        warned = None if self._task.is_pretended else concurrent_runs.warning()
        if warned and warned.code not in {one.code for one in self._warnings}:
            self._warnings.append(warned)

    async def _note_placement(self) -> None:
        """Before what serves is stopped."""
        found = await self._task.stage.verify_placement()
        if found.values:
            self._observed["placement"] = dict(found.values)
        self._warnings += found.warnings
        self._not_placed = None if found.ok else blame.Fault(model.Cause.NOT_PLACED, found.reason)

    async def _stop(self, name: str, watch: model.Watch) -> None:
        with _blame_observer(name):
            observation = await watch.stop()
        self.keep_artifacts(observation.artifacts)
        self._observed[name] = dict(observation.counters)

    async def _stop_clocks(self, watch: ClockWatch) -> None:
        self._hosts_during = await watch.stop()

    def _note_contention(self, before: Accounts, after: Accounts) -> None:
        machines = (*self._task.stage.servers, *self._task.stage.clients)
        places = zip(machines, self._task.record.machines, strict=True)
        where = [(machine.site.name, record.cpus) for machine, record in places]
        found = contention.measure_contention(before, after, where, bool(self._task.stage.spec.neighbours))
        self._observed["contention"] = found
        self._warnings += contention.list_warnings(found)

    async def _start_observers(self, observers: list[model.Observer], when: str) -> None:
        for observer in observers:
            with _blame_observer(observer.name):
                watch = await observer.start(self._task.stage)
                observation = await watch.stop()
            self.keep_artifacts({f"{when}-{name}": content for name, content in observation.artifacts.items()})
            self._observed.setdefault(observer.name, {})[when] = dict(observation.counters)

    async def _check_machines(self) -> tuple[blame.Fault | None, blame.Fault | None]:
        """What is wrong with what the machines have, and with how they are treated."""
        task = self._task
        changed = task.liveness.given.explain_change(task.stage, task.liveness.allotted)
        return blame.Fault(
            model.Cause.ALLOTMENT_CHANGED, changed
        ) if changed else None, await self._find_reverted_setting()

    async def _find_reverted_setting(self) -> blame.Fault | None:
        """The first treatment, kernel setting or network that no longer holds now that it has been measured."""
        for called, treatment, level, machines in self._task.treatments:
            with blame.blame_plugin(f"the treatment {treatment.name!r}"):
                readback = await treatment.verify(machines, level)
            if not readback.ok:
                return blame.Fault(model.Cause.NOT_AS_DECLARED, f"{called} did not last: {readback.reason}")
        readback = await self._task.kernels.verify()
        if not readback.ok:
            return blame.Fault(model.Cause.NOT_AS_DECLARED, f"kernels did not last: {readback.reason}")
        for name, readback in await self._task.surroundings.verify():
            if "carried" in readback.values:
                self._observed[name] = {"carried": readback.values["carried"]}
            self._warnings += (warned for warned in readback.warnings if warned not in self._warnings)
            if not readback.ok:
                cause = model.Cause.NEIGHBOURS_ENDED if name == "neighbours" else model.Cause.LINK_BROKEN
                return blame.Fault(cause, f"{name} did not last: {readback.reason}")
        return None

    async def _time_step(self, name: str, work: Awaitable[T]) -> T:
        self._sink.emit(Step(name=name, state="begins"))
        began = time.monotonic_ns()
        try:
            result = await work
        finally:
            self._phases[name] = time.monotonic_ns() - began
        self._sink.emit(Step(name=name, state="ended"))
        return result

    async def _time_around_measurement(self, work: Awaitable[T]) -> T:
        """Time that is none of the step in which it is spent: what it costs to know that all is alive."""
        began = time.monotonic_ns()
        try:
            return await work
        finally:
            self._phases["alive"] = self._phases.get("alive", 0) + time.monotonic_ns() - began

    def keep_artifacts(self, artifacts: Mapping[str, bytes]) -> None:
        self._artifacts += keep_artifacts(self._task.artifacts, self._task.address.id, artifacts, self._artifacts)

    def make_record(self, status: model.TrialStatus, fault: blame.Fault | None) -> model.TrialRecord:
        if status is not model.TrialStatus.OK:
            self.keep_artifacts(self._said_by_services)
        return self._task.record.model_copy(
            update={
                "status": status,
                **blame.describe_fault(fault),
                "phases_ns": self._phases,
                "clocks": self._clocks if status is not model.TrialStatus.FAILED else (),
                "host_clocks": self._host_clocks if status is not model.TrialStatus.FAILED else {},
                "responses": self._responses if status is not model.TrialStatus.FAILED else {},
                "events": self._events if status is not model.TrialStatus.FAILED else None,
                "observers": self._observed,
                "warnings": tuple(self._warnings),
                "artifacts": tuple(self._artifacts),
            }
        )


def keep_artifacts(
    folder: Path, trial: str, artifacts: Mapping[str, bytes], earlier: Sequence[model.Artifact] = ()
) -> tuple[model.Artifact, ...]:
    """Files of a trial, by its id, written into the run's folder of artifacts; what its record says of them.

    A plugin may make a name of what a program said; no name leads out of the trial's folder. One that an earlier
    artifact of the trial has, by another plugin, gets "again-" before it.
    """
    found: list[model.Artifact] = []
    for name, content in artifacts.items():
        inside = [part for part in name.split("/") if part not in ("", ".", "..")]
        path = folder.joinpath(trial, *inside or ["unnamed"])
        while str(path.relative_to(folder.parent)) in {one.path for one in (*earlier, *found)}:
            path = path.with_name(f"again-{path.name}")
        write_whole(path, content)
        sha256 = hashlib.sha256(content).hexdigest()
        found.append(model.Artifact(path=str(path.relative_to(folder.parent)), sha256=sha256))
    return tuple(found)
