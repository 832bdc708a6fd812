"""Noise of comparisons between and within boots, and the repeats that follow: against what was put in."""

import math
from collections.abc import Mapping
from dataclasses import asdict

import numpy as np
import pytest

from nearmetal.analysis.paired_noise import (
    MOST_REPEATS,
    choose_repeats,
    choose_repeats_together,
    measure_noise,
    scale_noise,
)
from nearmetal.model import Response, TrialRecord
from nearmetal.planning import plan as planning
from nearmetal.store.manifest import Manifest
from nearmetal.study.blocks import plan_blocks
from nearmetal.study.study_file import read

STUDY = """
name = "varied"
reference = { environment = "base" }
[environments.base]
kind = "mock"
[environments.other]
kind = "mock"
[factors]
environment = ["base", "other"]
[[workloads]]
name = "web"
kind = "http"
[design]
repeats = 3
"""
BOOT, TRIAL = 0.03, 0.05


def manifest(blocks: int, *overrides: str) -> Manifest:
    study = read(STUDY, "varied", [f"design.blocks={blocks}", *overrides])
    host: Mapping[str, object] = {"kernel": {"release": "6.1-made-up"}}
    made = "2025-03-01T12:00:00+00:00"
    return Manifest(
        run="r", created=made, study=study, source="", plan=planning.make_plan(study), versions={}, host=host
    )


def records(of: Manifest) -> list[TrialRecord]:
    """Boots vary by BOOT, trials within them by TRIAL; a boot takes 9 s and a trial 1 s."""
    generator = np.random.default_rng(1)
    found = []
    for block in plan_blocks(of.plan):
        for number, boot in enumerate(block.boots):
            level = math.log(1000) + 0.1 * (boot.treatment["environment"] == "other") + generator.normal(0, BOOT)
            for trial in boot.trials:
                value = math.exp(level + generator.normal(0, TRIAL))
                phases = {"create": 9 * 10**9 + 1000 * block.index + number, "measure": 10**9 + trial.position}
                found.append(
                    TrialRecord.from_json(
                        {
                            "trial": {
                                "id": trial.id,
                                "block": block.index,
                                "attempt": 0,
                                "position": trial.position,
                                "repeat": trial.repeat,
                                "treatment": boot.treatment,
                                "workload": trial.workload,
                            },
                            "site": "local",
                            "boot": {"id": f"{block.index}-{number}", "how": "boot"},
                            "status": "ok",
                            "phases_ns": phases,
                            "responses": {"throughput": asdict(Response(value=value, unit="1/s", better="higher"))},
                        }
                    )
                )
    return found


def test_what_boots_and_trials_vary_is_told_apart() -> None:
    of = manifest(300)
    (found,) = measure_noise(of, records(of))
    assert found.components is not None
    assert found.components.between == pytest.approx(2 * BOOT**2, rel=0.25)
    assert found.components.within == pytest.approx(2 * TRIAL**2, rel=0.1)
    assert found.components.boot_seconds == pytest.approx(18, rel=0.001)
    assert found.components.trial_seconds == pytest.approx(2, rel=0.001)
    assert found.components.repeats == round(math.sqrt(9 * TRIAL**2 / BOOT**2))
    assert np.var(found.differences, ddof=1) == pytest.approx(2 * (BOOT**2 + TRIAL**2 / 3), rel=0.15)
    assert np.mean(found.differences) == pytest.approx(0, abs=1e-12)


def test_noise_is_that_of_a_study_which_repeats_otherwise() -> None:
    of = manifest(300)
    (found,) = measure_noise(of, records(of))
    for repeats in (1, 3, 12):
        expected = 2 * (BOOT**2 + TRIAL**2 / repeats)
        assert np.var(scale_noise(found, 3, repeats), ddof=1) == pytest.approx(expected, rel=0.15)
    unknown = found.model_copy(update={"components": None})
    assert scale_noise(unknown, 3, 1).tolist() == list(found.differences)


def test_single_trials_tell_nothing_of_what_varies_within_boots() -> None:
    of = manifest(12, "design.repeats=1")
    (found,) = measure_noise(of, records(of))
    assert found.components is None
    assert choose_repeats_together([found], share_boot=False) is None


def test_a_few_blocks_and_values_without_noise_tell_nothing() -> None:
    few = manifest(3)
    assert measure_noise(few, records(few)) == ()
    of = manifest(8)
    same = Response(value=5.0, unit="1/s", better="higher")
    alike = [one.model_copy(update={"responses": {"throughput": same}}) for one in records(of)]
    assert measure_noise(of, alike) == ()


@pytest.mark.parametrize(
    ("between", "within", "boot", "trial", "repeats"),
    [
        (1.0, 1.0, 4.0, 1.0, 2),
        (1.0, 4.0, 4.0, 1.0, 4),
        (1.0, 0.0, 4.0, 1.0, 1),
        (1.0, 0.01, 4.0, 1.0, 1),
        (0.0, 1.0, 4.0, 1.0, MOST_REPEATS),
        (1.0, 1.0, 4.0, 0.0, 1),
    ],
)
def test_repeats_by_their_cost(between: float, within: float, boot: float, trial: float, repeats: int) -> None:
    assert choose_repeats(between, within, boot, trial) == repeats


def test_repeats_of_a_whole_study_are_those_of_its_only_comparison() -> None:
    of = manifest(300)
    (found,) = measure_noise(of, records(of))
    assert found.components is not None
    assert choose_repeats_together([found], share_boot=False) == found.components.repeats
