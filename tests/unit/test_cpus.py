"""CPU lists, and who gets which."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearmetal import cpu_lists
from nearmetal.lab.cpus import sharing
from nearmetal.lab.site import LocalSite, available_cpus
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

    assert await available_cpus(Host()) == expected


@given(st.sets(st.integers(0, 300)))
def test_showing_and_reading_are_inverse(numbers: set[int]) -> None:
    assert cpu_lists.parse(cpu_lists.show(numbers)) == sorted(numbers)


def test_servers_get_the_highest_cpus_and_clients_the_rest() -> None:
    assert sharing.share([0, 1, 2, 3], 2, 1, None, None) == sharing.Share(("2-3",), "0-1")
    assert sharing.share([0, 1, 2, 3, 4], 2, 2, None, None) == sharing.Share(("3-4", "1-2"), "0")


def test_with_too_few_cpus_everybody_shares() -> None:
    assert sharing.share([0, 1], 2, 1, None, None) == sharing.Share(("0-1",), "0-1")
    assert sharing.share([0, 1], 1, 3, None, None) == sharing.Share(("1", "0", "1"), "0-1")


def test_what_the_study_names_is_taken() -> None:
    assert sharing.share([0, 1, 2, 3], 1, 2, "0", "3") == sharing.Share(("0", "0"), "3")


@given(st.sets(st.integers(0, 63), min_size=1), st.integers(1, 8), st.integers(1, 8))
def test_nobody_is_given_a_cpu_that_is_not_there(available: set[int], vcpus: int, servers: int) -> None:
    share = sharing.share(sorted(available), vcpus, servers, None, None)
    assert len(share.servers) == servers
    for text in (*share.servers, share.clients):
        assert cpu_lists.parse(text)
        assert set(cpu_lists.parse(text)) <= available
    if len(available) > vcpus * servers:
        taken = {cpu for text in share.servers for cpu in cpu_lists.parse(text)}
        assert not taken & set(cpu_lists.parse(share.clients))
