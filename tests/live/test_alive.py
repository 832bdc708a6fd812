"""What is killed or cut while a trial measures makes it fail, with the right one to blame; no verdict comes of it."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from nearmetal.lab import cgroup
from nearmetal.lab.image import Image
from nearmetal.lab.machines.shared_kernel import SharedKernelMachine
from nearmetal.lab.site import must
from nearmetal.model import Machine, Measurement, Stage, TrialRecord, TrialStatus
from nearmetal.report import reading
from nearmetal.run import session
from nearmetal.store.folder import RunFolder
from nearmetal.workloads.http import Http
from tests.order.in_process import InProcess

from .laboratory import study

pytestmark = pytest.mark.live

STUDY = """
name = "alive"
reference = {{ environment = "base" }}
[environments.base]
kind = "host"
[environments.victim]
kind = "{kind}"
[factors]
environment = ["base", "victim"]
[machine]
memory = "256MiB"
accel = "tcg"
[[workloads]]
name = "web"
kind = "http"
duration = "2s"
[design]
seed = 1
blocks = 1
"""

Deed = Callable[[Stage], Awaitable[None]]


@pytest.fixture(autouse=True)
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "BlockProcesses", InProcess)


@pytest.fixture(params=["host", "docker", "qemu"])
def kind(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "docker":
        url = request.getfixturevalue("engine")
        request.getfixturevalue("monkeypatch").setenv("DOCKER_HOST", url)
    yield request.param


def befall(monkeypatch: pytest.MonkeyPatch, deed: Deed, times: int = 1000) -> None:
    """Do it 0.6 s into each measurement of the second treatment in a block, whichever that is named."""
    whole, begun = Http.run, list[str]()

    async def run(self: Http, stage: Stage) -> Measurement:
        begun.append(stage.servers[0].name)
        if len(begun) % 2 or len(begun) // 2 > times:
            return await whole(self, stage)
        done = asyncio.ensure_future(_later(deed, stage))
        try:
            return await whole(self, stage)
        finally:
            await done

    monkeypatch.setattr(Http, "run", run)


async def _later(deed: Deed, stage: Stage) -> None:
    await asyncio.sleep(0.6)
    await deed(stage)


async def bad(folder: Path, kind: str) -> list[TrialRecord]:
    records = await study(folder, STUDY.format(kind=kind))
    analysis = reading.read(RunFolder(folder)).analysis
    assert {one.verdict for one in analysis.contrasts} <= {"undecided"}
    return [record for record in records if record.status is not TrialStatus.OK]


async def _kill(machine: Machine, name: str, word: str = "") -> None:
    """In a machine with a kernel of its own by its own means, else by those of its group."""
    if not isinstance(machine, SharedKernelMachine):
        assert (await machine.exec(["pkill", "-KILL", name])).status == 0
        return
    killed = 0
    for pid in await cgroup.processes(await machine.group(), machine.site):
        with contextlib.suppress(OSError):
            is_it = Path(f"/proc/{pid}/comm").read_text().strip() == name
            if is_it and word in Path(f"/proc/{pid}/cmdline").read_text().split("\0"):
                os.kill(pid, signal.SIGKILL)
                killed += 1
    assert killed


async def test_a_server_that_is_killed(
    tmp_path: Path, lab_image: Image, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    async def kill(stage: Stage) -> None:
        await _kill(stage.servers[0], "lighttpd")

    befall(monkeypatch, kill)
    (record,) = await bad(tmp_path / "run", kind)
    assert (record.status, record.blame, record.cause) == (TrialStatus.FAILED, "treatment", "service-died")
    assert "`lighttpd` ended by SIGKILL" in str(record.reason)


async def test_an_interface_that_is_set_down_for_good(
    tmp_path: Path, lab_image: Image, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    async def cut(stage: Stage) -> None:
        server = stage.servers[0]
        namespace, _, interface = str(server.peer).partition("/")
        await must(server.site, "ip", "-netns", namespace, "link", "set", interface, "down")

    befall(monkeypatch, cut, times=1)
    (record,) = await bad(tmp_path / "run", kind)
    assert (record.status, record.blame, record.cause) == (TrialStatus.FAILED, "instrument", "link-broken")
    assert "which leads to the server" in str(record.reason) and "was set down" in str(record.reason)


async def test_an_interface_that_is_set_down_and_up_again(
    tmp_path: Path, lab_image: Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def flap(stage: Stage) -> None:
        server = stage.servers[0]
        namespace, _, interface = str(server.peer).partition("/")
        for state in ("down", "up"):
            await must(server.site, "ip", "-netns", namespace, "link", "set", interface, state)

    befall(monkeypatch, flap, times=1)
    (record,) = await bad(tmp_path / "run", "host")
    assert (record.status, record.blame, record.cause) == (TrialStatus.FAILED, "instrument", "link-broken")
    assert "lost its carrier, and has it again" in str(record.reason)


async def test_an_address_that_is_taken_away(tmp_path: Path, lab_image: Image, monkeypatch: pytest.MonkeyPatch) -> None:
    async def take(stage: Stage) -> None:
        server = stage.servers[0]
        ended = await server.exec(["ip", "address", "flush", "dev", server.interface])
        assert ended.status == 0, ended.complaint

    befall(monkeypatch, take, times=1)
    (record,) = await bad(tmp_path / "run", "host")
    assert (record.status, record.blame, record.cause) == (TrialStatus.FAILED, "instrument", "link-broken")
    assert "has lost its address" in str(record.reason)


@pytest.mark.parametrize("kind", ["host", "qemu"], indirect=True)
async def test_a_machine_without_memory(
    tmp_path: Path, lab_image: Image, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    async def fill(stage: Stage) -> None:
        ended = await stage.servers[0].exec(["tail", "/dev/zero"], timeout=60)
        assert ended.status != 0

    befall(monkeypatch, fill)
    (record,) = await bad(tmp_path / "run", kind)
    assert (record.status, record.blame, record.cause) == (TrialStatus.FAILED, "treatment", "out-of-memory")
    assert "the kernel killed a process of the server" in str(record.reason)


async def test_a_generator_that_is_killed(tmp_path: Path, lab_image: Image, monkeypatch: pytest.MonkeyPatch) -> None:
    async def kill(stage: Stage) -> None:
        await _kill(stage.clients[0], "nearmetal-probe", "load")

    befall(monkeypatch, kill, times=1)
    (record,) = await bad(tmp_path / "run", "host")
    assert (record.status, record.blame, record.cause) == (TrialStatus.FAILED, "instrument", "generator-died")
    assert "on the client" in str(record.reason) and "ended by SIGKILL" in str(record.reason)
