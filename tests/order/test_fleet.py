"""A run on a fleet: the same plan as here, in the journal in the plan's order, whichever site or controller dies."""

import asyncio
import contextlib
import hashlib
import os
import random
import signal
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import ValidationError

import nearmetal
from nearmetal.config import LIMITS
from nearmetal.errors import BadInput, HostCannot
from nearmetal.fleet import block_pieces, cluster, controller, dask, messages, worker
from nearmetal.fleet.assignment import assign_site
from nearmetal.fleet.fleet_executor import FleetExecutor
from nearmetal.model import TrialRecord, TrialStatus
from nearmetal.progress_messages import ignore_text
from nearmetal.run import study_execution
from nearmetal.store import journal
from nearmetal.store.events import BlockDispatched, BlockEnded, Event
from nearmetal.store.run_folder import AHEAD, RunFolder
from nearmetal.store.verify import verify
from nearmetal.study.blocks import plan_blocks
from tests.order import mock_run
from tests.order.fleet_processes import start_controller, start_scheduler, start_worker, start_workers
from tests.order.test_block_process import processes
from tests.waiting import until

pytestmark = pytest.mark.processes

THREE = mock_run.STUDY.replace("blocks = 2", "blocks = 3")


async def run(
    folder: Path, text: str, scheduler: str = "local:2", listener: Callable[[Event], None] = lambda event: None
) -> list[TrialRecord]:
    request = study_execution.RunRequest(mock_run.study(text), text, (), False, folder, available=False)
    await study_execution.start_run(request, ignore_text, (listener,), FleetExecutor(scheduler))
    return list(journal.read_records(RunFolder(folder).journal))


def events(folder: Path, kind: str) -> list[dict[str, Any]]:
    return [event for event in journal.read_events(folder / "journal.jsonl") if event["event"] == kind]


def check_whole(folder: Path) -> None:
    """Every block has one attempt that counts; the journal is in order, nothing lies beside it."""
    assert not verify(folder, ignore_text).damaged
    records = list(journal.read_records(folder / "journal.jsonl"))
    blocks = [record.trial.block for record in records]
    assert blocks == sorted(blocks)
    plan = RunFolder(folder).read_manifest().plan
    for index in range(plan.blocks):
        of_block = [record for record in records if record.trial.block == index]
        counted = {record.trial.attempt for record in of_block if record.status is TrialStatus.OK}
        last = max(record.trial.attempt for record in of_block)
        assert last in counted
        whole = [record for record in of_block if record.trial.attempt == last]
        assert {record.status for record in whole} == {TrialStatus.OK} and len(whole) == 2
        assert all(record.cause == "worker-lost" for record in of_block if record.status is not TrialStatus.OK)
    assert sorted(path.name for path in (folder / AHEAD).glob("*")) == []


