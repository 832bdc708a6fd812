"""A guest that does not answer is livelocked only if its vCPUs had time to answer."""

import time

import pytest

from nearmetal.lab.qemu import livelock
from nearmetal.lab.qemu.livelock import Spinning


@pytest.mark.parametrize(
    ("spent", "waited", "is_lost"),
    [
        ([[0.0, 0.0], [2.0, 6.0]], 7.0, True),
        ([[5.0], [5.9]], 20.0, False),  # its host is busy
        ([[0.0, 0.0], [0.1, 9.0]], 20.0, False),  # one of them waits
        ([[0.0], [9.0]], 2.0, False),  # not long enough
        ([[], []], 20.0, False),  # it is gone
        ([[0.0], [9.0, 9.0]], 20.0, False),
    ],
)
def test_a_guest_is_livelocked_if_its_cpus_had_time_to_answer(
    spent: list[list[float]], waited: float, is_lost: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = iter(spent)
    monkeypatch.setattr(livelock, "read_vcpus", lambda pid: next(told))
    seen, asked = Spinning(1), time.monotonic() - waited
    assert seen.look(asked, "nm-a-1") is None, "what it had before is not known"
    lost = seen.look(asked, "nm-a-1")
    assert (lost is not None) == is_lost and (lost is None or f"for {waited:.0f} s" in lost.what)


def test_one_that_has_answered_meanwhile_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    told = iter([[0.0], [9.0], [18.0], [18.5]])
    monkeypatch.setattr(livelock, "read_vcpus", lambda pid: next(told))
    seen, asked = Spinning(1), time.monotonic() - 20
    assert [seen.look(one, "a") for one in (asked, None, asked + 1, asked + 1)] == [None] * 4


def test_only_threads_that_are_vcpus_count() -> None:
    assert livelock.read_vcpus(1) == []
    assert livelock.read_vcpus(2**22 + 1) == []
