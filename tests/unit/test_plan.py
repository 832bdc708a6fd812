"""The plan: everything once a block, in an order that only the seed decides, and what is compared with what."""

import json
import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearmetal import plugins
from nearmetal.analysis.sequential import looks
from nearmetal.errors import BadInput
from nearmetal.model import BlockPlan, Plan, Resolved, Study
from nearmetal.planning import plan
from nearmetal.run.estimate import estimate_plan, most_captured
from nearmetal.study.blocks import plan_block, plan_blocks
from nearmetal.study.levels import format_assignment
from nearmetal.study.study_file import read
from tests.unit.study_text import GOOD

SECOND = '\n[[workloads]]\nname = "sums"\nkind = "sysbench"\ntest = "cpu"\n[design]'


def made(text: str = GOOD, *overrides: str) -> Plan:
    return plan.make_plan(read(text, "s.toml", overrides))


def order(block: BlockPlan) -> list[str]:
    return [
        f"{format_assignment(boot.treatment)}: {trial.workload} {trial.repeat}"
        for boot in block.boots
        for trial in boot.trials
    ]


def test_each_block_has_everything_once() -> None:
    found = made(GOOD.replace("\n[design]", SECOND), "design.repeats=2")
    treatments = [format_assignment(one) for one in found.treatments]
    assert len(treatments) == 6
    wanted = Counter(f"{t}: {w} {r}" for t in treatments for w in ("web", "sums") for r in (0, 1))
    assert found.blocks == 6
    for block in plan_blocks(found):
        assert Counter(order(block)) == wanted
        assert [trial.position for boot in block.boots for trial in boot.trials] == list(range(24))
        assert all(len({trial.workload for trial in boot.trials}) == 1 for boot in block.boots)
        assert all([trial.repeat for trial in boot.trials] == [0, 1] for boot in block.boots)


def test_no_two_trials_have_the_same_id() -> None:
    found = made(GOOD.replace("\n[design]", SECOND), "design.repeats=2", "design.blocks=8")
    ids = [trial.id for block in plan_blocks(found) for boot in block.boots for trial in boot.trials]
    again = plan_block(found, 0, attempt=1)
    ids += [trial.id for boot in again.boots for trial in boot.trials]
    assert len(ids) == len(set(ids))


def test_a_shared_boot_runs_every_workload_in_an_order_of_its_own() -> None:
    found = made(GOOD.replace("\n[design]", SECOND), "design.share_boot=true", "design.blocks=10")
    orders = [tuple(trial.workload for trial in boot.trials) for block in plan_blocks(found) for boot in block.boots]
    assert set(orders) == {("web", "sums"), ("sums", "web")}


def test_the_same_seed_gives_the_same_plan_and_another_another() -> None:
    assert made() == made()
    one, other = made(), made(GOOD, "design.seed=2")
    assert [order(block) for block in plan_blocks(one)] != [order(block) for block in plan_blocks(other)]
    assert Counter(order(plan_block(one, 0))) == Counter(order(plan_block(other, 0)))
    assert order(plan_block(one, 0)) != order(plan_block(one, 1))


def test_an_attempt_has_an_order_of_its_own() -> None:
    first, second = (plan_block(made(), 0, attempt) for attempt in (0, 1))
    assert Counter(order(first)) == Counter(order(second))
    assert order(first) != order(second)


def test_the_order_of_tables_in_the_file_changes_nothing_that_runs() -> None:
    parts = GOOD.split("\n[")
    turned = made("\n[".join([parts[0], *reversed(parts[1:])]))
    for one, other in zip(plan_blocks(made()), plan_blocks(turned), strict=True):
        assert one == other


def test_the_order_is_what_it_was_when_this_was_written() -> None:
    """Golden: another version of Python, of a library or of this file must not reshuffle anybody's study."""
    found = made().model_copy(update={"study": "golden"})
    assert order(plan_block(found, 0)) == BALANCED
    block = plan_block(found.model_copy(update={"order": "drawn"}), 0)
    assert order(block) == GOLDEN
    assert [boot.trials[0].id for boot in block.boots][:2] == GOLDEN_IDS


