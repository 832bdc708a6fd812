"""What dies or is cut while a trial measures is told with who is to blame, which decides whether it is repeated."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from nearmetal.environments.mock import Mock, MockMachine
from nearmetal.errors import HostCannot, MachineLost, NotProvisioned
from nearmetal.lab.mock import programs
from nearmetal.lab.mock.world import World, write
from nearmetal.lab.stage import LabStage
from nearmetal.model import BothClocks, Cause, Completed, Handle, Measurement, Stage, TrialRecord, TrialStatus
from nearmetal.report import report_input
from nearmetal.run import pause_detection, trial
from nearmetal.run.blame import Fault
from nearmetal.run.liveness import Liveness
from nearmetal.store.events import BlockEnded
from nearmetal.store.run_folder import RunFolder
from nearmetal.workloads.http import Http
from tests.order import mock_run

Deed = Callable[[LabStage], Awaitable[None]]

STUDY = mock_run.STUDY.replace("blocks = 2", "blocks = 1")


def befall(monkeypatch: pytest.MonkeyPatch, deed: Deed, times: int = 1000, fails: Exception | None = None) -> None:
    """Let something happen to the server `slow` while it is measured, so many times."""
    whole, done = Http.run, list[str]()

    async def run(self: Http, stage: Stage) -> Measurement:
        state = World("local").read(stage.servers[0].name)
        assert isinstance(stage, LabStage) and state is not None
        is_meant = state.get("speed") == 0.5 and len(done) < times
        measured = await whole(self, stage)
        if is_meant:
            done.append(stage.servers[0].name)
            await deed(stage)
            if fails is not None:
                raise fails
        return measured

    monkeypatch.setattr(Http, "run", run)


async def run(folder: Path, text: str = STUDY) -> tuple[list[tuple[int, int, bool]], list[TrialRecord]]:
    """How its attempts ended, and the records that are not ok."""
    events, records = await mock_run.run(folder, text)
    attempts = [(event.block, event.attempt, event.whole) for event in events if isinstance(event, BlockEnded)]
    assert await mock_run.left_over() == []
    return attempts, [record for record in records if record.status is not TrialStatus.OK]


ONCE = [(0, 0, False)]
AGAIN = [(0, 0, False), (0, 1, True)]


async def kill_service(stage: LabStage) -> None:
    await stage.services[0]._running.stop()


async def test_a_service_that_died_is_its_treatments_failure_and_no_reason_to_measure_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    befall(monkeypatch, kill_service)
    attempts, (record,) = await run(tmp_path / "run")
    assert (record.status, record.blame, record.cause) == (TrialStatus.FAILED, "treatment", "service-died")
    assert f"on the server {record_server(record)} `lighttpd` ended by SIGTERM" in str(record.reason)
    assert record.responses == {}
    assert attempts == ONCE
    analysis = report_input.read_run_input(RunFolder(tmp_path / "run")).analysis
    assert {one.verdict for one in analysis.contrasts if one.workload == "web"} <= {"undecided"}


def record_server(record: TrialRecord) -> str:
    return str(record.reason).split("on the server ")[1].split()[0]


async def test_a_service_that_died_explains_what_its_client_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    befall(monkeypatch, kill_service, fails=RuntimeError("no reply, and nobody thought of that"))
    attempts, (record,) = await run(tmp_path / "run")
    assert (record.blame, record.cause, attempts) == ("treatment", "service-died", ONCE)


async def count_kill(stage: LabStage) -> None:
    world = World("local")
    state = world.read(stage.servers[0].name)
    assert state is not None
    write(state, "/proc/vmstat", b"nr_free_pages 17\noom_kill 2\n")
    world.save(state)


async def test_the_kernels_killing_is_told_before_the_death_that_it_explains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = World.make

    def with_counters(self: World, name: str, address: str, **facts: Any) -> dict[str, Any]:
        state = make(self, name, address, **facts)
        write(state, "/proc/vmstat", b"oom_kill 0\n")
        self.save(state)
        return state

    async def both(stage: LabStage) -> None:
        await count_kill(stage)
        await kill_service(stage)

    monkeypatch.setattr(World, "make", with_counters)
    befall(monkeypatch, both)
    attempts, (record,) = await run(tmp_path / "run")
    assert (record.status, record.blame, record.cause) == (TrialStatus.FAILED, "treatment", "out-of-memory")
    assert str(record.reason).startswith("the kernel killed 2 processes of the server ")
    assert "; on the server" in str(record.reason) and "`lighttpd` ended" in str(record.reason)
    assert attempts == ONCE


async def test_a_machine_that_booted_anew_is_its_treatments_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def reboot(stage: LabStage) -> None:
        world = World("local")
        state = world.read(stage.servers[0].name)
        assert state is not None
        world.boot(state)

    befall(monkeypatch, reboot)
    attempts, (record,) = await run(tmp_path / "run")
    assert (record.blame, record.cause, attempts) == ("treatment", "machine-restarted", ONCE)


async def test_a_generator_that_was_killed_is_named_and_its_block_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the guise of the program that starts it, which then prints nothing."""
    whole, killed = programs._at, list[str]()

    async def at(call: programs.Call) -> Completed:
        if "load" in call.argv and not killed:
            killed.append(call.state["name"])
            return Completed(status=137)
        return await whole(call)

    monkeypatch.setattr(programs, "_at", at)
    attempts, (record,) = await run(tmp_path / "run")
    assert (record.status, record.blame, record.cause) == (TrialStatus.FAILED, "instrument", "generator-died")
    assert record.reason == (
        f"on the client {killed[0]} `nearmetal-probe load, or what started it,` ended by SIGKILL, without a word"
    )
    assert attempts == AGAIN


