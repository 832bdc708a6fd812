"""What two readings of a trial's machines say has happened between them, by the texts that kernels and ip print."""

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from nearmetal.lab.cgroup_limits import GroupLimits
from nearmetal.lab.local_site import LocalSite
from nearmetal.lab.read_lines import Lines, parse_grep
from nearmetal.model import Cause, Handle, Machine
from nearmetal.run.blame import Fault
from nearmetal.run.liveness import (
    LivenessReading,
    find_kills,
    find_last_kill,
    find_stalls,
    find_way,
    judge_readings,
    parse_interfaces,
)
from nearmetal.run.machine_state import Clock, MachineState
from nearmetal.run.resource_readback import Allotment, PlacedMachine


def _machine(name: str, **more: str) -> Machine:
    return cast(Machine, SimpleNamespace(name=name, interface="data", **more))


SERVER = _machine("nm-x-1", role="server", peer="nm-x/port1", address="10.0.0.1")
CLIENT = _machine("nm-x-2", role="client", peer="nm-x/port2", address="10.0.0.2")
MACHINES = (SERVER, CLIENT)

INSIDE = """\
/proc/sys/kernel/random/boot_id:0f1e-2d3c
/proc/vmstat:oom_kill 3
/sys/class/net/data/operstate:up
/sys/class/net/data/carrier:1
/sys/class/net/data/carrier_changes:2
/proc/net/fib_trie:        |-- 10.0.0.1
/proc/net/fib_trie:        |-- 10.0.0.1
/proc/net/route:data\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
"""


def interface(name: str, **changed: Any) -> dict[str, Any]:
    usual = {
        "ifname": name,
        "flags": ["BROADCAST", "MULTICAST", "UP", "LOWER_UP"],
        "master": "switch",
        "addr_info": [],
        "stats64": {"tx": {"carrier_changes": 2}},
    }
    return {**usual, **changed}


def lines_of(text: str) -> Lines:
    lines = parse_grep(0, text, [])
    assert lines is not None
    return lines


def reading(inside: str = INSIDE, *interfaces: dict[str, Any]) -> LivenessReading:
    shown = interfaces or (interface("port1"), interface("port2"))
    return LivenessReading(
        (MachineState(lines_of(inside)), MachineState({})), {("local", "nm-x"): parse_interfaces(json.dumps(shown))}
    )


def judged(before: LivenessReading, after: LivenessReading) -> list[Fault]:
    return judge_readings(MACHINES, before, before, after)


def test_nothing_has_happened() -> None:
    assert judged(reading(), reading()) == []
    silent = replace(reading(), inside=(MachineState(), MachineState()))
    assert judged(reading(), silent) == judged(silent, reading()) == [], "nothing is guessed"


def test_what_shares_its_hosts_kernel_has_nothing_left_without_its_address() -> None:
    shared = reading("/proc/7/net/fib_trie:  |-- 10.0.0.1\n")
    (fault,) = judged(shared, replace(shared, inside=(MachineState({}), MachineState({}))))
    assert fault.cause is Cause.LINK_BROKEN and "has lost its address 10.0.0.1" in fault.reason


@pytest.mark.parametrize(
    ("before", "after", "cause", "reason"),
    [
        ("oom_kill 3", "oom_kill 4", Cause.OUT_OF_MEMORY, "the kernel killed a process of the server nm-x-1"),
        ("oom_kill 3", "oom_kill 5", Cause.OUT_OF_MEMORY, "the kernel killed 2 processes of the server nm-x-1"),
        ("0f1e-2d3c", "4b5a-6978", Cause.MACHINE_RESTARTED, "the server nm-x-1 has booted anew by itself"),
        ("operstate:up", "operstate:down", Cause.LINK_BROKEN, "data is down instead of up"),
        ("carrier:1\n", "carrier_:1\n", Cause.LINK_BROKEN, "data is down instead of 1"),
        ("changes:2", "changes:4", Cause.LINK_BROKEN, "data lost its carrier, and has it again"),
        ("|-- 10.0.0.1", "|-- 10.0.0.9", Cause.LINK_BROKEN, "has lost its address 10.0.0.1"),
        (
            "0000000A\t00000000",
            "0000000A\t0100000A",
            Cause.LINK_BROKEN,
            "was by data and is by data and 10.0.0.1",
        ),
    ],
)
def test_what_has_happened_inside(before: str, after: str, cause: Cause, reason: str) -> None:
    assert before in INSIDE
    (fault,) = judged(reading(), reading(INSIDE.replace(before, after)))
    assert fault.cause is cause
    assert reason in fault.reason


@pytest.mark.parametrize(
    ("after", "reason"),
    [
        ([interface("port2")], "is gone"),
        ([interface("port1", flags=["BROADCAST"]), interface("port2")], "was set down"),
        ([interface("port1", flags=["UP", "NO-CARRIER", "LOWER_UP"]), interface("port2")], "has no carrier"),
        ([interface("port1", master=None), interface("port2")], "hangs on None instead of switch"),
        (
            [interface("port1", stats64={"tx": {"carrier_changes": 4}}), interface("port2")],
            "lost its carrier, and has it again",
        ),
    ],
)
def test_what_has_happened_outside(after: list[dict[str, Any]], reason: str) -> None:
    (fault,) = judged(reading(), reading(INSIDE, *after))
    assert fault.cause is Cause.LINK_BROKEN
    assert fault.reason == f"the interface port1 of nm-x, which leads to the server nm-x-1, {reason}"