BALANCED = [
    "environment=base workers=4: web 0",
    "environment=slow workers=4 nic=e1000: web 0",
    "environment=base workers=1: web 0",
    "environment=slow workers=1 nic=e1000: web 0",
    "environment=slow workers=1 nic=virtio-net: web 0",
    "environment=slow workers=4 nic=virtio-net: web 0",
]
GOLDEN = [
    "environment=slow workers=1 nic=virtio-net: web 0",
    "environment=base workers=4: web 0",
    "environment=slow workers=1 nic=e1000: web 0",
    "environment=base workers=1: web 0",
    "environment=slow workers=4 nic=e1000: web 0",
    "environment=slow workers=4 nic=virtio-net: web 0",
]
GOLDEN_IDS = ["de920089d08c90e8", "3abcb81c07d16461"]


def test_another_hash_seed_gives_the_same_plan() -> None:
    script = (
        "import sys; from nearmetal.planning import plan; from nearmetal.study import study_file as study; "
        "print(plan.make_plan(study.read(sys.stdin.read(), 's.toml')).model_dump_json())"
    )
    said = [
        subprocess.run(
            [sys.executable, "-c", script],
            input=GOOD,
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PATH": ""},
        ).stdout
        for seed in ("1", "2")
    ]
    assert said[0] == said[1]
    assert Plan.from_json(json.loads(said[0])) == made()


def test_positions_are_spread_over_blocks() -> None:
    """Every treatment stands at every place about as often: a random order, not a rotation and not the file's."""
    found = made(GOOD, "design.blocks=600")
    places: Counter[tuple[str, int]] = Counter()
    for block in plan_blocks(found):
        for place, boot in enumerate(block.boots):
            places[format_assignment(boot.treatment), place] += 1
    assert len(places) == 36
    assert min(places.values()) > 60 and max(places.values()) < 150


# ── What is compared ──────────────────────────────────────────────────────────────────────────────────────────────


def compared(found: Plan) -> list[tuple[str, str]]:
    return [(format_assignment(one.treatment), format_assignment(one.reference)) for one in found.contrasts]


def test_for_each_factor_in_the_reference_the_others_are_alike() -> None:
    text = GOOD.replace('reference = { environment = "base", workers = 1 }', 'reference = { environment = "base" }')
    assert compared(made(text)) == [
        ("environment=slow workers=1 nic=virtio-net", "environment=base workers=1"),
        ("environment=slow workers=1 nic=e1000", "environment=base workers=1"),
        ("environment=slow workers=4 nic=virtio-net", "environment=base workers=4"),
        ("environment=slow workers=4 nic=e1000", "environment=base workers=4"),
    ]
    assert made(text).level == 0.05 / 4


def test_a_nested_factor_in_the_reference_is_compared_where_it_exists() -> None:
    text = GOOD.replace("workers = 1 }", 'nic = "virtio-net" }')
    assert ("environment=slow workers=4 nic=e1000", "environment=slow workers=4 nic=virtio-net") in compared(made(text))


def test_without_a_reference_each_first_level_is_it() -> None:
    text = GOOD.replace('reference = { environment = "base", workers = 1 }', "")
    assert len(compared(made(text))) == 4 + 3 + 2
    assert all(one != other for one, other in compared(made(text)))


def test_a_reference_level_that_is_not_the_first() -> None:
    text = GOOD.replace("workers = 1 }", "workers = 4 }")
    assert ("environment=base workers=1", "environment=base workers=4") in compared(made(text))


def test_what_has_no_counterpart_left_is_not_compared() -> None:
    study = read(GOOD, "s.toml")
    without = [one for one in plan.make_plan(study).treatments if one["environment"] == "base"]
    assert all(one.reference["environment"] == "slow" for one in plan.make_plan(study, without).contrasts)


def test_true_and_one_are_not_taken_for_each_other() -> None:
    text = GOOD.replace("workers = [1, 4]", "workers = [1, 4]\nflag = [1, true]").replace("[[workloads]]", COMMAND)
    found = made(text.replace("workers = 1 }", "flag = 1 }"))
    assert any(one.treatment["flag"] is True and one.reference["flag"] == 1 for one in found.contrasts)
    assert len(found.treatments) == 12


COMMAND = """[[workloads]]
name = "c"
kind = "command"
argv = ["x", "{flag}"]
response = "y"
better = "higher"
json = "y"
[[workloads]]"""


def test_a_study_that_was_not_read_is_told_too() -> None:
    study = read(GOOD, "s.toml").model_copy(update={"reference": {"environment": "slow"}})
    with pytest.raises(BadInput, match="`nic` comes in"):
        plan.make_plan(study)


