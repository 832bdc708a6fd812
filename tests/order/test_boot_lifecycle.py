"""The order of a boot's life: provision, treat, verify, measure, undo, destroy; also when something goes wrong."""

import asyncio
import errno
import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from nearmetal.environments.mock import Mock, MockMachine
from nearmetal.errors import HostCannot, ToolFailed
from nearmetal.lab.changes.ledger import Ledger, ledgers_folder
from nearmetal.lab.mock import programs
from nearmetal.lab.mock.world import World
from nearmetal.model import Completed, Handle, Level, Measurement, Readback, Stage, TrialStatus
from nearmetal.report import report_input
from nearmetal.run.events import Step, TrialEnded
from nearmetal.store import runs
from nearmetal.store.events import (
    BlockEnded,
    BootEnded,
    BootStarted,
    Event,
    FactsSeen,
    LeftBehind,
    NothingToCompare,
    RunEnded,
    Withdrawn,
)
from nearmetal.store.journal import read_events as events_of
from nearmetal.store.journal import read_records as records_of
from nearmetal.store.run_folder import RunFolder
from nearmetal.treatments.offload import Offload
from nearmetal.workloads import http
from tests.order import mock_run

LIFE = [
    "create",
    "attach",
    "surround",
    "change",
    "facts",
    "verify",
    "prepare",
    "measure",
    "check",
    "undo",
    "destroy",
]


def boots(events: list[Event]) -> list[list[Event]]:
    """The events of each boot."""
    found: list[list[Event]] = []
    for event in events:
        if isinstance(event, BootStarted):
            found.append([])
        if found:
            found[-1].append(event)
    return found


def begun(events: list[Event]) -> list[str]:
    return [event.name for event in events if isinstance(event, Step) and event.state == "begins"]


async def test_a_boot_goes_through_its_life_in_order(tmp_path: Path) -> None:
    events, records = await mock_run.run(tmp_path / "run")
    for boot in boots(events):
        assert begun(boot) == LIFE
        names = [type(event).__name__ for event in boot if not isinstance(event, Step)]
        assert names[0] == "BootStarted"
        assert names.index("TrialEnded") < names.index("BootEnded")
    assert [record.status for record in records] == [TrialStatus.OK] * 4
    assert await mock_run.left_over() == []


