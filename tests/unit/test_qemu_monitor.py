"""QEMU's monitor: what is read from its answers, and how it is waited for."""

import asyncio
import os
import threading
from pathlib import Path
from typing import cast

import pytest
from qemu.qmp import QMPClient

from nearmetal.errors import MachineLost, NotProvisioned, ToolFailed
from nearmetal.lab.architecture import HERE
from nearmetal.lab.local_site import LocalSite
from nearmetal.lab.qemu import monitor
from nearmetal.lab.qemu.arguments import SOCKETS

# As printed by QEMU 7.2.
USERNET = """Hub -1 (control):\r
  Protocol[State]    FD  Source Address  Port   Dest. Address  Port RecvQ SendQ\r
  TCP[ESTABLISHED]   26       10.0.2.15    22        10.0.2.2 40312     0     0\r
  TCP[HOST_FORWARD]  17       127.0.0.1 39632       10.0.2.15  1022     0     0\r
  TCP[HOST_FORWARD]  16       127.0.0.1 39631       10.0.2.15    22     0     0\r
"""


def test_the_forwarded_port_is_read() -> None:
    assert monitor.find_port(USERNET, 22) == 39631
    assert monitor.find_port(USERNET, 1022) == 39632


def test_an_answer_without_it_is_shown() -> None:
    with pytest.raises(ToolFailed, match="nonsense"):
        monitor.find_port("nonsense", 22)


async def test_threads_are_pinned_one_to_one_or_not_at_all() -> None:
    cpus = sorted(os.sched_getaffinity(0))
    seen: dict[str, set[int]] = {}
    ready, done = threading.Event(), threading.Event()

    def other() -> None:
        seen["id"] = {threading.get_native_id()}
        ready.set()
        done.wait(30)

    thread = threading.Thread(target=other)
    thread.start()
    ready.wait(30)
    (number,) = seen["id"]
    try:
        assert await monitor.pin_threads(LocalSite(), [number], [cpus[-1]]) == {0: cpus[-1]}
        assert os.sched_getaffinity(number) == {cpus[-1]}
        assert await monitor.pin_threads(LocalSite(), [number], []) == {}
        assert await monitor.pin_threads(LocalSite(), [number], [cpus[0], cpus[-1]]) == {}
        assert os.sched_getaffinity(number) == {cpus[-1]}
    finally:
        done.set()
        thread.join()


async def test_a_qemu_that_was_stopped_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stopped:
        async def execute(self, *_: object) -> object:
            return await asyncio.Event().wait()

    monkeypatch.setattr(monitor, "_PATIENCE", 0.01)
    with pytest.raises(MachineLost, match=r"did not answer 'cont' within 0.01 s"):
        await monitor.Monitor(cast(QMPClient, Stopped())).go()


@pytest.mark.parametrize(
    ("defined", "lacking"), [({"unavailable-features": ["x2apic"]}, ("x2apic",)), ({}, ())], ids=["x86", "arm"]
)
async def test_a_qemu_need_not_say_what_a_cpu_lacks(defined: dict[str, object], lacking: tuple[str, ...]) -> None:
    kind = f"max{HERE.cpu_type}"
    answers: dict[str, object] = {
        "query-cpus-fast": [{"qom-path": "/cpu", "cpu-index": 0}],
        "qom-get": kind,
        "query-cpu-definitions": [{"typename": "other"}, {"typename": kind, **defined}],
    }

    class Answering:
        async def execute(self, command: str, arguments: object) -> object:
            return answers[command]

    model = await monitor.Monitor(cast(QMPClient, Answering())).cpu_model()
    assert (model.name, model.lacking) == ("max", lacking)


async def test_a_qemu_that_ends_tells_why(tmp_path: Path) -> None:
    async def ended() -> str:
        return "no such device"

    (tmp_path / SOCKETS).mkdir()
    with pytest.raises(NotProvisioned, match="ended at once: no such device"):
        async with monitor.open_monitor(LocalSite(), str(tmp_path), 5, ended):
            pass


async def test_a_qemu_that_says_nothing_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    async def runs() -> None:
        return None

    (tmp_path / SOCKETS).mkdir()
    with pytest.raises(NotProvisioned, match=r"within 0\.05 s"):
        async with monitor.open_monitor(LocalSite(), str(tmp_path), 0.05, runs):
            pass