def test_one_at_a_time_compares_each_with_the_reference() -> None:
    found = made(GOOD, "design.crossing=one-at-a-time")
    assert ("environment=base workers=4", "environment=base workers=1") in compared(found)
    assert len(found.treatments) == 4


@pytest.mark.parametrize("alpha", [0.05, 0.05 / 2, 1 / 32, 1 / 33, 0.031, 0.032, 0.033, 0.0001])
def test_a_sequential_verdict_takes_as_many_blocks_as_its_last_look(alpha: float) -> None:
    enough = plan.enough_blocks(1, alpha, sequential=True)
    assert looks(1, enough, alpha)[-1].boundary is not None
    assert looks(1, enough - 1, alpha)[-1].boundary is None


@pytest.mark.parametrize(("contrasts", "blocks"), [(0, 6), (1, 6), (2, 7), (4, 8), (18, 10)])
def test_how_many_blocks_a_verdict_takes(contrasts: int, blocks: int) -> None:
    assert plan.enough_blocks(contrasts, 0.05) == blocks


@settings(max_examples=30)
@given(st.integers(1, 3), st.integers(1, 3), st.booleans(), st.integers(-(2**63), 2**63 - 1))
def test_plans_of_any_size_are_complete(blocks: int, repeats: int, share: bool, seed: int) -> None:
    study: Study = read(
        GOOD, "s.toml", [f"design={{blocks={blocks}, repeats={repeats}, share_boot={str(share).lower()}, seed={seed}}}"]
    )
    found = plan.make_plan(study)
    assert found.trials == blocks * repeats * 6
    assert Plan.from_json(json.loads(found.model_dump_json())) == found


def test_what_a_pretended_study_declares_takes_no_time() -> None:
    assert estimate_plan(made(GOOD)) < 0.2 * made(GOOD).trials
    assert estimate_plan(made(GOOD, "workloads.web.duration=1h")) == estimate_plan(made(GOOD))


def test_what_observers_add_is_in_the_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Resolved, "is_pretended", False)

    def seconds(*overrides: str) -> float:
        return estimate_plan(made(GOOD, *overrides))

    trials = made().trials
    assert seconds("observe.noise=true") - seconds() >= 2 * trials > 0
    # As a factor, in half of the trials.
    without, with_half = seconds("factors.capture=[false]"), seconds("factors.capture=[false, true]")
    assert with_half - 2 * without >= trials


def test_clients_and_servers_beside_the_first_are_in_the_estimate() -> None:
    def seconds(clients: str) -> float:
        overrides = (f"clients={{ {clients} }}",)
        return estimate_plan(made(GOOD, *overrides))

    boots = sum(len(block.boots) for block in plan_blocks(made()))
    ready = plugins.load("environments", "mock").typical_ready
    more = seconds("count = 500") - seconds("count = 1")
    assert more == pytest.approx(boots * 499 * ready / 2)
    assert seconds("count = 500, connect = 'pairs'") - seconds("count = 1") == pytest.approx(2 * more)


def test_what_captures_take_at_most_is_told_by_their_limit() -> None:
    def most(*overrides: str) -> int:
        return most_captured(made(GOOD, *overrides))

    trials, each = made().trials, "observe.capture={ limit = '1MiB' }"
    assert most("factors.capture=[false]") == 0
    assert most(each) == 2 * trials * 2**20
    assert most("factors.capture=[false, true]") == 2 * trials * 2**26
    assert most(each, "clients={ count = 3 }") == 4 * trials * 2**20
    assert most(each, "clients={ count = 3, connect = 'pairs' }") == 6 * trials * 2**20


def test_files_that_are_prepared_are_in_the_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Resolved, "is_pretended", False)
    loaded = 'kind = "http"\nworkers = "{workers}"'
    files = 'kind = "sysbench"\ntest = "fileio"\nthreads = "{workers}"\ntotal_size = '

    def seconds(size: str) -> float:
        one = read(GOOD.replace(loaded, f'{files}"{size}"').replace("throughput", "read"), "s.toml")
        return estimate_plan(plan.make_plan(one))

    trials = made().trials
    assert seconds("1100MiB") - seconds("100MiB") == pytest.approx(trials * 1000 * 2**20 / 1e8)