async def test_a_restarted_machine_is_ready_once_it_has_restarted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the order to restart: how long it took to make it before that says nothing of a restart."""
    create, reboot = Mock.create, MockMachine.reboot

    async def slowly_created(*given: Any) -> Handle:
        await asyncio.sleep(1.0)
        return await create(*given)

    async def slowly_restarted(self: MockMachine) -> None:
        await asyncio.sleep(0.4)
        await reboot(self)

    monkeypatch.setattr(Mock, "create", slowly_created)
    monkeypatch.setattr(MockMachine, "reboot", slowly_restarted)
    text = mock_run.STUDY.replace("speed = 0.5", 'speed = 0.5\nprovision = "restart"')
    _, records = await mock_run.run(tmp_path / "run", text)
    ready = {record.trial.treatment["environment"]: record.responses["ready"].value for record in records}
    assert 0.4 <= ready["slow"] < 1.0 <= ready["base"]


async def test_every_treatment_once_in_each_block(tmp_path: Path) -> None:
    _, records = await mock_run.run(tmp_path / "run")
    seen = Counter((record.trial.block, record.trial.treatment["environment"]) for record in records)
    assert seen == {(block, environment): 1 for block in (0, 1) for environment in ("base", "slow")}


async def test_chance_falls_alike_on_the_treatments_of_a_block_and_anew_in_every_other_and_in_repeats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds: list[int] = []
    run = http.Http.run

    async def noted(self: http.Http, stage: Stage) -> Measurement:
        seeds.append(stage.seed)
        return await run(self, stage)

    monkeypatch.setattr(http.Http, "run", noted)
    await mock_run.run(tmp_path / "run", mock_run.STUDY + "repeats = 2\n")
    assert sorted(Counter(seeds).values()) == [2, 2, 2, 2]


@pytest.mark.parametrize(("fault", "last_step"), [("create", "create"), ("attach", "attach"), ("exec", "attach")])
async def test_a_machine_that_fails_is_undone_and_recorded_as_its_treatments_outcome(
    tmp_path: Path, fault: str, last_step: str
) -> None:
    text = mock_run.STUDY.replace('kind = "mock"\nspeed = 0.5', f'kind = "mock"\nlabel = "s"\nfault = "{fault}"')
    events, records = await mock_run.run(tmp_path / "run", text)
    lost = [record for record in records if record.status is TrialStatus.LOST]
    assert [record.trial.treatment["environment"] for record in lost] == ["slow"]
    assert lost[0].reason
    assert (lost[0].blame, lost[0].responses) == ("treatment", {})
    assert lost[0].cause == ("machine-lost" if fault == "exec" else "not-provisioned")
    failing = next(
        boot for boot in boots(events) if any(isinstance(e, TrialEnded) and e.record == lost[0] for e in boot)
    )
    assert begun(failing) == [*LIFE[: LIFE.index(last_step) + 1], "undo", "destroy"]
    attempts = [(event.block, event.attempt, event.whole) for event in events if isinstance(event, BlockEnded)]
    assert attempts == [(0, 0, False), (1, 0, True)], "a failure that is measured again until it is gone was none"
    assert await mock_run.left_over() == []


async def test_what_was_changed_is_undone_also_when_what_follows_fails(tmp_path: Path) -> None:
    text = """
    name = "borrowed"
    [environments.metal]
    kind = "mock"
    borrowed = true
    address = "lab3"
    provision = "reuse"
    fault = "spawn"
    [factors]
    environment = ["metal"]
    isolation = ["kernel+user"]
    [machine]
    vcpus = 2
    [clients]
    environment = "mock"
    [[workloads]]
    name = "web"
    kind = "http"
    duration = "1s"
    [design]
    blocks = 1
    """
    events, records = await mock_run.run(tmp_path / "run", text)
    assert [record.status for record in records] == [TrialStatus.FAILED]
    assert "does not start" in str(records[0].reason)
    for boot in boots(events):
        assert begun(boot) == [*LIFE[: LIFE.index("prepare") + 1], "undo", "destroy"]
    borrowed = World("local").read("lab3")
    assert borrowed is not None
    assert borrowed["boots"] > 1, "nothing was changed"
    assert (borrowed["running_arguments"], borrowed["files"]) == ([], {})


async def test_what_a_tool_said_is_kept_with_the_trial_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run(self: object, stage: Stage) -> None:
        raise ToolFailed("half a document", "client0", said={"tool-0.json": b'{"half": '})

    monkeypatch.setattr(http.plugin, "run", run)
    _, records = await mock_run.run(tmp_path / "run")
    assert {record.status for record in records} == {TrialStatus.FAILED}
    for record in records:
        assert "half a document" in str(record.reason)
        (kept,) = record.artifacts
        assert (tmp_path / "run" / kept.path).read_bytes() == b'{"half": '
        assert hashlib.sha256(b'{"half": ').hexdigest() == kept.sha256


def break_offload(monkeypatch: pytest.MonkeyPatch, error: Exception) -> str:
    """A treatment that breaks at one of its levels; a study of it."""

    async def verify(self: object, stage: Stage, level: Level) -> Readback:
        if level is True:
            raise error
        return Readback()

    monkeypatch.setattr(Offload, "verify", verify)
    return mock_run.STUDY.replace('["base", "slow"]', '["base"]\noffload = [true, "tx"]')


@pytest.mark.parametrize("error", [KeyError("level"), FileNotFoundError(errno.ENOENT, "No such file or directory")])
async def test_a_plugin_that_breaks_takes_its_trials_and_not_the_run(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, records = await mock_run.run(tmp_path / "run", break_offload(monkeypatch, error))
    broken = [record for record in records if record.trial.treatment["offload"] is True]
    assert [record.status for record in broken] == [TrialStatus.FAILED] * 3
    for record in broken:
        assert record.reason == f"the treatment 'offload' broke: {type(error).__name__}: {error}"
        (kept,) = record.artifacts
        assert b"in verify" in (tmp_path / "run" / kept.path).read_bytes()
    others = {(record.trial.block, record.status) for record in records if record not in broken}
    assert others == {(0, TrialStatus.OK), (1, TrialStatus.OK)}
    assert await mock_run.left_over() == []


@pytest.mark.parametrize("step", ["create", "attach"])
async def test_an_environment_that_breaks_is_named(step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(self: object, *order: object) -> None:
        raise KeyError("port")

    monkeypatch.setattr(Mock, step, broken)
    _, records = await mock_run.run(tmp_path / "run")
    assert {record.status for record in records} == {TrialStatus.FAILED}
    assert {record.reason for record in records} == {"the environment 'mock' broke: KeyError: 'port'"}
    (kept,) = records[0].artifacts
    assert b"in broken" in (tmp_path / "run" / kept.path).read_bytes()


def told_by_a_site(error: OSError) -> Exception:
    try:
        raise HostCannot("cannot write /there", "local") from error
    except HostCannot as told:
        return told


FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("error", [FULL, told_by_a_site(FULL)])
async def test_a_full_disk_ends_the_run(error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = break_offload(monkeypatch, error)
    with pytest.raises(OSError, match="No space left"):
        await mock_run.run(tmp_path / "run", text)
    assert all(record.status is TrialStatus.OK for record in records_of(RunFolder(tmp_path / "run").journal))
    assert await mock_run.left_over() == []


async def test_a_disk_that_takes_no_note_of_the_undo_keeps_the_run_from_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def undone(ledger: Ledger, number: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(ledger.path))

    events: list[Event] = []
    text = mock_run.STUDY.replace('["base", "slow"]', '["base"]\noffload = [true, "tx"]')
    with monkeypatch.context() as disk:
        disk.setattr(Ledger, "undone", undone)
        with pytest.raises(OSError, match="No space left on device: what is put back could not be noted") as told:
            await mock_run.run(tmp_path / "run", text, events.append)
    (ledger,) = ledgers_folder().iterdir()
    assert await mock_run.left_over() == [str(ledger)] == [told.value.filename], "the machines are removed"
    assert isinstance(events[-1], RunEnded) and events[-1].interrupted
    (left,) = [event for event in events if isinstance(event, LeftBehind)]
    assert left.what == f"{ledger}: No space left on device: what is put back could not be noted"
    assert (await mock_run.cleaned()).left == ()
    assert await mock_run.left_over() == []


async def test_a_treatment_that_fails_three_attempts_running_is_withdrawn_and_the_others_go_on(tmp_path: Path) -> None:
    text = mock_run.STUDY.replace(
        'kind = "mock"\nspeed = 0.5', 'kind = "mock"\nlabel = "s"\nfault = "attach"\nfault_on = [1, 2, 3, 4, 5, 6]'
    )
    text = text.replace('"slow"]', '"slow", "third"]').replace("blocks = 2", "blocks = 4")
    text += '[environments.third]\nkind = "mock"\n'
    events, records = await mock_run.run(tmp_path / "run", text)
    (withdrawn,) = [event for event in events if isinstance(event, Withdrawn)]
    assert withdrawn.treatment == {"environment": "slow"}
    failed = [e for e in events if isinstance(e, TrialEnded) and e.record.status is not TrialStatus.OK]
    assert events.index(failed[2]) < events.index(withdrawn), "why is told before that there is no other chance"
    assert sum(record.trial.treatment["environment"] == "slow" for record in records) == 3
    last = [record for record in records if record.trial.block == 3]
    assert {(record.trial.treatment["environment"], record.status) for record in last} == {
        ("base", TrialStatus.OK),
        ("third", TrialStatus.OK),
    }


WITHDRAWN_REFERENCE = mock_run.STUDY.replace("blocks = 2", "blocks = 5").replace(
    '[environments.base]\nkind = "mock"\n',
    '[environments.base]\nkind = "mock"\nlabel = "b"\nfault = "attach"\nfault_on = [2, 3, 4, 5, 6, 7, 8]\n',
)
"""In its second, third and fourth block."""


async def test_a_run_of_fixed_blocks_ends_when_nothing_is_left_that_can_be_compared(tmp_path: Path) -> None:
    events, records = await mock_run.run(tmp_path / "run", WITHDRAWN_REFERENCE)
    (told,) = [event for event in events if isinstance(event, NothingToCompare)]
    assert told.blocks == 4
    assert {record.trial.block for record in records} == {0, 1, 2, 3}
    listed, _ = runs.list_entries([tmp_path / "run"])
    assert (listed[0].state, listed[0].planned) == ("ended", 10), "all of the plan, however few of it ran"
    analysis = report_input.read_run_input(RunFolder(tmp_path / "run")).analysis
    warnings = {one.code: one.text for one in analysis.warnings}
    assert warnings["nothing-to-compare"] == "the run ended after 4 blocks: nothing was left that can be compared"
    assert "blocks-missing" not in warnings
    missing = [one.text for contrast in analysis.contrasts for one in contrast.warnings if one.code == "blocks-missing"]
    assert set(missing) == {"4 of 5 planned blocks have it on both sides"}


@pytest.mark.parametrize("kind", [Withdrawn, NothingToCompare])
async def test_it_ends_there_also_when_it_was_interrupted_on_the_way(tmp_path: Path, kind: type[Event]) -> None:
    def interrupt(event: Event) -> None:
        if isinstance(event, kind):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await mock_run.run(tmp_path / "run", WITHDRAWN_REFERENCE, interrupt)
    _, records = await mock_run.resume(tmp_path / "run")
    assert {record.trial.block for record in records} == {0, 1, 2, 3}
    told = [event for event in events_of(RunFolder(tmp_path / "run").journal) if event["event"] == "NothingToCompare"]
    assert [event["blocks"] for event in told] == [4]


async def test_one_boot_for_all_workloads_where_the_design_shares_it(tmp_path: Path) -> None:
    second = (
        '[[workloads]]\nname = "primes"\nkind = "sysbench"\ntest = "cpu"\nduration = "1s"\n[design]\nshare_boot = true'
    )
    events, records = await mock_run.run(tmp_path / "run", mock_run.STUDY.replace("[design]", second))
    ended = [event for event in events if isinstance(event, BootEnded)]
    assert len(ended) == 4
    assert len(records) == 8
    by_boot: dict[str, set[str]] = {}
    for record in records:
        assert record.boot is not None
        by_boot.setdefault(record.boot.id, set()).add(record.trial.workload)
    assert all(workloads == {"web", "primes"} for workloads in by_boot.values())


async def test_costs_are_responses_of_every_trial(tmp_path: Path) -> None:
    _, records = await mock_run.run(tmp_path / "run")
    for record in records:
        assert {"throughput", "cpu_per_event", "host_memory", "ready"} <= record.responses.keys()
        assert "memory_overhead" not in record.responses  # a pretended machine has no guest
        assert record.events is not None and record.events >= record.responses["transactions"].value > 0


async def test_every_trial_tells_what_else_its_site_did(tmp_path: Path) -> None:
    _, records = await mock_run.run(tmp_path / "run")
    for record in records:
        local = record.observers["contention"]["local"]
        assert local.keys() == {"seconds", "cpus", "stolen", "others", "pressure"}
        assert local["seconds"] > 0


@pytest.mark.parametrize(
    ("rubbish", "status", "problem"),
    [
        ({"clock": 7}, TrialStatus.OK, "`clock` cannot be 7"),
        ({"memory": {"total_bytes": "much"}}, TrialStatus.INVALID, "`memory.total_bytes` cannot be 'much'"),
        (None, TrialStatus.INVALID, "it is no JSON object"),
    ],
)
async def test_a_machine_may_tell_anything_of_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rubbish: dict[str, Any] | None, status: TrialStatus, problem: str
) -> None:
    """What can be read of it is kept, and the run comes to its end; a machine that cannot be verified is invalid."""
    tell = programs._facts

    async def told(call: programs.Call) -> Completed:
        facts = json.loads((await tell(call)).stdout)
        content = "rubbish" if rubbish is None else json.dumps(facts | rubbish)
        return Completed(status=0, stdout=content.encode())

    monkeypatch.setattr(programs, "_facts", told)
    events, records = await mock_run.run(tmp_path / "run", mock_run.STUDY.replace("blocks = 2", "blocks = 1"))
    assert {record.status for record in records} == {status}
    for record in records:
        warned = [one.text for one in record.warnings if one.code == "facts-malformed"]
        assert warned and all(problem in one for one in warned)
        if status is TrialStatus.INVALID:
            assert record.reason and "the probe's facts lack what it is verified by" in record.reason
    seen = [event for event in events if isinstance(event, FactsSeen) and event.role == "server"]
    assert seen and all(set(event.facts).isdisjoint(rubbish or event.facts.keys() - {"disk"}) for event in seen)
    assert RunFolder(tmp_path / "run").read_manifest()
