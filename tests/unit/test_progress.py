"""When a treatment has had its last chance: three attempts running with a trial that is not ok, in whatever order."""

from collections.abc import Iterable
from itertools import permutations

import pytest

from nearmetal.model import TrialAddress, TrialRecord, TrialStatus
from nearmetal.run.progress import Progress

GOOD, BAD = TrialStatus.OK, TrialStatus.FAILED


def record(workload: str, status: TrialStatus, block: int, attempt: int) -> TrialRecord:
    trial = TrialAddress(
        id=f"{workload}-{block}-{attempt}",
        block=block,
        attempt=attempt,
        position=0,
        repeat=0,
        treatment={"environment": "mock"},
        workload=workload,
    )
    return TrialRecord(trial=trial, site="local", boot=None, status=status)


def withdrawn_after(attempts: Iterable[Iterable[TrialStatus]]) -> int | None:
    """After how many trials, each attempt's in their order; None for never."""
    progress, trials = Progress(), 0
    for number, statuses in enumerate(attempts):
        for place, status in enumerate(statuses):
            trials += 1
            if progress.add(record(f"w{place}", status, number // 3, number % 3)) is not None:
                return trials
    return None


@pytest.mark.parametrize("order", sorted({*permutations([GOOD, GOOD, BAD])}))
def test_an_attempt_with_a_bad_trial_is_bad_wherever_in_it_the_trial_comes(order: tuple[TrialStatus, ...]) -> None:
    assert withdrawn_after([order] * 8) == 6 + order.index(BAD) + 1


@pytest.mark.parametrize("first", [(GOOD, BAD), (BAD, GOOD)])
@pytest.mark.parametrize("second", [(GOOD, BAD), (BAD, GOOD)])
@pytest.mark.parametrize("third", [(GOOD, BAD), (BAD, GOOD)])
def test_each_attempt_has_an_order_of_its_own(
    first: tuple[TrialStatus, ...], second: tuple[TrialStatus, ...], third: tuple[TrialStatus, ...]
) -> None:
    assert withdrawn_after([first, second, third]) == 4 + third.index(BAD) + 1


def test_a_good_attempt_between_begins_the_count_anew() -> None:
    good, bad = (GOOD, GOOD), (GOOD, BAD)
    assert withdrawn_after([bad, bad, good, bad, bad, good]) is None
    assert withdrawn_after([bad, bad, good, bad, bad, bad]) == 12


def test_it_is_withdrawn_once() -> None:
    progress = Progress.from_lines(record("web", BAD, block, 0) for block in range(3))
    assert progress.add(record("web", BAD, 3, 0)) is None
    assert progress.withdrawn == [{"environment": "mock"}]
