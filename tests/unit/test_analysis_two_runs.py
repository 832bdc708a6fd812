"""Two runs of a study: what changed, what else was not the same, and what a gate goes by."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nearmetal.analysis.apart import apart
from nearmetal.analysis.results import Verdict
from nearmetal.analysis.two_runs import Change, Ran, compare, is_worse
from nearmetal.model import Response
from nearmetal.store.folder import RunFolder
from tests.analysed import manifest, plain, ratio, whole_run, wobble

GOLDEN = Path(__file__).parents[1] / "golden" / "run"

Value = Callable[[int, str], float]


def ran(value: Value, response: Callable[[float], Response] = ratio, **design: Any) -> Ran:
    of = manifest(**design)
    return Ran(of, whole_run(of, lambda block, arm, _: value(block, arm), response))


def steady(block: int, arm: str) -> float:
    return 100.0 * (0.5 if arm == "docker" else 1.0) * (1 + wobble(block + (17 if arm == "docker" else 0), 0.002))


def changes(before: Ran, after: Ran) -> dict[str, Change]:
    found = compare(before, after, ("one", "two"))
    return {
        f"{change.treatment['environment']}" + (" vs host" if change.of == "contrast" else ""): change
        for change in found.changes
    }


def test_what_the_whole_host_did_is_a_change_of_treatments_and_none_of_what_they_cost() -> None:
    slower = changes(ran(steady), ran(lambda block, arm: 0.8 * steady(block, arm)))
    assert set(slower) == {"host", "docker", "docker vs host"}
    assert {slower[name].verdict for name in ("host", "docker")} == {Verdict.DIFFERENT}
    assert slower["host"].ratio == pytest.approx(0.8, rel=0.01)
    assert slower["docker vs host"].verdict is Verdict.EQUIVALENT
    assert slower["docker vs host"].ratio == pytest.approx(1.0, rel=0.01)
    assert [is_worse(slower[name]) for name in ("host", "docker", "docker vs host")] == [True, True, False]


def test_what_became_dearer_is_told_of_the_treatment_and_against_its_reference() -> None:
    dearer = changes(ran(steady), ran(lambda block, arm: steady(block, arm) * (0.9 if arm == "docker" else 1.0)))
    assert dearer["host"].verdict is Verdict.EQUIVALENT
    assert is_worse(dearer["docker"]) and is_worse(dearer["docker vs host"])
    assert dearer["docker vs host"].ratio == pytest.approx(0.9, rel=0.01)


def test_better_is_not_worse() -> None:
    quicker = changes(ran(steady), ran(lambda block, arm: 1.2 * steady(block, arm)))
    assert not any(is_worse(change) for change in quicker.values())


def test_the_level_is_shared_and_blocks_need_not_be_as_many() -> None:
    found = changes(ran(steady), ran(steady, blocks=12, alpha=0.03))
    assert {change.level for change in found.values()} == {0.01}
    assert {(change.blocks_before, change.blocks) for change in found.values()} == {(8, 12)}


def test_differences_have_a_margin_of_what_was() -> None:
    """Shares of errors: 10 points more is far beyond 2 % of what they were."""
    before = ran(lambda block, arm: 0.2 + wobble(block, 0.001), plain)
    after = ran(lambda block, arm: 0.3 + wobble(block + 3, 0.001), plain)
    found = changes(before, after)
    assert found["host"].difference == pytest.approx(0.1, abs=0.01)
    assert found["host"].equivalence == pytest.approx((-0.004, 0.004), abs=1e-4)
    assert is_worse(found["host"]) and not is_worse(found["docker vs host"])


def test_what_has_no_ratio_is_left_undecided() -> None:
    found = changes(ran(steady), ran(lambda block, arm: 0.0 if arm == "docker" else 100.0))
    assert (found["docker"].verdict, found["docker"].reason) == (Verdict.UNDECIDED, "not-positive")
    assert not is_worse(found["docker"])


def test_runs_without_anything_in_common() -> None:
    other = manifest(["vm", "metal"])
    assert compare(ran(steady), Ran(other, []), ("one", "two")).changes == ()


def test_what_else_is_not_the_same_is_told_but_for_what_cannot_matter() -> None:
    before, after = ran(steady), ran(steady, blocks=12, seed=7, repeats=1)
    study = after.manifest.study
    slower = study.model_copy(update={"machine": study.machine.model_copy(update={"vcpus": 2})})
    update = {"study": slower, "versions": {"qemu": "9"}, "host": {"kernel": {"release": "6.12"}}}
    later = Ran(after.manifest.model_copy(update=update), after.records)
    earlier = Ran(before.manifest.model_copy(update={"host": {"kernel": {"release": "6.1"}}}), before.records)
    rows = compare(earlier, later, ("one", "two")).apart
    told = {(row.group, row.fact): dict(row.values) for row in rows}
    assert told == {
        ("study", "machine.vcpus"): {"before": "1", "after": "2"},
        ("software", "qemu"): {"after": "9"},
        ("kernel", "release"): {"before": "6.1", "after": "6.12"},
    }


def test_what_is_the_same_is_not_among_what_is_not() -> None:
    known = RunFolder.open(GOLDEN).manifest()
    programs = {"binaries": {"/usr/sbin/lighttpd": "0c" * 32, "/usr/bin/sysbench": "1d" * 32}}
    with_programs = [facts.model_copy(update={"facts": {**facts.facts, **programs}}) for facts in known.fairness]
    same = known.model_copy(update={"fairness": tuple(with_programs)})
    assert with_programs and list(apart(same, same)) == []


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("before", "after", "response", "because_of"),
    [
        ((-1e308, 1e308), (1.0, 1.0), plain, "before"),
        ((1.0, 1.0), (1e308, -1e308), plain, "after"),
        ((-1e308, 0.0), (1e308, 0.0), plain, "after"),
        ((5e-324, 1.0), (1.7e308, 1.0), ratio, "after"),
    ],
)
def test_a_change_that_leaves_the_numbers_is_undecided(
    before: tuple[float, float], after: tuple[float, float], response: Callable[[float], Response], because_of: str
) -> None:
    """Of docker and of the host, whose difference or ratio is what may change."""

    def of(sides: tuple[float, float]) -> Ran:
        return ran(lambda block, arm: sides[arm != "docker"], response)

    found = compare(of(before), of(after), ("one", "two"))
    (change,) = [change for change in found.changes if change.of == "contrast"]
    assert (change.verdict, change.reason, change.because_of) == (Verdict.UNDECIDED, "not-finite", because_of)
    assert (change.ratio, change.difference, change.interval, change.equivalence, change.p) == (None,) * 5
    assert found.unjudged == (because_of == "after")


def test_where_no_reference_is_shared_a_gate_goes_by_treatments_alone() -> None:
    before, after = ran(steady), ran(lambda block, arm: 0.8 * steady(block, arm))
    lone = after.manifest.model_copy(update={"plan": after.manifest.plan.model_copy(update={"contrasts": ()})})
    found = compare(before, Ran(lone, after.records), ("one", "two"))
    assert {change.of for change in found.changes} == {"treatment"}
    assert found.worse == 2


# ── What a gate cannot judge ──────────────────────────────────────────────────────────────────────────────────────


def lower(value: float, **more: Any) -> Response:
    return Response(value=value, unit="s", better="lower", **more)


@pytest.mark.parametrize("better", [ratio, lower], ids=["higher", "lower"])
@pytest.mark.parametrize(("value", "reason"), [(0.0, "not-positive"), (-1.0, "not-positive"), (np.nan, "not-finite")])
@pytest.mark.parametrize("of", ["docker", "host"])
def test_values_without_a_ratio_do_not_pass_a_gate(
    better: Callable[[float], Response], value: float, reason: str, of: str
) -> None:
    """A throughput of 0 is the worst there is, a time of 0 was not measured; and so with what all is held against."""
    good = ran(steady, better)
    bad = ran(lambda block, arm: value if (block, arm) == (3, of) else steady(block, arm), better)
    found = compare(good, bad, ("one", "two"))
    assert (found.worse, found.gone, found.unjudged) == (0, 0, 1)
    costs = next(change for change in found.changes if change.of == "contrast")
    assert (costs.reason, costs.because_of) == (reason, "after")
    assert compare(bad, good, ("one", "two")).unjudged == 0, "what was not known before is no fault of the run after"
    assert compare(bad, bad, ("one", "two")).unjudged == 0


def test_on_a_difference_scale_zero_is_a_value_like_others() -> None:
    some = ran(lambda block, arm: 0.2 + wobble(block, 0.001) if arm == "docker" else 0.0, plain)
    none = ran(lambda block, arm: 0.0, plain)
    better, worse = compare(some, none, ("one", "two")), compare(none, some, ("one", "two"))
    assert (better.worse, better.unjudged, worse.worse, worse.unjudged) == (0, 0, 1, 0)


@pytest.mark.parametrize(
    ("of", "response", "censored", "unjudged"),
    [
        ("docker", ratio, "right", 0),
        ("docker", ratio, "left", 1),
        ("docker", lower, "right", 1),
        ("docker", lower, "left", 0),
        ("host", ratio, "right", 1),
        ("host", ratio, "left", 0),
    ],
)
def test_what_lies_beyond_what_was_tried_passes_a_gate_where_it_can_but_be_better(
    of: str, response: Callable[..., Response], censored: str, unjudged: int
) -> None:
    before = ran(steady, response)
    records = [
        record.model_copy(update={"responses": {"throughput": response(100.0, censored=censored)}})
        if record.trial.treatment["environment"] == of
        else record
        for record in before.records
    ]
    found = compare(before, Ran(before.manifest, records), ("one", "two"))
    assert found.unjudged == unjudged
    assert {change.reason for change in found.changes if change.treatment["environment"] == "docker"} >= {"censored"}


def test_another_unit_does_not_pass_a_gate() -> None:
    percent = ran(steady, lambda value: Response(value=value, unit="%", better="higher"))
    found = compare(ran(steady), percent, ("one", "two"))
    assert ({change.reason for change in found.changes}, found.unjudged) == ({"units-differ"}, 1)


def without(ran_: Ran, blocks: int) -> Ran:
    """So many blocks have no value of docker's, although their trials are ok."""
    records = [
        record.model_copy(update={"responses": {}})
        if record.trial.treatment["environment"] == "docker" and record.trial.block < blocks
        else record
        for record in ran_.records
    ]
    return Ran(ran_.manifest, records)


