"""What the boot before does: found where it was put in, and no more often than said where it was not."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from nearmetal.analysis.carryover import CarryoverEffects, find_carryover_p
from nearmetal.analysis.contrasts import matched_contrasts
from nearmetal.analysis.responses import arms_of_study
from nearmetal.model import BlockPlan, Plan, Response, TrialPlan, TrialRecord
from nearmetal.planning import plan as planning
from nearmetal.study.blocks import plan_blocks
from nearmetal.study.study_file import read
from tests.analysis_inputs import plan_records, ratio

STUDY = """
name = "carried"
reference = { environment = "a" }
[environments.a]
kind = "mock"
[environments.b]
kind = "mock"
[environments.c]
kind = "mock"
[factors]
environment = ["a", "b", "c"]
[[workloads]]
name = "web"
kind = "http"
[design]
seed = 3
blocks = 12
share_boot = false
"""
SECOND = STUDY.replace("[design]", '[[workloads]]\nname = "again"\nkind = "http"\n[design]')


def records(plan: Plan, carried: float) -> list[TrialRecord]:
    """Boots vary by 1 %. A boot after one of `b` is slower by `carried`."""
    generator = np.random.default_rng(1)

    def make_responses(block: BlockPlan, number: int, trial: TrialPlan) -> dict[str, Response]:
        is_after_b = number >= 1 and block.boots[number - 1].treatment["environment"] == "b"
        return {"throughput": ratio(1000 * (1 - carried * is_after_b) * float(np.exp(generator.normal(0, 0.01))))}

    return plan_records(plan, make_responses)


def codes(plan: Plan, kept: Sequence[TrialRecord], design: Any) -> list[list[str]]:
    arms = arms_of_study(kept, design)
    effects = CarryoverEffects(arms)
    found = matched_contrasts(plan, arms, plan.primaries, 0.05, 0.02)
    primary = [matched.contrast for matched in found if matched.contrast.primary]
    return [[one.code for one in effects.about(contrast, "throughput")] for contrast in primary]


@pytest.mark.parametrize("text", [STUDY, SECOND, SECOND.replace("share_boot = false", "share_boot = true")])
def test_what_a_boot_leaves_behind_is_warned_of(text: str) -> None:
    study = read(text, "carried")
    plan = planning.make_plan(study)
    told = codes(plan, records(plan, 0.05), study.design)
    assert len(told) == len(plan.contrasts) and all(one == ["predecessor"] for one in told)
    assert not any(codes(plan, records(plan, 0.0), study.design))


def test_two_treatments_and_few_blocks_tell_nothing() -> None:
    for text in (STUDY.replace('"a", "b", "c"', '"a", "b"'), STUDY.replace("blocks = 12", "blocks = 5")):
        study = read(text, "carried")
        plan = planning.make_plan(study)
        assert not any(codes(plan, records(plan, 0.5), study.design))


def test_false_alarms_are_as_seldom_as_the_level_says() -> None:
    """500 runs of noise with drift; 5 % have a p of 5 % or less, give or take three standard errors."""
    plan = planning.make_plan(read(STUDY, "carried"))
    orders = [[str(boot.treatment["environment"]) for boot in block.boots] for block in plan_blocks(plan)]
    before = [
        ["abc".find(order[order.index(one) - 1]) if order.index(one) else -1 for one in "abc"] for order in orders
    ]
    generator = np.random.default_rng(4)
    drift = np.linspace(0, 5, 12)[:, None]
    p = [find_carryover_p(generator.normal(size=(12, 3)) + drift, before) for _ in range(500)]
    assert np.mean(np.array(p) <= 0.05) == pytest.approx(0.05, abs=0.03)
