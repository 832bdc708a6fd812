"""Holm's steps: what is found once other contrasts of the family are, with intervals that agree."""

from collections.abc import Mapping

import pytest

from nearmetal.analysis.analyse import analyse, find_steps
from nearmetal.analysis.results import Contrast, Verdict
from tests.analysis_inputs import PRIMARIES, manifest, record
from tests.analysis_inputs import ratio as response

CLEAR = [0.5 + 0.01 * block for block in range(8)]
"""All eight blocks agree: p = 2 / 256."""
WEAK = [1.001, 1.002, *(0.95 - 0.01 * block for block in range(6))]
"""The two blocks of the least differences disagree: p = 10 / 256, between 0.05 / 2 and 0.05."""
NONE = [1.03, 0.98, 1.01, 0.97, 1.04, 0.99, 1.02, 0.96]


def conclude(docker: list[float], qemu: list[float], has_ended: bool = True) -> Mapping[str, Contrast]:
    of = manifest(("host", "docker", "qemu"), blocks=8, margin=0.001)
    sides = {"host": [1.0] * 8, "docker": docker, "qemu": qemu}
    records = [
        record(name, block, {"throughput": response(100 * value)})
        for name, values in sides.items()
        for block, value in enumerate(values)
    ]
    events = [{"event": "RunEnded", "interrupted": not has_ended}]
    contrasts = analyse(of, records, events, PRIMARIES).contrasts
    return {str(one.treatment["environment"]): one for one in contrasts if one.primary}


def test_a_contrast_is_found_by_its_step_with_the_interval_of_that_step() -> None:
    found = conclude(CLEAR, WEAK)
    assert found["docker"].verdict is Verdict.DIFFERENT and found["docker"].level == 0.025
    qemu = found["qemu"]
    assert (qemu.verdict, qemu.level, qemu.needs) == (Verdict.DIFFERENT, 0.05, None)
    assert qemu.p == pytest.approx(10 / 256)
    assert qemu.interval is not None and qemu.interval[1] < 1


def test_without_another_that_is_found_it_stays_undecided_at_its_share() -> None:
    qemu = conclude(NONE, WEAK)["qemu"]
    assert (qemu.verdict, qemu.level) == (Verdict.UNDECIDED, 0.025)
    assert qemu.interval is not None and qemu.interval[1] > 1


def test_what_no_step_finds_keeps_the_interval_of_its_share() -> None:
    qemu = conclude(CLEAR, NONE)["qemu"]
    assert (qemu.verdict, qemu.level) == (Verdict.UNDECIDED, 0.025)


@pytest.mark.parametrize(
    ("tested", "levels"),
    [
        ({0: 0.012, 1: 0.016, 2: 0.02, 3: 0.04}, {0: 0.0125, 1: 0.05 / 3, 2: 0.025, 3: 0.05}),
        ({0: 0.04, 1: 0.02, 2: 0.016, 3: 0.013}, {}),
        ({0: 0.04, 1: 0.001}, {1: 0.0125}),  # of two there is no test, and they keep their shares
        ({}, {}),
    ],
)
def test_levels_of_steps(tested: dict[int, float], levels: dict[int, float]) -> None:
    assert find_steps(tested, 4, 0.05) == pytest.approx(levels)


def test_nothing_is_found_before_the_run_has_ended() -> None:
    found = conclude(CLEAR, WEAK, has_ended=False)
    assert [(one.verdict, one.level) for one in found.values()] == [(Verdict.UNDECIDED, 0.025)] * 2