def test_an_address_outside_that_is_lost() -> None:
    has = interface("near0", addr_info=[{"local": "10.0.0.7", "prefixlen": 24}])
    (fault,) = judged(reading(INSIDE, has), reading(INSIDE, interface("near0")))
    assert fault.reason == "the interface near0 of nm-x has lost an address: 10.0.0.7/24"


def test_what_is_cut_stays_cut_and_what_is_counted_is_told_once() -> None:
    """A later trial on a link that is down has no other reason."""
    cut = reading(INSIDE.replace("oom_kill 3", "oom_kill 4"), interface("port1", flags=["BROADCAST"]))
    assert {one.cause for one in judge_readings(MACHINES, reading(), reading(), cut)} == {
        Cause.OUT_OF_MEMORY,
        Cause.LINK_BROKEN,
    }
    assert {one.cause for one in judge_readings(MACHINES, reading(), cut, cut)} == {Cause.LINK_BROKEN}


def test_an_ip_that_does_not_count_carriers_tells_the_rest() -> None:
    silent = interface("port1", stats64={})
    assert judged(reading(INSIDE, silent), reading(INSIDE, silent)) == []


def test_what_came_meanwhile_is_nothing() -> None:
    """An observer may have made it."""
    more = (interface("port1"), interface("port2"), interface("mirror"))
    assert judged(reading(), reading(INSIDE, *more)) == []


def allotment(**limits: Any) -> Allotment:
    placed = PlacedMachine(Handle(kind="host", name="nm-x-1", site="local", role="server"), LocalSite(), "")
    return Allotment((placed,), (GroupLimits(**limits),), (), (None,))


@pytest.mark.parametrize(
    ("before", "after", "cause", "reason"),
    [
        ({"kills": {"/g": 1}}, {"kills": {"/g": 2}}, Cause.OUT_OF_MEMORY, "killed a process of the server nm-x-1"),
        ({"refused": {"/g": 1}}, {"refused": {"/g": 4}}, Cause.OUT_OF_PROCESSES, "3 could not be started"),
        ({"frozen": {"/g": 0}}, {"frozen": {"/g": 1}}, Cause.STOOD_STILL, "its control group is frozen"),
        ({"frozen_us": {"/g": 7}}, {"frozen_us": {"/g": 1_500_007}}, Cause.STOOD_STILL, "stood still for 1.5 s"),
    ],
)
def test_what_a_control_group_tells(before: Any, after: Any, cause: Cause, reason: str) -> None:
    (fault,) = find_kills(allotment(**before), allotment(**after))
    assert fault.cause is cause and reason in fault.reason
    assert find_kills(allotment(**after), allotment(**after)) == [] or "frozen" in before


def at(asked: float, lines: str = "") -> LivenessReading:
    return LivenessReading((MachineState(lines_of(lines), Clock(asked, asked + 0.01, asked)),))


@pytest.mark.parametrize(("stalled", "told"), [(400_000, ()), (2_500_000, ("25",))])
def test_a_machine_that_waits_for_memory_is_told(stalled: int, told: tuple[str, ...]) -> None:
    full = "/proc/pressure/memory:full avg10=0.00 avg60=0.00 avg300=0.00 total={}\n"
    of_own = find_stalls((SERVER,), at(10, full.format(7)), at(20, full.format(7 + stalled)), allotment(), allotment())
    of_group = find_stalls(
        (SERVER,), at(10), at(20), allotment(stalled_us={"/g": 7}), allotment(stalled_us={"/g": 7 + stalled})
    )
    for warned in (list(of_own), list(of_group)):
        assert [one.code for one in warned] == ["memory-pressure" for _ in told]
        assert all(share in one.text for one, share in zip(warned, told, strict=True))


def test_the_longest_prefix_is_the_way() -> None:
    default = "eth0 00000000 0100000A 0003 0 0 0 00000000 0 0 0"
    near = "data 0000000A 00000000 0001 0 0 0 00FFFFFF 0 0 0"
    lost = "* 0200000A 00000000 0205 0 0 0 FFFFFFFF 0 0 0"
    route = {"/proc/net/route": (default, near)}
    assert find_way(route, "10.0.0.2") == "by data"
    assert find_way(route, "192.168.0.2") == "by eth0 and 10.0.0.1"
    assert find_way({"/proc/net/route": (default, near, lost)}, "10.0.0.2") == "to nowhere"
    assert find_way({"/proc/net/route": (near,)}, "192.168.0.2") is None
    assert find_way({}, "10.0.0.2") is None


LOG = """\
[ 10.1] oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/nearmetal-nm-x-1,task_memcg=/nearmetal-nm-x-1,task=tail,pid=7
[ 10.2] Memory cgroup out of memory: Killed process 7 (tail) total-vm:1kB
[ 11.1] oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/other,task_memcg=/other,task=dd,pid=8
[ 11.2] Memory cgroup out of memory: Killed process 8 (dd) total-vm:1kB
[ 12.0] port1: entered disabled state
"""


def test_the_kernels_words_are_those_of_the_machines_group() -> None:
    assert find_last_kill(LOG, "nearmetal-nm-x-1") == (
        "Memory cgroup out of memory: Killed process 7 (tail) total-vm:1kB"
    )
    assert "(dd)" in find_last_kill(LOG, "")
    assert find_last_kill(LOG, "nearmetal-nm-x-2") == ""


def test_a_killing_of_before_explains_nothing() -> None:
    group, said = "nearmetal-nm-x-1", "Killed process 7 (tail) total-vm:1kB"
    log = f"[   10.000001] oom-kill:task_memcg=/{group},task=tail,pid=7\n[   10.000002] {said}\n"
    assert find_last_kill(log, group, 10.0) == said
    assert find_last_kill(log, group, 10.1) == ""