def test_values_that_are_not_there_do_not_pass_a_gate() -> None:
    found = compare(ran(steady), without(ran(steady), 8), ("one", "two"))
    assert (found.gone, found.unjudged) == (1, 0)
    few = compare(ran(steady), without(ran(steady), 6), ("one", "two"))
    assert (few.gone, few.unjudged) == (0, 1)
    costs = next(change for change in few.changes if change.of == "contrast")
    assert (costs.reason, costs.because_of, costs.blocks) == ("too-few-blocks", "after", 2)
    assert [warning.text for warning in costs.warnings] == ["2 of 8 blocks of the run after have it"]
    some = compare(ran(steady), without(ran(steady), 1), ("one", "two"))
    costs = next(change for change in some.changes if change.of == "contrast")
    assert (some.unjudged, costs.verdict, len(costs.warnings)) == (0, Verdict.EQUIVALENT, 1)


@pytest.mark.parametrize(("scatter", "missing", "is_told"), [(4, 2, True), (4, 0, False), (1, 2, False)])
def test_fewer_blocks_that_scatter_more_are_warned_of(scatter: float, missing: int, is_told: bool) -> None:
    before = ran(lambda block, arm: 100 + (block % 4 - 1.5) * (arm == "docker"))
    after = without(ran(lambda block, arm: 100 + (block % 4 - 1.5) * scatter * (arm == "docker")), missing)
    costs = next(one for one in compare(before, after, ("one", "two")).changes if one.of == "contrast")
    found = [warning.text for warning in costs.warnings if warning.code == "scatter-unlike"]
    assert bool(found) == is_told
    assert all("the run after has fewer blocks, and they scatter" in text for text in found)


