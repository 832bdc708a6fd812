"""CPU lists, and who gets which."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from nearmetal import cpu_lists
from nearmetal.lab.cpus import allocation
from nearmetal.lab.cpus import layout as layouts
from nearmetal.lab.cpus.layout import UNKNOWN, Layout
from nearmetal.lab.local_site import LocalSite, list_available_cpus
from nearmetal.model import Completed


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", []), ("0", [0]), ("0-2,4", [0, 1, 2, 4]), (" 3\n", [3]), ("4,0-1,1", [0, 1, 4]), ("8191", [8191])],
)
def test_the_kernels_notation(text: str, expected: list[int]) -> None:
    assert cpu_lists.parse(text) == expected


@pytest.mark.parametrize(
    "text",
    ["a", "-1", "1-", "2-1", "1,,2", ",", "0-8192", "0-999999999999999999", "1.5", "٣", "0x1", "1 2", "9" * 5000],
)
def test_what_is_no_list_is_refused_at_once(text: str) -> None:
    with pytest.raises(ValueError, match="CPUs"):
        cpu_lists.parse(text)


@pytest.mark.parametrize(
    ("allowed", "online", "expected"),
    [
        ("0-3", "0-3", [0, 1, 2, 3]),
        ("0-127", "0-3", [0, 1, 2, 3]),  # the slots of a virtual machine in which no CPU is yet
        ("0-7", "0-2,4,6", [0, 1, 2, 4, 6]),  # threads of a core that are switched off (nosmt)
        ("1-2", "0-3", [1, 2]),
    ],
)
async def test_cpus_that_are_off_are_not_available(allowed: str, online: str, expected: list[int]) -> None:
    """The kernel lets processes onto CPUs that may come yet, and refuses them in a cpuset."""

    class Host(LocalSite):
        async def exec(self, argv: Sequence[str], **more: Any) -> Completed:
            told = {
                "/proc/self/status": f"Name:\tcat\nCpus_allowed_list:\t{allowed}\nMems_allowed_list:\t0\n",
                "/sys/devices/system/cpu/online": f"{online}\n",
            }
            return Completed(status=0, stdout="".join(told[file] for file in argv[1:]).encode())

    assert await list_available_cpus(Host()) == expected


@given(st.sets(st.integers(0, 300)))
def test_showing_and_reading_are_inverse(numbers: set[int]) -> None:
    assert cpu_lists.parse(cpu_lists.show(numbers)) == sorted(numbers)


def test_servers_get_the_highest_cpus_and_clients_the_rest() -> None:
    assert allocation.assign_cpus([0, 1, 2, 3], 2, 1, None, None) == allocation.Share(("2-3",), "0-1")
    assert allocation.assign_cpus([0, 1, 2, 3, 4], 2, 2, None, None) == allocation.Share(("3-4", "1-2"), "0")


def test_with_too_few_cpus_everybody_shares() -> None:
    assert allocation.assign_cpus([0, 1], 2, 1, None, None) == allocation.Share(("0-1",), "0-1")
    assert allocation.assign_cpus([0, 1], 2, 1, None, None, leave_last=True) == allocation.Share(("0-1",), "0")
    assert allocation.assign_cpus([0, 1], 2, 1, None, "0-1", leave_last=True) == allocation.Share(("0-1",), "0-1")
    assert allocation.assign_cpus([0, 1, 2], 2, 1, None, None, leave_last=True) == allocation.Share(("1-2",), "0")
    assert allocation.assign_cpus([0, 1], 1, 3, None, None) == allocation.Share(("1", "0", "1"), "0-1")


def test_what_the_study_names_is_taken() -> None:
    assert allocation.assign_cpus([0, 1, 2, 3], 1, 2, "0", "3") == allocation.Share(("0", "0"), "3")


USUAL = Layout(cores=tuple(frozenset({cpu, cpu + 4}) for cpu in range(4)))
"""Eight threads of four cores, numbered as most machines number them."""
NEIGHBOURS = Layout(cores=tuple(frozenset({cpu, cpu + 1}) for cpu in range(0, 8, 2)))
TWO_NODES = Layout(nodes=(frozenset({0, 2, 4, 6}), frozenset({1, 3, 5, 7})))
"""Each CPU a core, the nodes taking turns."""


@pytest.mark.parametrize(
    ("layout", "vcpus", "servers", "expected"),
    [
        (USUAL, 4, 1, allocation.Share(("2-3,6-7",), "0-1,4-5")),
        (USUAL, 1, 1, allocation.Share(("7",), "0-2,4-6")),  # its core's other thread goes to nobody
        (USUAL, 3, 1, allocation.Share(("3,6-7",), "0-1,4-5")),
        (USUAL, 2, 2, allocation.Share(("3,7", "2,6"), "0-1,4-5")),
        (USUAL, 1, 4, allocation.Share(("7", "6", "5", "4"), "0-3")),  # no core is left: other threads are
        (USUAL, 1, 5, allocation.Share(("7", "6", "5", "4", "3"), "0-2")),
        (USUAL, 7, 1, allocation.Share(("1-7",), "0")),
        (NEIGHBOURS, 4, 1, allocation.Share(("4-7",), "0-3")),
        (TWO_NODES, 2, 2, allocation.Share(("5,7", "4,6"), "0-3")),
        (TWO_NODES, 3, 2, allocation.Share(("3,5,7", "2,4,6"), "0-1")),
        (TWO_NODES, 5, 1, allocation.Share(("3-7",), "0-2")),
    ],
)
def test_cores_are_handed_out_whole_and_of_one_node(
    layout: Layout, vcpus: int, servers: int, expected: allocation.Share
) -> None:
    assert allocation.assign_cpus(list(range(8)), vcpus, servers, None, None, layout) == expected


def test_clients_leave_the_cores_alone_that_a_study_names_for_the_servers() -> None:
    assert allocation.assign_cpus(list(range(8)), 1, 1, "2", None, USUAL) == allocation.Share(("2",), "0-1,3-5,7")


@pytest.mark.parametrize(
    ("isolated", "vcpus", "expected"),
    [
        ({3}, 2, allocation.Share(("2-3",), "0-1")),
        ({2, 3}, 2, allocation.Share(("2-3",), "0-1")),
        ({1}, 2, allocation.Share(("0-1",), "2-3")),  # what is measured runs on the last
        ({1}, 3, allocation.Share(("1-3",), "0")),  # of three it cannot be the last
        ({3}, 1, allocation.Share(("3",), "0-2")),
        (set(), 2, allocation.Share(("1-2",), "0")),
    ],
)
def test_what_the_kernel_keeps_free_goes_to_servers_first_where_that_is_asked_for(
    isolated: set[int], vcpus: int, expected: allocation.Share
) -> None:
    """No process may run there by itself, and so they are not among those that are available."""
    available = sorted({0, 1, 2, 3} - isolated) if isolated else [0, 1, 2]
    layout = Layout(isolated=frozenset(isolated))
    assert allocation.assign_cpus(available, vcpus, 1, None, None, layout, kept_free=True) == expected
    assert not isolated & set(
        cpu_lists.parse(allocation.assign_cpus(available, vcpus, 1, None, None, layout).servers[0])
    )
    named = allocation.assign_cpus(available, vcpus, 1, "0", None, layout, kept_free=True)
    assert not isolated & set(cpu_lists.parse(named.clients)), "no client is started there"


@pytest.mark.parametrize(
    ("layout", "isolated", "vcpus", "servers", "expected"),
    [
        (USUAL, {3}, 1, 1, allocation.Share(("3",), "0-2,4-6")),
        (USUAL, {3}, 2, 1, allocation.Share(("2-3",), "0-1,4-5")),  # 7 would be the last
        (USUAL, {3, 7}, 2, 1, allocation.Share(("3,7",), "0-2,4-6")),
        (USUAL, {3, 7}, 1, 2, allocation.Share(("7", "3"), "0-2,4-6")),
        (USUAL, {3}, 1, 2, allocation.Share(("3", "6"), "0-1,4-5")),
        (USUAL, {2, 3, 6, 7}, 2, 2, allocation.Share(("3,7", "2,6"), "0-1,4-5")),
        (UNKNOWN, {6, 7}, 2, 1, allocation.Share(("6-7",), "0-5")),
        (UNKNOWN, {6, 7}, 2, 2, allocation.Share(("5,7", "4,6"), "0-3")),  # one of them each
        (UNKNOWN, {4, 5, 6, 7}, 2, 2, allocation.Share(("5,7", "4,6"), "0-3")),
        (UNKNOWN, {7}, 2, 2, allocation.Share(("6-7", "4-5"), "0-3")),
        (TWO_NODES, {2}, 2, 1, allocation.Share(("0,2",), "1,3-7")),
        (TWO_NODES, {2}, 3, 1, allocation.Share(("0-2",), "3-7")),
        (Layout(nodes=(frozenset({0, 1}), frozenset(range(2, 8)))), {1}, 3, 1, allocation.Share(("5-7",), "0,2-4")),
        (UNKNOWN, {7}, 8, 2, allocation.Share(("0-7", "0-7"), "0-6")),
    ],
)
def test_the_last_cpu_of_a_server_is_one_that_the_kernel_keeps_free_while_that_can_be(
    layout: Layout, isolated: set[int], vcpus: int, servers: int, expected: allocation.Share
) -> None:
    layout = replace(layout, isolated=frozenset(isolated))
    available = sorted(set(range(8)) - isolated)
    assert allocation.assign_cpus(available, vcpus, servers, None, None, layout, kept_free=True) == expected


def test_where_our_processes_were_let_onto_them_only_servers_that_ask_for_them_get_them() -> None:
    layout = Layout(isolated=frozenset({2, 3}))
    asked = (1, 1, None, None, layout)
    assert allocation.assign_cpus([0, 1, 2, 3], *asked, kept_free=True) == allocation.Share(("3",), "0-1")
    assert allocation.assign_cpus([0, 1, 2, 3], *asked) == allocation.Share(("1",), "0")
    assert allocation.assign_cpus([2, 3], *asked) == allocation.Share(("3",), "2"), "they were given nothing else"


@pytest.mark.parametrize(
    ("available", "isolated", "vcpus", "servers", "expected"),
    [
        ({0, 1}, {1}, 2, 1, allocation.Share(("0-1",), "0")),
        ({0, 1, 2, 3}, {1, 2, 3}, 2, 1, allocation.Share(("2-3",), "0")),
        ({0, 1, 2, 3}, {2, 3}, 2, 1, allocation.Share(("0-1",), "2-3")),
        ({0, 1, 2, 3}, {3}, 2, 2, allocation.Share(("2-3", "0-1"), "0-2")),
        ({0, 3}, {2, 3}, 2, 1, allocation.Share(("0,3",), "0")),
        ({0, 1}, {2, 3}, 2, 1, allocation.Share(("0-1",), "0-1")),
    ],
)
def test_where_our_processes_were_let_onto_them_they_are_used_when_the_others_are_too_few(
    available: set[int], isolated: set[int], vcpus: int, servers: int, expected: allocation.Share
) -> None:
    layout = Layout(isolated=frozenset(isolated))
    assert allocation.assign_cpus(sorted(available), vcpus, servers, None, None, layout) == expected


@pytest.mark.parametrize(
    ("servers", "clients", "codes"),
    [
        (("6-7",), "0-1,4-5", []),
        (("6-7",), "0-3", ["cores-shared"]),
        (("0", "7"), "5-6", []),
        (("0", "7"), "3", ["cores-shared"]),
        (("6-7",), "2,6", []),  # those very CPUs, which is told otherwise
    ],
)
def test_cores_that_both_sides_have_are_told(servers: tuple[str, ...], clients: str, codes: list[str]) -> None:
    share = allocation.Share(servers, clients)
    assert [warning.code for warning in allocation.find_warnings(share, USUAL)] == codes
    assert allocation.find_warnings(share, UNKNOWN) == []


def test_it_is_told_which_cpus_have_the_cores_in_common() -> None:
    (warning,) = allocation.find_warnings(allocation.Share(("4-7",), "0-3"), USUAL)
    assert "a client may run on CPUs 0-3, which are threads of the same cores as" in warning.text


def test_a_layout_is_read_as_the_kernel_tells_it() -> None:
    told = "core 0,2\ncore 1,3\ncore 0,2\ncore 1,3\nnode 0-3\nnode \n"
    assert layouts.parse_layout(told) == Layout((frozenset({0, 2}), frozenset({1, 3})), (frozenset(range(4)),))
    assert layouts.parse_layout("") == UNKNOWN
    assert layouts.parse_layout("online 0-3\nisolated 2-3,7\n") == Layout(isolated=frozenset({2, 3}))


HYBRID = "".join(f"core {first}-{first + 1}\ncore {first}-{first + 1}\n" for first in range(0, 16, 2)) + "".join(
    f"core {cpu}\n" for cpu in range(16, 24)
)
FAST, SLOW = frozenset(range(16)), frozenset(range(16, 24))


@pytest.mark.parametrize(
    ("told", "names"),
    [
        ("", ("2 threads a core", "1 thread a core")),
        ("../cpu_atom/cpus:16-23\n../cpu_core/cpus:0-15\n", ("core", "atom")),
        (
            "".join(f"cpu/cpu{cpu}/cpu_capacity:{1024 if cpu < 16 else 400}\n" for cpu in range(24)),
            ("capacity 1024", "capacity 400"),
        ),
        (
            "".join(f"cpu/cpu{cpu}/cache/index3/size:{98304 if cpu < 16 else 32768}K\n" for cpu in range(24)),
            ("L3 98304 KiB, 2 threads a core", "L3 32768 KiB, 1 thread a core"),
        ),
    ],
)
def test_the_kinds_of_cpu_are_read_the_fastest_first(told: str, names: tuple[str, ...]) -> None:
    assert layouts.parse_layout(HYBRID + told).kinds == tuple(zip(names, (FAST, SLOW), strict=True))


def test_cpus_that_are_all_alike_are_of_no_kind() -> None:
    cores = "core 0-1\ncore 2-3\n"
    assert layouts.parse_layout(cores).kinds == ()
    assert layouts.parse_layout(cores + "".join(f"cpu/cpu{n}/cpu_capacity:1024\n" for n in range(4))).kinds == ()


@pytest.mark.parametrize("servers", [1, 2, 3, 8, 20])
@pytest.mark.parametrize("vcpus", [1, 2, 4, 8, 16])
def test_servers_are_of_one_kind_and_clients_too_or_a_warning_tells(vcpus: int, servers: int) -> None:
    layout = layouts.parse_layout(HYBRID)
    share = allocation.assign_cpus(list(range(24)), vcpus, servers, None, None, layout)
    of_servers = {cpu for text in share.servers for cpu in cpu_lists.parse(text)}
    assert len(layout.name_kinds(cpu_lists.parse(share.clients))) == 1
    mixed = len(layout.name_kinds(of_servers)) > 1
    assert mixed == any(one.code == "cpu-kinds-mixed" for one in allocation.find_warnings(share, layout))
    if vcpus * servers <= 16:
        assert not mixed
    if -(-vcpus // 2) * servers < 8:
        assert of_servers <= FAST
        assert len(cpu_lists.parse(share.clients)) >= 8


def test_a_study_that_names_cpus_of_two_kinds_is_warned() -> None:
    layout = layouts.parse_layout(HYBRID)
    share = allocation.assign_cpus(list(range(24)), 2, 1, "15-16", None, layout)
    (warning,) = allocation.find_warnings(share, layout)
    assert warning.text == "servers have CPUs of several kinds: 15 (2 threads a core); 16 (1 thread a core)"


async def test_the_layout_of_this_host_is_found() -> None:
    found = await layouts.read(LocalSite())
    files = ("cpu/cpu[0-9]*/topology/thread_siblings_list", "node/node[0-9]*/cpulist")
    for sets, name in zip((found.cores, found.nodes), files, strict=True):
        told = {file.read_text() for file in Path("/sys/devices/system").glob(name)}
        assert set(sets) == {frozenset(cpu_lists.parse(text)) for text in told if text.strip()}


AVAILABLE = st.sets(st.integers(0, 63), min_size=1)
FEW = st.integers(1, 8)


@st.composite
def layouts_drawn(draw: st.DrawFn) -> Layout:
    """Of 64 CPUs in any order, cores of one to four threads and one to four nodes of whole cores."""
    numbers = draw(st.permutations(range(64)))
    threads, nodes = draw(st.sampled_from([1, 2, 4])), draw(st.sampled_from([1, 2, 4]))
    cores = [frozenset(numbers[first : first + threads]) for first in range(0, 64, threads)]
    size = len(cores) // nodes
    together = [frozenset().union(*cores[node * size : (node + 1) * size]) for node in range(nodes)]
    return Layout(tuple(cores), tuple(together))


@given(AVAILABLE, FEW, FEW, st.one_of(st.just(UNKNOWN), layouts_drawn()))
def test_nobody_is_given_a_cpu_that_is_not_there(available: set[int], vcpus: int, servers: int, layout: Layout) -> None:
    share = allocation.assign_cpus(sorted(available), vcpus, servers, None, None, layout)
    assert len(share.servers) == servers
    for text in (*share.servers, share.clients):
        assert cpu_lists.parse(text)
        assert set(cpu_lists.parse(text)) <= available
    if len(available) >= vcpus:
        assert {len(cpu_lists.parse(text)) for text in share.servers} == {vcpus}
    if len(available) > vcpus * servers:
        taken = [cpu for text in share.servers for cpu in cpu_lists.parse(text)]
        assert len(taken) == len(set(taken)), "each has its own"
        assert not set(taken) & set(cpu_lists.parse(share.clients))


@given(FEW, FEW, layouts_drawn())
def test_whole_cores_of_one_node_while_there_are_enough(vcpus: int, servers: int, layout: Layout) -> None:
    share = allocation.assign_cpus(list(range(64)), vcpus, servers, None, None, layout)
    threads = len(layout.cores[0])
    needed = -(-vcpus // threads)
    cores = [{layout.core(cpu) for cpu in cpu_lists.parse(text)} for text in (*share.servers, share.clients)]
    if needed * servers < len(layout.cores):
        assert sum(map(len, cores)) == len(set().union(*cores)), "nobody has a core in common with another"
        assert allocation.find_warnings(share, layout) == []
        assert all(len(mine) == needed for mine in cores[:-1])
    if needed * servers <= len(layout.nodes[0]) // threads:
        assert all(len({layout.node(cpu) for cpu in cpu_lists.parse(text)}) == 1 for text in share.servers)


@given(AVAILABLE, FEW, FEW)
def test_where_nothing_is_known_of_cores_each_cpu_is_one(available: set[int], vcpus: int, servers: int) -> None:
    each = Layout(tuple(frozenset({cpu}) for cpu in range(64)), (frozenset(range(64)),))
    asked = (sorted(available), vcpus, servers, None, None)
    assert allocation.assign_cpus(*asked, each) == allocation.assign_cpus(*asked)
    highest = sorted(available, reverse=True)
    assert cpu_lists.parse(allocation.assign_cpus(*asked).servers[0]) == sorted(highest[:vcpus])


NUMBERS = st.sets(st.integers(0, 7))


@given(NUMBERS, NUMBERS, st.integers(1, 8), st.integers(1, 3), st.booleans())
def test_as_many_can_be_had_as_the_checks_count(
    available: set[int], isolated: set[int], vcpus: int, servers: int, kept_free: bool
) -> None:
    assume(available)
    layout = Layout(isolated=frozenset(isolated))
    usable = layout.usable(sorted(available), kept_free)
    share = allocation.assign_cpus(sorted(available), vcpus, servers, None, None, layout, kept_free)
    assert {len(cpu_lists.parse(text)) for text in share.servers} == {min(vcpus, len(usable))}
    assert set().union(*map(cpu_lists.parse, share.servers)) <= set(usable)
    assert cpu_lists.parse(share.clients) and set(cpu_lists.parse(share.clients)) <= available


def most_ending_in(isolated: set[int], cpus: frozenset[int], vcpus: int, servers: int) -> int:
    """Of so many servers with CPUs of their own, how many can have an isolated one as their last; by trying all."""
    if not servers:
        return 0
    tries = (set(one) for one in itertools.combinations(sorted(cpus), vcpus) if one[-1] in isolated)
    return max((1 + most_ending_in(isolated, cpus - one, vcpus, servers - 1) for one in tries), default=0)


@st.composite
def eight_drawn(draw: st.DrawFn) -> Layout:
    """Of eight CPUs in any order, cores of one or two threads and one or two nodes of whole cores, some kept free."""
    numbers = draw(st.permutations(range(8)))
    threads, nodes = draw(st.sampled_from([1, 2])), draw(st.sampled_from([1, 2]))
    cores = [frozenset(numbers[first : first + threads]) for first in range(0, 8, threads)]
    together = [frozenset(numbers[first : first + 8 // nodes]) for first in range(0, 8, 8 // nodes)]
    return Layout(tuple(cores), tuple(together), frozenset(draw(NUMBERS)))


@settings(max_examples=2 * settings().max_examples)
@example(Layout(tuple(frozenset({cpu, cpu + 3}) for cpu in range(3)), isolated=frozenset({2, 5})), 6, 3, 2)
@example(Layout(isolated=frozenset({1, 2, 3, 7})), 8, 3, 2)
@given(eight_drawn(), st.integers(1, 8), st.integers(1, 4), st.integers(1, 3))
def test_as_many_servers_end_in_what_is_kept_free_as_can(layout: Layout, on: int, vcpus: int, servers: int) -> None:
    cpus = frozenset(range(on))
    layout = replace(layout, isolated=layout.isolated & cpus)
    available = sorted(cpus - layout.isolated) or [0]
    usable = frozenset(layout.usable(available, kept_free=True))
    assume(vcpus * servers <= len(usable))
    share = allocation.assign_cpus(available, vcpus, servers, None, None, layout, kept_free=True)
    sets = list(map(cpu_lists.parse, share.servers))
    assert sum(map(len, sets)) == len(set().union(*sets)) == vcpus * servers, "each has its own"
    ending = [cpus[-1] in layout.isolated for cpus in sets]
    assert sum(ending) == most_ending_in({*layout.isolated}, usable, vcpus, servers)