async def test_a_link_that_was_cut_is_the_instruments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [Fault(Cause.LINK_BROKEN, "the interface port1 was set down")]
    whole = Liveness.find_faults

    async def find_faults(self: Liveness) -> list[Fault]:
        return [*await whole(self), *(found.pop() for _ in found[:])]

    monkeypatch.setattr(Liveness, "find_faults", find_faults)
    attempts, (record,) = await run(tmp_path / "run")
    assert (record.status, record.blame, record.cause) == (TrialStatus.FAILED, "instrument", "link-broken")
    assert (record.reason, attempts) == ("the interface port1 was set down", AGAIN)


async def test_what_cannot_be_prepared_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cut link is seen while whoever prepares still waits for an answer."""
    whole, prepare, began = Liveness.find_faults, Http.prepare, list[str]()

    async def find_faults(self: Liveness) -> list[Fault]:
        cut = [Fault(Cause.LINK_BROKEN, "the interface port1 was set down")]
        return [*await whole(self), *(cut if began == ["first"] else [])]

    async def waits(self: Http, stage: Stage) -> None:
        began.append("first" if not began else "again")
        if began == ["first"]:
            await asyncio.Event().wait()
        await prepare(self, stage)

    monkeypatch.setattr(trial, "_LOOK_AGAIN", 0.05)
    monkeypatch.setattr(Liveness, "find_faults", find_faults)
    monkeypatch.setattr(Http, "prepare", waits)
    attempts, (record,) = await run(tmp_path / "run")
    assert (record.status, record.blame, record.cause) == (TrialStatus.FAILED, "instrument", "link-broken")
    assert attempts == AGAIN


async def test_a_suspended_host_is_to_blame_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = ["this host was suspended for 9.0 s while it was measured"]
    monkeypatch.setattr(pause_detection, "describe_suspension", lambda before, after: told.pop() if told else None)
    attempts, (record,) = await run(tmp_path / "run")
    assert (record.status, record.blame, record.cause) == (TrialStatus.INVALID, "host", "suspended")
    assert attempts == AGAIN


async def test_what_failed_while_a_machine_stood_still_is_the_hosts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the tool says that waited for it in vain."""
    told = ["the server stood still for 9.0 s while it was measured: was it paused, or moved?"]
    monkeypatch.setattr(pause_detection, "describe_stall", lambda machines, still: told.pop() if told else None)
    fails = RuntimeError("no reply in time")
    whole, failed = Http.run, list[str]()

    async def run_once(self: Http, stage: Stage) -> Measurement:
        if not failed:
            failed.append(stage.servers[0].name)
            raise fails
        return await whole(self, stage)

    monkeypatch.setattr(Http, "run", run_once)
    attempts, (record,) = await run(tmp_path / "run")
    assert (record.status, record.blame, record.cause) == (TrialStatus.FAILED, "host", "stood-still")
    assert attempts == AGAIN


async def test_a_primary_response_by_clocks_that_cannot_be_compared_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, doubted = Http.run, list[str]()

    async def doubts_once(self: Http, stage: Stage) -> Measurement:
        measured = await whole(self, stage)
        if doubted:
            return measured
        doubted.append(self.primary)
        return measured.model_copy(update={"both_clocks": BothClocks(names=(self.primary,), apart=None)})

    monkeypatch.setattr(Http, "run", doubts_once)
    attempts, (record,) = await run(tmp_path / "run")
    assert (record.status, record.blame, record.cause) == (TrialStatus.INVALID, "instrument", "clocks-untrusted")
    assert doubted[0] not in record.responses and record.responses
    assert attempts == AGAIN


async def test_each_trial_has_its_machines_clocks(tmp_path: Path) -> None:
    _, records = await mock_run.run(tmp_path / "run", STUDY)
    for record in records:
        assert len(record.clocks) == len(record.machines)
        for clock in record.clocks:
            assert clock is not None
            for offset, uncertainty in zip(clock.offset, clock.uncertainty, strict=True):
                assert uncertainty > 0 and abs(offset) <= uncertainty, "pretended machines have our clock"


