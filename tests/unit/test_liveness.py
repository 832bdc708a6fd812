"""What two readings of a trial's machines say has happened between them, by the texts that kernels and ip print."""

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from nearmetal.lab.cgroup import parse_limits
from nearmetal.model import Cause, Machine
from nearmetal.run.liveness import Reading, find_last_kill, judge, parse_interfaces, parse_lines


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


def reading(inside: str = INSIDE, *interfaces: dict[str, Any]) -> Reading:
    shown = interfaces or (interface("port1"), interface("port2"))
    return Reading((parse_lines(inside), {}), {("local", "nm-x"): parse_interfaces(json.dumps(shown))})


def test_nothing_has_happened() -> None:
    assert judge(MACHINES, reading(), reading()) == []
    silent = replace(reading(), inside=(None, None))
    assert judge(MACHINES, reading(), silent) == judge(MACHINES, silent, reading()) == [], "nothing is guessed"


def test_what_shares_its_hosts_kernel_has_nothing_left_without_its_address() -> None:
    shared = reading("/proc/7/net/fib_trie:  |-- 10.0.0.1\n")
    (fault,) = judge(MACHINES, shared, replace(shared, inside=({}, {})))
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
        ("0000000A\t00000000", "0000000A\t0100000A", Cause.LINK_BROKEN, "has lost a route"),
    ],
)
def test_what_has_happened_inside(before: str, after: str, cause: Cause, reason: str) -> None:
    assert before in INSIDE
    (fault,) = judge(MACHINES, reading(), reading(INSIDE.replace(before, after)))
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
    (fault,) = judge(MACHINES, reading(), reading(INSIDE, *after))
    assert fault.cause is Cause.LINK_BROKEN
    assert fault.reason == f"the interface port1 of nm-x, which leads to the server nm-x-1, {reason}"


def test_an_address_outside_that_is_lost() -> None:
    has = interface("near0", addr_info=[{"local": "10.0.0.7", "prefixlen": 24}])
    (fault,) = judge(MACHINES, reading(INSIDE, has), reading(INSIDE, interface("near0")))
    assert fault.reason == "the interface near0 of nm-x has lost an address: 10.0.0.7/24"


def test_an_ip_that_does_not_count_carriers_tells_the_rest() -> None:
    silent = interface("port1", stats64={})
    assert judge(MACHINES, reading(INSIDE, silent), reading(INSIDE, silent)) == []


def test_what_came_meanwhile_is_nothing() -> None:
    """An observer may have made it."""
    more = (interface("port1"), interface("port2"), interface("mirror"))
    assert judge(MACHINES, reading(), reading(INSIDE, *more)) == []


def test_kills_and_refusals_of_control_groups_of_both_versions() -> None:
    limits = parse_limits(
        "memory.events:oom_kill 2 /sys/fs/cgroup/nearmetal-x\n"
        "memory.oom_control:oom_kill 1 /sys/fs/cgroup/memory/nearmetal-y\n"
        "memory.events:max 7 /sys/fs/cgroup/nearmetal-x\n"
        "pids.events:max 3 /sys/fs/cgroup/nearmetal-x\n"
    )
    assert limits.kills == {"/sys/fs/cgroup/nearmetal-x": 2, "/sys/fs/cgroup/memory/nearmetal-y": 1}
    assert limits.refused == {"/sys/fs/cgroup/nearmetal-x": 3}


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