async def test_a_run_on_two_sites_is_the_one_that_is_planned(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    records = await run(folder, THREE)
    plan = RunFolder(folder).read_manifest().plan
    planned = [trial.id for block in plan_blocks(plan) for trial in block.trials]
    assert [record.trial.id for record in records] == planned
    assert [record.status for record in records] == [TrialStatus.OK] * 6
    sites = ("local-0", "local-1")
    assert {record.trial.block: record.site for record in records} == {
        index: assign_site(plan.study, plan.seed, sites, index) for index in range(3)
    }
    assert [event["whole"] for event in events(folder, "BlockEnded")] == [True] * 3
    check_whole(folder)
    assert not processes("nm-block")
    assert await mock_run.left_over() == []
    with pytest.raises(BadInput, match="on a fleet"):
        await study_execution.resume_run(RunFolder(folder), ignore_text, ())


def workers() -> list[int]:
    """Processes of this test's own workers."""
    own = f"NEARMETAL_HOME={os.environ['NEARMETAL_HOME']}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (path / "cmdline").read_bytes().split(b"\0")
            if b"nearmetal.fleet.worker" in words and own in (path / "environ").read_bytes().split(b"\0"):
                found.append(int(path.name))
    return sorted(found)


async def test_a_site_that_is_killed_loses_its_attempt_and_the_block_is_run_elsewhere(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    at: list[str] = []

    def kill(event: Event) -> None:
        if isinstance(event, BlockDispatched) and (event.block, event.attempt) == (1, 0):
            at.append(event.site)
            number = int(event.site.removeprefix("local-"))
            for process in workers():
                words = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
                if f"local-{number}".encode() in words:
                    os.kill(process, signal.SIGKILL)

    records = await run(folder, THREE, listener=kill)
    lost = [record for record in records if record.status is TrialStatus.LOST]
    assert {(record.trial.block, record.trial.attempt, record.site) for record in lost} == {(1, 0, at[0])}
    assert {(record.blame, record.cause) for record in lost} == {("host", "worker-lost")}
    again = {record.site for record in records if record.trial.block == 1 and record.trial.attempt == 1}
    assert again == {"local-0", "local-1"} - set(at[:1])
    check_whole(folder)
    await settle(tmp_path)


async def settle(tmp_path: Path) -> None:
    """Nothing is left of sites that were killed: blocks clear by themselves."""
    await until(lambda: not processes("nm-block") and not workers())
    assert await mock_run.left_over() == []


@contextlib.contextmanager
def standing(*names: str) -> Iterator[str]:
    """A scheduler, whose address it is, and sites of these names, which have joined it."""
    scheduler, address = start_scheduler()
    sites = start_workers(address, names)
    try:
        yield address
    finally:
        for process in (*sites, scheduler):
            process.kill()
            process.join(10)


async def test_a_run_that_is_interrupted_ends_its_blocks_and_keeps_what_they_measured(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    work: asyncio.Task[list[TrialRecord]]

    def interrupt(event: Event) -> None:
        if isinstance(event, BlockDispatched) and event.dispatch == 3:
            work.cancel()

    work = asyncio.ensure_future(run(folder, THREE, listener=interrupt))
    with pytest.raises(asyncio.CancelledError):
        await work
    assert not processes("nm-block") and not workers()
    assert [event["interrupted"] for event in events(folder, "RunEnded")] == [True]
    assert await mock_run.left_over() == []
    with standing("local-0", "local-1") as address:
        await study_execution.resume_run(RunFolder(folder), ignore_text, (), FleetExecutor(address))
    check_whole(folder)
    assert {record.trial.attempt for record in journal.read_records(folder / "journal.jsonl")} == {0}
    assert no_spool_is_left()


async def test_a_controller_that_is_killed_goes_on_where_its_sites_were(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    killed = start_controller(folder, THREE, "local:2", "BlockDispatched", 3)
    killed.join(60)
    assert killed.exitcode == -signal.SIGKILL
    await settle(tmp_path)
    assert len(events(folder, "BlockDispatched")) == 3
    with standing("local-0", "local-1") as address:
        await study_execution.resume_run(RunFolder(folder), ignore_text, (), FleetExecutor(address))
    check_whole(folder)
    numbers = [event["dispatch"] for event in events(folder, "BlockDispatched")]
    assert len(set(numbers)) == len(numbers), "no dispatch is given twice"
    assert all(record.status is TrialStatus.OK for record in journal.read_records(folder / "journal.jsonl"))
    assert no_spool_is_left()


async def test_a_controller_that_is_killed_while_it_writes_a_block_down_leaves_nothing_beside(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with standing("a", "b") as address:
        killed = start_controller(folder, THREE, address, "BlockEnded", 1)
        killed.join(60)
        assert killed.exitcode == -signal.SIGKILL
        assert list((folder / AHEAD).glob("0-*")), "it is removed once all of it is in the journal"
        await study_execution.resume_run(RunFolder(folder), ignore_text, (), FleetExecutor(address))
    await settle(tmp_path)
    check_whole(folder)
    assert [event["block"] for event in events(folder, "BlockEnded")] == [0, 1, 2]
    assert no_spool_is_left()


async def test_large_files_come_home_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_pieces, "CHUNK", 1000)
    with standing("a") as address:
        await run(tmp_path / "run", mock_run.STUDY, address)
    check_whole(tmp_path / "run")


async def test_what_came_home_though_its_fetching_was_cancelled_is_not_fetched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = b"{}\n"
    file = messages.SpooledFile(path=messages.EVENTS, size=len(content), sha256=hashlib.sha256(content).hexdigest())
    spool = messages.Spool(is_running=False, files=(file,))
    piece = block_pieces.Piece(0, 0, 1, "here", tmp_path / "ahead" / "0-0-1-here")
    keeping, keep, asked = threading.Event(), block_pieces._keep, 0

    class Site:
        async def ask_site(self, *_: object) -> list[bytes]:
            nonlocal asked
            asked += 1
            return [content]

    def keep_slowly(*given: Any) -> None:
        keeping.set()
        time.sleep(0.2)
        keep(*given)

    monkeypatch.setattr(block_pieces, "_keep", keep_slowly)
    fleet = cast(cluster.Fleet, Site())
    fetching = asyncio.create_task(block_pieces.fetch_piece(fleet, "run", piece, spool))
    await asyncio.to_thread(keeping.wait)
    fetching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await fetching
    await block_pieces.fetch_piece(fleet, "run", piece, spool)
    assert (asked, (piece.folder / messages.EVENTS).read_bytes()) == (1, content)


async def test_blocks_that_waited_for_a_late_one_are_written_down_bit_by_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In between sites are given blocks."""
    monkeypatch.setattr(controller, "COMMITS", 1)
    fetch, give = block_pieces.fetch_piece, controller.Controller._give_blocks
    others_at_home = asyncio.Event()
    home = 0
    course: list[str] = []

    async def fetch_late(fleet: cluster.Fleet, run: str, piece: block_pieces.Piece, spool: messages.Spool) -> None:
        nonlocal home
        if piece.block == 0:
            await others_at_home.wait()
        await fetch(fleet, run, piece, spool)
        home += 1
        if home == 2:
            others_at_home.set()

    def note_giving(self: controller.Controller) -> None:
        course.append("given")
        give(self)

    def note_end(event: Event) -> None:
        if isinstance(event, BlockEnded):
            course.append("ended")

    monkeypatch.setattr(controller, "fetch_piece", fetch_late)
    monkeypatch.setattr(controller.Controller, "_give_blocks", note_giving)
    with standing("a", "b", "c") as address:
        await run(tmp_path / "run", THREE, address, note_end)
    assert "ended ended" not in " ".join(course) and course.count("ended") == 3
    check_whole(tmp_path / "run")


def no_spool_is_left() -> bool:
    return not (Path(os.environ["NEARMETAL_HOME"]) / "state" / "fleet").exists()


async def test_five_kills_of_workers_and_controllers(tmp_path: Path) -> None:
    await kill_at_random(5, tmp_path, seed=1)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 7))
async def test_a_hundred_kills_of_workers_and_controllers(tmp_path: Path, seed: int) -> None:
    await kill_at_random(20, tmp_path, seed)


async def kill_at_random(kills: int, tmp_path: Path, seed: int) -> None:
    """Each block ends once, whoever was killed when, and nothing stays behind."""
    drawn = random.Random(seed)
    folder = tmp_path / "run"
    text = mock_run.STUDY.replace("blocks = 2", "blocks = 6")
    scheduler, address = start_scheduler()
    names = ("a", "b", "c")
    sites = {name: start_worker(address, name) for name in names}
    controller = start_controller(folder, text, address)
    try:
        async with asyncio.timeout(240):
            for _ in range(kills):
                if not controller.is_alive():
                    assert controller.exitcode in (0, -signal.SIGKILL)
                    controller = start_controller(folder, text, address)
                await asyncio.sleep(drawn.uniform(0.05, 0.6))
                victim = drawn.choice([None, *names])
                process = controller if victim is None else sites[victim]
                process.kill()
                process.join(10)
                if victim is not None:
                    sites[victim] = start_worker(address, victim)
            await until(lambda: not controller.is_alive())
            if controller.exitcode:
                assert controller.exitcode == -signal.SIGKILL
                last = start_controller(folder, text, address)
                await until(lambda: not last.is_alive())
                assert last.exitcode == 0
        check_whole(folder)
    finally:
        for process in (*sites.values(), scheduler, controller):
            process.kill()
            process.join(10)
    await until(lambda: not processes("nm-block"))
    assert await mock_run.left_over() == []
    assert no_spool_is_left()


async def refused(scheduler: str) -> str:
    """What is said, and that nothing was made."""
    with pytest.raises((BadInput, HostCannot)) as caught:
        await run(Path(os.environ["NEARMETAL_HOME"]) / "run", THREE, scheduler)
    assert not (Path(os.environ["NEARMETAL_HOME"]) / "run").exists()
    return str(caught.value)


async def test_a_scheduler_that_is_gone_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask, "CONNECT", 1.0)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
        said = await refused(address)
        with pytest.raises(HostCannot, match="no scheduler answers there: nothing came for 1 s"):
            await worker._stand_as_site(address, "a", ignore_text)
    assert said.startswith(f"{address}: no scheduler answers there") and "dask scheduler" in said


@pytest.mark.parametrize("text", ["local", "local:0", "http://x:1", "tcp://x", "tcp://x:8786/y", "8786", ""])
def test_what_is_no_scheduler_is_bad_input(text: str) -> None:
    with pytest.raises(BadInput, match="is no scheduler"):
        FleetExecutor(text)


async def test_several_sites_on_one_host_are_for_pretended_machines_only() -> None:
    text = THREE.replace('kind = "mock"\nspeed = 0.5', 'kind = "mock"').replace('"mock"', '"host"')
    with pytest.raises(BadInput, match="kind mock only"):
        await study_execution.start_run(
            study_execution.RunRequest(mock_run.study(text), text, (), False, Path("run"), False),
            ignore_text,
            (),
            FleetExecutor("local:2"),
        )


async def test_a_worker_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with standing("old") as address:
        monkeypatch.setattr(nearmetal, "__version__", "99.0")
        said = await refused(address)
        assert "the site old has another nearmetal" in said and "this is 99.0" in said


def test_another_dask_is_refused() -> None:
    def told(version: str) -> dict[str, Any]:
        return {"packages": {"dask": version, "distributed": version, "numpy": "1"}}

    same = {"client": told("1.0"), "scheduler": told("1.0"), "workers": {"tcp://a:1": told("1.0")}}
    cluster.refuse_other_dask(same, {"tcp://a:1": "a"})
    with pytest.raises(HostCannot, match=r"the scheduler has dask 2\.0, and this host 1\.0"):
        cluster.refuse_other_dask({**same, "scheduler": told("2.0")}, {})
    with pytest.raises(HostCannot, match=r"the site a has dask 2\.0"):
        cluster.refuse_other_dask({**same, "workers": {"tcp://a:1": told("2.0")}}, {"tcp://a:1": "a"})


@pytest.mark.parametrize(
    "path",
    ["../x", "artifacts/../../x/y", "/etc/passwd", "artifacts/x", "artifacts//x/y", "artifacts/./x", "stderr.txt"],
)
def test_a_site_names_files_of_its_spool_alone(path: str) -> None:
    messages.SpooledFile(path="artifacts/trial/load-0.json", size=1, sha256="")
    with pytest.raises(ValidationError):
        messages.SpooledFile(path=path, size=1, sha256="")


async def test_a_scheduler_that_goes_ends_the_run_which_can_be_resumed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    scheduler, address = start_scheduler()
    site = start_worker(address, "a")
    killed = 0.0
    try:

        def kill(event: Event) -> None:
            nonlocal killed
            if isinstance(event, BlockDispatched):
                scheduler.kill()
                killed = time.monotonic()

        with pytest.raises(HostCannot, match="the scheduler is gone"):
            await run(folder, THREE, address, kill)
        assert time.monotonic() < killed + cluster.STALL / 2, "its connection tells, and not its silence"
        await until(lambda: not site.is_alive() and not processes("nm-block"))
    finally:
        for process in (site, scheduler):
            process.kill()
            process.join(10)
    assert [event["interrupted"] for event in events(folder, "RunEnded")] == [True]
    assert await mock_run.left_over() == []


async def test_a_scheduler_that_stalls_for_some_seconds_loses_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    scheduler, address = start_scheduler()
    site = start_worker(address, "a")
    stalled: list[float] = []

    def let_go_on() -> None:
        os.kill(number, signal.SIGCONT)
        stalled.append(time.monotonic())

    def stop(event: Event) -> None:
        if isinstance(event, BlockDispatched) and event.block == 1:
            os.kill(number, signal.SIGSTOP)
            asyncio.get_running_loop().call_later(5, let_go_on)

    assert scheduler.pid is not None
    number = scheduler.pid
    try:
        records = await run(folder, THREE, address, stop)
    finally:
        for process in (site, scheduler):
            process.kill()
            process.join(10)
    assert stalled and {record.trial.attempt for record in records} == {0}
    assert len(events(folder, "BlockDispatched")) == 3
    check_whole(folder)


async def test_a_scheduler_that_hangs_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "run"
    scheduler, address = start_scheduler()
    site = start_worker(address, "a")

    def stop(event: Event) -> None:
        if isinstance(event, BlockDispatched) and event.block == 1:
            assert scheduler.pid is not None
            monkeypatch.setattr(cluster, "STALL", 1.0)
            os.kill(scheduler.pid, signal.SIGSTOP)

    try:
        began = time.monotonic()
        with pytest.raises(HostCannot, match="the scheduler is gone: it has not answered for 1 s"):
            await run(folder, THREE, address, stop)
        assert time.monotonic() < began + LIMITS.boot, "blocks do not wait for it one after the other"
    finally:
        for process in (site, scheduler):
            process.kill()
            process.join(10)
    assert [event["interrupted"] for event in events(folder, "RunEnded")] == [True]
    await settle(tmp_path)


class Thread:
    """With an event loop."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()

    async def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self.loop))

    def end(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


async def test_a_scheduler_that_stalls_may_take_longer_to_connect_than_one_that_is_met(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As over TLS, where each connection takes an answer of it."""
    from distributed import Scheduler, Worker

    async def start() -> tuple[Scheduler, Worker]:
        told = {"dashboard_address": dask.LOOPBACK}
        scheduler = await Scheduler(protocol="inproc", dashboard=False, **told)
        return scheduler, await Worker(scheduler.address, nthreads=1, resources={dask.SITE: 1}, name="a", **told)

    monkeypatch.setattr(dask, "CONNECT", 0.5)
    dask.configure_dask()
    thread = Thread()
    try:
        scheduler, site = await thread.run(start())
        async with cluster.reach_scheduler(scheduler.address, "local:1", None, 1, LIMITS.boot) as fleet:
            began = time.monotonic()
            thread.loop.call_soon_threadsafe(time.sleep, 2)
            # The second one takes another connection.
            said, _ = await asyncio.gather(fleet.ask_site("a", os.getpid), fleet.find_sites())
            assert (said, fleet.sites) == (os.getpid(), ("a",))
            assert time.monotonic() > began + 1.5, "it did stall"
        await thread.run(site.close())
        await thread.run(scheduler.close())
    finally:
        thread.end()