async def test_what_failed_while_the_controller_stood_is_the_controllers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stop(stage: LabStage) -> None:
        monkeypatch.setattr(pause_detection, "measure_longest_pause", lambda since: 30.0)

    befall(monkeypatch, stop, 1, HostCannot("nothing was heard in time"))
    attempts, (record,) = await run(tmp_path / "run")
    assert (record.status, record.blame, record.cause) == (TrialStatus.FAILED, "controller", "controller-stopped")
    assert (record.reason, attempts) == ("the controller was stopped for 30 s", AGAIN)


async def test_a_client_that_never_came_up_is_the_instruments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create, failed = Mock.create, list[str]()

    async def fails_once(self: Mock, order: Any, *more: Any) -> Handle:
        if order.role == "client" and not failed:
            failed.append(order.name)
            raise NotProvisioned("no clients today", order.name)
        return await create(self, order, *more)

    monkeypatch.setattr(Mock, "create", fails_once)
    attempts, bad = await run(tmp_path / "run")
    assert [(one.status, one.blame, one.cause) for one in bad] == [
        (TrialStatus.LOST, "instrument", "client-not-provisioned")
    ]
    assert attempts == AGAIN


async def test_a_machine_that_is_gone_says_so_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def cut_power(stage: LabStage) -> None:
        World("local").kill(stage.servers[0].name)

    befall(monkeypatch, cut_power)
    attempts, (record,) = await run(tmp_path / "run")
    assert (record.status, record.blame, record.cause) == (TrialStatus.LOST, "treatment", "machine-lost")
    assert attempts == ONCE


async def test_a_block_with_faults_of_both_is_repeated_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For all contrasts: a treatment's failure in an attempt that does not count is none of its outcome."""
    told = ["this host was suspended for 9.0 s while it was measured"]
    monkeypatch.setattr(pause_detection, "describe_suspension", lambda before, after: told.pop() if told else None)
    befall(monkeypatch, kill_service)
    attempts, bad = await run(tmp_path / "run")
    assert attempts[0] == (0, 0, False)
    assert attempts[1] == (0, 1, False)
    assert len(attempts) == 2
    assert {(one.trial.attempt, one.blame) for one in bad} >= {(0, "host"), (1, "treatment")}


async def test_a_contrast_names_the_side_that_failed_and_what_others_spoilt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = [None, "this host was suspended for 9.0 s while it was measured"]
    monkeypatch.setattr(pause_detection, "describe_suspension", lambda before, after: told.pop() if told else None)
    befall(monkeypatch, kill_service, 2)
    await run(tmp_path / "run", STUDY.replace("blocks = 1", "blocks = 2"))
    (primary,) = [
        one for one in report_input.read_run_input(RunFolder(tmp_path / "run")).analysis.contrasts if one.primary
    ]
    warned = {one.code: one.text for one in primary.warnings}
    assert warned["trials-failed"] == "2 of 3 trials of the treatment failed: what serves ended (2)"
    assert (
        "others were to blame, for which a block is repeated: the host was suspended (1)" in warned["trials-repeated"]
    )


async def test_a_record_names_the_host_of_each_machine(tmp_path: Path) -> None:
    _, records = await mock_run.run(tmp_path / "run", STUDY)
    for record in records:
        assert [machine.host for machine in record.machines] == ["local", "local"]
        assert (record.blame, record.cause, record.observed_family) == (None, None, None)


@pytest.mark.parametrize("phase", ["prepare", "run"])
async def test_a_trial_ends_when_a_machine_counts_as_lost_whatever_it_waits_for(
    phase: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = asyncio.Event()

    async def wait_for_ever(self: Http, stage: Stage) -> None:
        waits.set()
        await asyncio.Event().wait()

    async def wait_lost(self: MockMachine) -> MachineLost:
        await waits.wait()
        return MachineLost("its card fell out", self.name)

    monkeypatch.setattr(Http, phase, wait_for_ever)
    monkeypatch.setattr(MockMachine, "wait_lost", wait_lost, raising=False)
    _, bad = await run(tmp_path / "run")
    found = {(record.status, record.blame, record.cause) for record in bad}
    assert found <= {(TrialStatus.LOST, "treatment", "machine-lost"), (TrialStatus.LOST, "instrument", "client-lost")}
    assert {str(record.reason).partition(": ")[2] for record in bad} == {"its card fell out"}


async def test_a_lost_machines_own_words_come_before_what_was_seen_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_seen = asyncio.Event()

    async def lose(stage: LabStage) -> None:
        is_seen.set()
        raise MachineLost("it does not answer", stage.servers[0].name)

    async def wait_lost(self: MockMachine) -> MachineLost:
        await is_seen.wait()
        await asyncio.sleep(0.01)
        return MachineLost("its card fell out", self.name)

    monkeypatch.setattr(MockMachine, "wait_lost", wait_lost, raising=False)
    befall(monkeypatch, lose)
    _, bad = await run(tmp_path / "run")
    assert {record.cause for record in bad} == {"machine-lost"}
    assert all(str(record.reason).endswith(": its card fell out") for record in bad)
