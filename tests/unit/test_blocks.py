"""The order of blocks: balanced over places and predecessors, drawn from the seed, and the old one for old plans."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import pytest

from nearmetal.model import BlockPlan, Plan
from nearmetal.planning import plan as planning
from nearmetal.study.blocks import checksum_trial_ids, plan_block, plan_blocks
from nearmetal.study.levels import format_assignment
from nearmetal.study.study_file import read

STUDY = """
name = "ordered"
reference = {{ n = 1 }}
[factors]
environment = ["mock"]
n = {levels}
[[workloads]]
name = "web"
kind = "http"
workers = "{{n}}"
[[workloads]]
name = "primes"
kind = "http"
[design]
seed = {seed}
blocks = {blocks}
share_boot = {share}
"""


def planned(treatments: int, blocks: int, share_boot: bool = True, seed: int = 1) -> Plan:
    text = STUDY.format(levels=list(range(1, treatments + 1)), seed=seed, blocks=blocks, share=str(share_boot).lower())
    return planning.make_plan(read(text, "ordered"))


def boots(block: BlockPlan) -> list[str]:
    return [f"{format_assignment(boot.treatment)} {sorted(t.workload for t in boot.trials)}" for boot in block.boots]


def places(orders: Sequence[Sequence[str]]) -> Counter[tuple[str, int]]:
    return Counter((one, place) for order in orders for place, one in enumerate(order))


def neighbours(orders: Sequence[Sequence[str]]) -> Counter[tuple[str, str]]:
    return Counter(pair for order in orders for pair in pairwise(order))


@pytest.mark.parametrize(("treatments", "share_boot"), [(2, True), (4, True), (10, True), (3, False), (5, False)])
def test_of_an_even_number_each_has_each_place_and_each_predecessor_once(treatments: int, share_boot: bool) -> None:
    n = treatments if share_boot else 2 * treatments
    orders = [boots(block) for block in plan_blocks(planned(treatments, 3 * n, share_boot))]
    for begin in (0, n, 2 * n):
        some = orders[begin : begin + n]
        assert len(places(some)) == n * n and set(places(some).values()) == {1}
        assert len(neighbours(some)) == n * (n - 1) and set(neighbours(some).values()) == {1}


@pytest.mark.parametrize("n", [3, 5, 9])
def test_of_an_odd_number_it_takes_twice_as_many_blocks(n: int) -> None:
    orders = [boots(block) for block in plan_blocks(planned(n, 2 * n))]
    assert set(places(orders[:n]).values()) == {1} == set(places(orders[n:]).values())
    assert len(neighbours(orders)) == n * (n - 1) and set(neighbours(orders).values()) == {2}


def test_the_workloads_of_a_boot_change_places_too() -> None:
    blocks = list(plan_blocks(planned(3, 12)))
    for number in (1, 2, 3):
        mine = [boot for block in blocks for boot in block.boots if boot.treatment["n"] == number]
        assert Counter(boot.trials[0].workload for boot in mine) == {"web": 6, "primes": 6}


def test_a_seed_decides_which_treatment_has_which_part_of_the_design() -> None:
    orders = Counter(tuple(boots(plan_block(planned(3, 6, seed=seed), 0))) for seed in range(150))
    assert len(orders) == 6 and min(orders.values()) > 10


def test_what_is_withdrawn_does_not_move_the_others() -> None:
    plan = planned(5, 10)
    kept = [one for one in plan.treatments if one["n"] != 2]
    for index in range(10):
        whole = [boot.treatment["n"] for boot in plan_block(plan, index).boots]
        without = [boot.treatment["n"] for boot in plan_block(plan, index, treatments=kept).boots]
        assert without == [number for number in whole if number != 2]


def test_a_repeated_block_is_ordered_as_it_was_before_orders_were_balanced() -> None:
    plan = planned(4, 4)
    drawn = plan.model_copy(update={"order": "drawn"})
    assert plan_block(plan, 2, attempt=1) == plan_block(drawn, 2, attempt=1)
    assert any(plan_block(plan, index) != plan_block(drawn, index) for index in range(4))


def test_no_order_changes_a_trial_id() -> None:
    plan = planned(4, 4)
    drawn = plan.model_copy(update={"order": "drawn"})
    assert checksum_trial_ids(plan) == checksum_trial_ids(drawn)
    for index in range(4):
        ids = [{trial.id for trial in plan_block(one, index).trials} for one in (plan, drawn)]
        assert ids[0] == ids[1]
