"""Clocks of hosts: how far each is ahead of another's, with an offset that is put in, and what starts by them."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from nearmetal.lab.clocks import SAME_CLOCK, ClockOffset, ClockWatch, compare_clock, compare_hosts
from nearmetal.lab.local_site import LocalSite
from nearmetal.model import Completed, Machine, SiteRunning
from nearmetal.run.clock_gate import HostClocks, compare_host_clocks, correct_starts
from tests.unit.workloads_stage import ScriptedMachine

MS = 1_000_000


class Host(LocalSite):
    """This host under another name, with a kernel and a clock of its own: it is ahead by so many ns."""

    underlay = "127.0.0.1"

    def __init__(self, name: str, ahead_ns: int = 0, is_mute: bool = False) -> None:
        super().__init__()
        self.name = name
        self.boot_id = f"boot-of-{name}"
        self.ran: list[str] = []
        self._ahead_ns = ahead_ns
        self._is_mute = is_mute

    async def exec(self, argv: Sequence[str], **given: Any) -> Completed:
        self.ran.append(argv[1])
        if self._is_mute:
            return Completed(status=1, stderr=b"nobody answers")
        return self.shift(await super().exec(argv, **given))

    async def spawn(self, argv: Sequence[str], **given: Any) -> SiteRunning:
        """What it prints when it is stopped is by its clock too."""
        running = await super().spawn(argv, **given)
        if "ask" in argv:
            stop = running.stop

            async def stop_shifted() -> Completed:
                return self.shift(await stop())

            running.stop = stop_shifted  # type: ignore[method-assign]
        return running

    def shift(self, ended: Completed) -> Completed:
        document = json.loads(ended.stdout)
        if "offset_ns" in document:
            document["offset_ns"] -= self._ahead_ns
        for key in ("started_ns", "ended_ns"):
            if key in document:
                document[key] += self._ahead_ns
        return ended.model_copy(update={"stdout": json.dumps(document).encode()})


async def test_an_offset_that_is_put_in_is_found() -> None:
    put_in = {"c1": 1_500 * MS, "c2": -20 * MS, "c3": 0}
    found = await compare_hosts(Host("s"), [Host(name, ahead) for name, ahead in put_in.items()])
    assert found.keys() == put_in.keys()
    for name, ahead in put_in.items():
        # Both read one clock in truth, so that what is put in is the whole offset.
        assert found[name].least_ns <= ahead <= found[name].most_ns
        assert 0 < found[name].uncertainty_ns < MS


async def test_clocks_are_compared_while_something_else_goes_on() -> None:
    put_in = {"c1": 1_500 * MS, "c2": -20 * MS}
    same = Host("same")
    same.boot_id = "boot-of-s"
    watch = await ClockWatch.start(Host("s"), [*(Host(name, ahead) for name, ahead in put_in.items()), same], 30)
    await asyncio.sleep(1.2)
    found = await watch.stop()
    assert found.keys() == {*put_in, "same"} and found["same"] == SAME_CLOCK
    for name, ahead in put_in.items():
        assert found[name].least_ns <= ahead <= found[name].most_ns
    assert await watch.stop() == {"same": SAME_CLOCK}, "it is stopped"
    nowhere = Host("s")
    nowhere.underlay = "192.0.2.1"
    assert await (await ClockWatch.start(nowhere, [Host("c1")], 30)).stop() == {}


async def test_hosts_of_one_kernel_have_one_clock() -> None:
    one, other = Host("s"), Host("c1")
    other.boot_id = one.boot_id
    assert await compare_hosts(one, [other]) == {"c1": SAME_CLOCK}
    assert other.ran == []


async def test_a_host_that_nobody_can_ask_is_absent() -> None:
    found = await compare_hosts(Host("s"), [Host("c1"), Host("c2", is_mute=True)])
    assert found.keys() == {"c1"}
    nowhere = Host("s")
    nowhere.underlay = "192.0.2.1"  # RFC 5737: nobody's, so that nothing can listen there
    assert await compare_hosts(nowhere, [Host("c1")]) == {}


async def test_a_clock_is_bounded_against_the_controllers() -> None:
    far = Host("far", 3_600_000 * MS)
    found = await compare_clock(far)
    assert found.least_ns <= 3_600_000 * MS <= found.most_ns
    assert len(far.ran) == 5


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ((0, 10), (5, 20), (5, 10)),
        ((0, 100), (40, 50), (40, 50)),
        ((0, 10), (20, 25), (20, 25)),  # set in between: the closer of them
    ],
)
def test_exchanges_narrow_each_other(one: tuple[int, int], other: tuple[int, int], both: tuple[int, int]) -> None:
    assert ClockOffset(*one).narrow(ClockOffset(*other)) == ClockOffset(*both)


def test_a_record_has_hosts_that_told_before_and_after() -> None:
    before = HostClocks(10.0, {"c1": ClockOffset(4 * MS, 6 * MS), "c2": SAME_CLOCK})
    after = HostClocks(20.0, {"c1": ClockOffset(5 * MS, 6 * MS)})
    found = compare_host_clocks(before, after, {"c1": ClockOffset(4 * MS, 7 * MS), "c3": SAME_CLOCK})
    assert found.keys() == {"c1"}
    assert found["c1"].offset == pytest.approx((0.005, 0.0055))
    assert found["c1"].uncertainty == pytest.approx((0.001, 0.0005))
    assert found["c1"].during == pytest.approx((0.0055, 0.0015))
    assert found["c1"].drift == pytest.approx(0.00005)


def placed(name: str, host: str, boot: str | None = None) -> Machine:
    machine = ScriptedMachine(name, "10.0.0.1", lambda argv: Completed(status=0))
    machine.site = Host(host)
    machine.boot_id = boot or f"boot-of-{host}+{name}"
    return machine


def test_machines_of_several_hosts_start_by_how_these_lie_to_each_other() -> None:
    machines = [placed("server", "s"), placed("client1", "c1"), placed("client2", "c2"), placed("guest", "c2", "own")]
    timed = {"server": 7 * MS, "client1": 11 * MS, "client2": -9 * MS, "guest": 5}
    correct_starts(machines, "s", {"c1": ClockOffset(3 * MS, 3 * MS), "c2": ClockOffset(-16 * MS, -14 * MS)}, timed)
    assert timed == {"server": 7 * MS, "client1": 10 * MS, "client2": -8 * MS, "guest": 5}


def test_clients_of_a_server_with_a_clock_of_its_own_start_alike() -> None:
    machines = [placed("server", "s", "own"), placed("client1", "c1"), placed("client2", "c2"), placed("late", "c3")]
    timed = {"server": 50, "client1": 1_000, "client2": 7_777}
    correct_starts(machines, "s", {"c1": ClockOffset(300, 300), "c2": ClockOffset(-200, -200)}, timed)
    assert timed == {"server": 50, "client1": 1_000, "client2": 500}