def codes(change: Change) -> list[str]:
    return [warning.code for warning in change.warnings]


@pytest.mark.parametrize(("fewer", "more", "is_told"), [(8, 12, True), (8, 11, False), (8, 8, False), (2, 12, False)])
def test_numbers_of_blocks_that_are_unlike_are_warned_of_where_anything_is_tested(
    fewer: int, more: int, is_told: bool
) -> None:
    """So few blocks hardly show that they scatter more."""
    few, many = ran(steady, blocks=fewer), ran(steady, blocks=more)
    for before, after, which in ((few, many, "before"), (many, few, "after")):
        for change in changes(before, after).values():
            assert codes(change) == ["blocks-unlike"] * is_told
            assert all(f"{fewer} blocks of the run {which} against {more}" in one.text for one in change.warnings)


def test_fewer_blocks_that_are_seen_to_scatter_more_are_told_as_that_alone() -> None:
    before = ran(lambda block, arm: 100 + (block % 4 - 1.5) * (arm == "docker"), blocks=16)
    after = ran(lambda block, arm: 100 + (block % 4 - 1.5) * 4 * (arm == "docker"), blocks=8)
    assert codes(changes(before, after)["docker vs host"]) == ["scatter-unlike"]


def test_few_blocks_that_were_planned_so_pass_a_gate() -> None:
    """As they show little, and say so."""
    found = compare(ran(steady, blocks=2), ran(steady, blocks=2), ("one", "two"))
    assert ({change.reason for change in found.changes}, found.unjudged) == ({"too-few-blocks"}, 0)
    assert compare(without(ran(steady), 6), ran(steady), ("one", "two")).unjudged == 0


# ── How the runs came to their end ────────────────────────────────────────────────────────────────────────────────


def stopped(after: int) -> Ran:
    """A run of 8 to 40 blocks, which had seen enough at a look."""
    whole = ran(steady, blocks={"min": 8, "max": 40})
    number = next(number for number, look in enumerate(whole.manifest.plan.looks, 1) if look.blocks == after)
    look = {"event": "LookTaken", "look": number, "blocks": after, "decided": 1, "undecided": 0, "stops": True}
    records = [record for record in whole.records if record.trial.block < after]
    return Ran(whole.manifest, records, [{"event": "RunStarted"}, look, {"event": "RunEnded", "interrupted": False}])


def warned(before: Ran, after: Ran) -> list[tuple[str, str]]:
    return [(warning.code, warning.run) for warning in compare(before, after, ("one", "two")).warnings]


def test_a_run_that_stopped_at_a_look_before_its_last_is_warned_of() -> None:
    """What made it stop was its values: of runs that do not differ more than the level says are called different."""
    early, late, fixed = stopped(12), stopped(40), ran(steady, blocks=12)
    assert warned(early, fixed) == [("stopped-at-a-look", "before")]
    assert warned(fixed, early) == [("stopped-at-a-look", "after")]
    assert warned(early, stopped(16)) == [("stopped-at-a-look", "before"), ("stopped-at-a-look", "after")]
    assert warned(late, fixed) == []
    (warning, _) = compare(early, early, ("one", "two")).warnings
    assert "after 12 of at most 40 blocks" in warning.text


def test_a_run_that_has_not_come_to_its_end_is_warned_of() -> None:
    whole = ran(steady)
    half = Ran(
        whole.manifest,
        [record for record in whole.records if record.trial.block < 4],
        [{"event": "RunStarted"}, {"event": "RunEnded", "interrupted": True}],
    )
    assert warned(whole, half) == [("unfinished", "after"), ("blocks-missing", "after")]
    assert warned(half, whole) == [("unfinished", "before"), ("blocks-missing", "before")]
