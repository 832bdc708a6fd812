"""Two runs of a study: what changed, what else was not the same, and what a gate goes by."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from nearmetal.analysis import run_comparison
from nearmetal.analysis.changes import ResponseChange
from nearmetal.analysis.gates import parse_gate
from nearmetal.analysis.provenance import list_provenance_warnings
from nearmetal.analysis.results import Verdict
from nearmetal.analysis.run_comparison import Comparison, StoredRun, is_worse
from nearmetal.analysis.run_differences import list_differences
from nearmetal.model import Blame, Response, TrialStatus
from nearmetal.store.run_folder import RunFolder
from tests.analysis_inputs import manifest, plain, ratio, record, whole_run, wobble

GOLDEN = Path(__file__).parents[1] / "golden" / "run"

Value = Callable[[int, str], float]


def ran(value: Value, response: Callable[[float], Response] = ratio, **design: Any) -> StoredRun:
    of = manifest(**design)
    return StoredRun(of, whole_run(of, lambda block, arm, _: value(block, arm), response))


def steady(block: int, arm: str) -> float:
    return 100.0 * (0.5 if arm == "docker" else 1.0) * (1 + wobble(block + (17 if arm == "docker" else 0), 0.002))


def compare(before: StoredRun, after: StoredRun, *gates: str) -> Comparison:
    return run_comparison.compare([before], [after], gates=[parse_gate(one) for one in gates])


def changes(before: StoredRun, after: StoredRun) -> dict[str, ResponseChange]:
    found = compare(before, after)
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


def test_what_may_only_be_better_is_not_worse() -> None:
    """A little quicker, with noise that reaches beyond the margin on that side alone."""
    maybe = ran(lambda block, arm: 1.015 * steady(block, arm) * (1 + wobble(block, 0.03)))
    found = changes(ran(steady), maybe)["docker"]
    assert (found.verdict, is_worse(found)) == (Verdict.NOT_WORSE, False)
    assert changes(maybe, ran(steady))["docker"].verdict is Verdict.UNDECIDED


def test_the_level_is_shared_by_what_gates_and_blocks_need_not_be_as_many() -> None:
    before, after = ran(steady), ran(steady, blocks=12, alpha=0.03)
    found = changes(before, after)
    assert {name: (change.level, change.primary) for name, change in found.items()} == {
        "host": (0.03, False),
        "docker": (0.03, False),
        "docker vs host": (0.03, True),
    }
    alone = after.manifest.plan.model_copy(update={"contrasts": ()})
    found = changes(before, StoredRun(after.manifest.model_copy(update={"plan": alone}), after.records))
    assert {change.level for change in found.values()} == {0.015}
    assert {(change.blocks_before, change.blocks) for change in found.values()} == {(8, 12)}


def test_differences_have_a_margin_of_what_was() -> None:
    """Shares of errors: 10 points more is far beyond 2 % of what they were."""
    before = ran(lambda block, arm: 0.2 + wobble(block, 0.001), plain)
    after = ran(lambda block, arm: 0.3 + wobble(block + 3, 0.001), plain)
    found = changes(before, after)
    assert found["host"].difference == pytest.approx(0.1, abs=0.01)
    assert found["host"].equivalence == pytest.approx((-0.004, 0.004), abs=1e-4)
    assert is_worse(found["host"]) and not is_worse(found["docker vs host"])


def test_no_throughput_at_all_is_as_bad_as_can_be() -> None:
    found = changes(ran(steady), ran(lambda block, arm: 0.0 if arm == "docker" else 100.0))
    assert (found["docker"].verdict, found["docker"].ratio, found["docker"].interval) == (Verdict.DIFFERENT, 0, (0, 0))
    assert is_worse(found["docker"]) and is_worse(found["docker vs host"])


def test_a_single_value_of_zero_leaves_a_verdict() -> None:
    odd = ran(lambda block, arm: 0.0 if (block, arm) == (3, "docker") else steady(block, arm))
    assert {change.verdict for change in changes(ran(steady), odd).values()} == {Verdict.EQUIVALENT}
    assert {change.verdict for change in changes(odd, ran(steady)).values()} == {Verdict.EQUIVALENT}


def test_runs_without_anything_in_common() -> None:
    other = manifest(["vm", "metal"])
    assert compare(ran(steady), StoredRun(other, [])).changes == ()


def test_what_else_is_not_the_same_is_told_but_for_what_cannot_matter() -> None:
    before, after = ran(steady), ran(steady, blocks=12, seed=7, repeats=1)
    study = after.manifest.study
    slower = study.model_copy(update={"machine": study.machine.model_copy(update={"vcpus": 2})})
    update = {"study": slower, "versions": {"qemu": "9"}, "host": {"kernel": {"release": "6.12"}}}
    later = StoredRun(after.manifest.model_copy(update=update), after.records)
    earlier = StoredRun(before.manifest.model_copy(update={"host": {"kernel": {"release": "6.1"}}}), before.records)
    rows = compare(earlier, later).apart
    told = {(row.group, row.fact): dict(row.values) for row in rows}
    assert told == {
        ("study", "machine.vcpus"): {"before": "1", "after": "2"},
        ("software", "qemu"): {"after": "9"},
        ("kernel", "release"): {"before": "6.1", "after": "6.12"},
    }


def test_a_run_of_root_and_one_without_are_told_apart() -> None:
    root = ran(steady)
    ordinary = StoredRun(root.manifest.model_copy(update={"rootless": ("no limit", "no count")}), root.records)
    found = compare(root, ordinary)
    assert [(row.fact, dict(row.values)) for row in found.apart] == [
        ("without root", {"before": "no", "after": "no limit; no count"})
    ]
    told = [(one.run, one.text) for one in found.warnings if one.code == "rootless"]
    assert told == [("after", "host and docker ran without root: no limit; no count")]
    assert list(list_differences(ordinary.manifest, ordinary.manifest)) == []


def test_a_run_whose_container_kept_something_from_it_says_so() -> None:
    root = ran(steady)
    lacked = "--network=host"
    kept, whole = (
        StoredRun(root.manifest.model_copy(update={"host": {"container": {"lacks": lacks}}}), root.records)
        for lacks in ([lacked], [])
    )
    found = compare(whole, kept)
    ((run, text),) = [(one.run, one.text) for one in found.warnings if one.code == "contained"]
    assert (run, text.partition(": ")[0]) == ("after", f"nearmetal ran in a container without {lacked}")
    assert [(row.group, row.fact) for row in found.apart] == [("container", "lacks")]


def test_of_pretended_machines_nothing_is_told_of_the_host() -> None:
    host = {"container": {"lacks": ["--network=host"]}, "virtualization": {"hypervisor": "KVM"}}
    run = ran(steady)
    real = run.manifest.model_copy(update={"host": host, "rootless": ("no limit",)})
    mock = {"kind": "mock"}
    resolved = tuple(
        one.model_copy(
            update={
                "environment": one.environment.model_copy(update=mock),
                "clients": one.clients.model_copy(
                    update={"environment": one.clients.environment.model_copy(update=mock)}
                ),
            }
        )
        for one in real.plan.resolved
    )
    pretended = real.model_copy(update={"plan": real.plan.model_copy(update={"resolved": resolved})})
    told = [{one.code for one in list_provenance_warnings(manifest, run.records)} for manifest in (real, pretended)]
    assert told == [{"rootless", "contained", "nested"}, set()]


def test_what_is_the_same_is_not_among_what_is_not() -> None:
    known = RunFolder.open(GOLDEN).read_manifest()
    programs = {"binaries": {"/usr/sbin/lighttpd": "0c" * 32, "/usr/bin/sysbench": "1d" * 32}}
    with_programs = [facts.model_copy(update={"facts": {**facts.facts, **programs}}) for facts in known.fairness]
    same = known.model_copy(update={"fairness": tuple(with_programs)})
    assert with_programs and list(list_differences(same, same)) == []


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

    def of(sides: tuple[float, float]) -> StoredRun:
        return ran(lambda block, arm: sides[arm != "docker"], response)

    found = compare(of(before), of(after))
    (change,) = [change for change in found.changes if change.of == "contrast"]
    assert (change.verdict, change.reason, change.because_of) == (Verdict.UNDECIDED, "not-finite", because_of)
    assert (change.ratio, change.difference, change.interval, change.equivalence, change.p) == (None,) * 5
    assert found.unjudged == (because_of == "after")


def test_where_no_reference_is_shared_a_gate_goes_by_treatments_alone() -> None:
    before, after = ran(steady), ran(lambda block, arm: 0.8 * steady(block, arm))
    lone = after.manifest.model_copy(update={"plan": after.manifest.plan.model_copy(update={"contrasts": ()})})
    found = compare(before, StoredRun(lone, after.records))
    assert {change.of for change in found.changes} == {"treatment"}
    assert found.worse == 2


# ── What a gate cannot judge ──────────────────────────────────────────────────────────────────────────────────────


def lower(value: float, **more: Any) -> Response:
    return Response(value=value, unit="s", better="lower", **more)


@pytest.mark.parametrize("better", [ratio, lower], ids=["higher", "lower"])
@pytest.mark.parametrize(("value", "reason"), [(-1.0, "not-positive"), (np.nan, "not-finite"), (np.inf, "not-finite")])
@pytest.mark.parametrize("of", ["docker", "host"])
def test_values_without_a_ratio_do_not_pass_a_gate(
    better: Callable[[float], Response], value: float, reason: str, of: str
) -> None:
    good = ran(steady, better)
    bad = ran(lambda block, arm: value if (block, arm) == (3, of) else steady(block, arm), better)
    found = compare(good, bad, "worse")
    assert (found.worse, found.gone, found.unjudged, found.gates[0].met) == (0, 0, 1, False)
    costs = next(change for change in found.changes if change.of == "contrast")
    assert (costs.reason, costs.because_of) == (reason, "after")
    assert compare(bad, good).unjudged == 0, "what was not known before is no fault of the run after"
    assert compare(bad, bad).unjudged == 0


@pytest.mark.parametrize("of", ["docker", "host"])
def test_of_times_that_are_all_zero_nothing_is_known(of: str) -> None:
    """Nothing takes no time: they were not measured."""
    good = ran(steady, lower)
    bad = ran(lambda block, arm: 0.0 if arm == of else steady(block, arm), lower)
    found = compare(good, bad, "worse")
    costs = next(change for change in found.changes if change.of == "contrast")
    assert (costs.verdict, costs.reason, costs.interval) == (Verdict.UNDECIDED, "not-positive", (0, np.inf))
    assert (found.unjudged, found.gates[0].met) == (1, False)
    assert compare(bad, good).unjudged == 0


def test_on_a_difference_scale_zero_is_a_value_like_others() -> None:
    some = ran(lambda block, arm: 0.2 + wobble(block, 0.001) if arm == "docker" else 0.0, plain)
    none = ran(lambda block, arm: 0.0, plain)
    better, worse = compare(some, none), compare(none, some)
    assert (better.worse, better.unjudged, worse.worse, worse.unjudged) == (0, 0, 1, 0)


@pytest.mark.parametrize(
    ("of", "response", "censored", "value", "counts"),
    [
        ("docker", ratio, "right", 40.0, (0, 0)),
        ("docker", ratio, "right", 100.0, (0, 0)),
        ("docker", ratio, "left", 40.0, (1, 0)),
        ("docker", ratio, "left", 100.0, (0, 1)),
        ("docker", lower, "right", 100.0, (1, 0)),
        ("docker", lower, "right", 40.0, (0, 1)),
        ("docker", lower, "left", 100.0, (0, 0)),
        ("host", ratio, "right", 90.0, (0, 1)),
        ("host", ratio, "right", 110.0, (1, 0)),
        ("host", ratio, "left", 110.0, (0, 0)),
    ],
)
def test_what_lies_beyond_what_was_tried_is_judged_by_its_bound(
    of: str, response: Callable[..., Response], censored: str, value: float, counts: tuple[int, int]
) -> None:
    """Before, docker had 50 and the host 100. What may be worse than its bound cannot be judged."""
    before = ran(steady, response)
    records = [
        record.model_copy(update={"responses": {"throughput": response(value, censored=censored)}})
        if record.trial.treatment["environment"] == of
        else record
        for record in before.records
    ]
    found = compare(before, StoredRun(before.manifest, records), "worse")
    assert (found.worse, found.unjudged, found.gates[0].met) == (*counts, not any(counts))


def test_one_bound_among_blocks_leaves_a_verdict() -> None:
    before = ran(steady)
    records = [
        one.model_copy(update={"responses": {"throughput": ratio(60.0, censored="right")}})
        if (one.trial.block, one.trial.treatment["environment"]) == (3, "docker")
        else one
        for one in before.records
    ]
    assert changes(before, StoredRun(before.manifest, records))["docker vs host"].verdict is Verdict.EQUIVALENT


def test_another_unit_does_not_pass_a_gate() -> None:
    percent = ran(steady, lambda value: Response(value=value, unit="%", better="higher"))
    found = compare(ran(steady), percent)
    assert ({change.reason for change in found.changes}, found.unjudged) == ({"units-differ"}, 1)


def without(ran_: StoredRun, blocks: int) -> StoredRun:
    """So many blocks have no value of docker's, although their trials are ok."""
    records = [
        record.model_copy(update={"responses": {}})
        if record.trial.treatment["environment"] == "docker" and record.trial.block < blocks
        else record
        for record in ran_.records
    ]
    return StoredRun(ran_.manifest, records)


def test_values_that_are_not_there_do_not_pass_a_gate() -> None:
    found = compare(ran(steady), without(ran(steady), 8))
    assert (found.gone, found.unjudged) == (1, 0)
    few = compare(ran(steady), without(ran(steady), 7))
    assert (few.gone, few.unjudged) == (0, 1)
    costs = next(change for change in few.changes if change.of == "contrast")
    assert (costs.reason, costs.because_of, costs.blocks) == ("too-few-blocks", "after", 1)
    assert [warning.text for warning in costs.warnings] == ["1 of 8 blocks of the run after have it"]
    some = compare(ran(steady), without(ran(steady), 1))
    costs = next(change for change in some.changes if change.of == "contrast")
    assert (some.unjudged, costs.verdict, codes(costs)) == (0, Verdict.EQUIVALENT, ["blocks-missing", "one-run-a-side"])


def codes(change: ResponseChange) -> list[str]:
    return [warning.code for warning in change.warnings]


def test_fewer_blocks_that_scatter_more_are_not_called_different() -> None:
    """Their ranks lie apart, as far as the exact test of equally scattered runs can tell."""
    before = ran(lambda block, arm: 100 * (1 + 0.01 * (block % 4 - 1.5) * (arm == "docker")), blocks=40)
    values = (85.0, 88.0, 90.0, 91.0, 92.0, 94.0, 102.0, 103.0)
    after = ran(lambda block, arm: values[block] if arm == "docker" else 100.0, blocks=8)
    exact = stats.mannwhitneyu(np.tile([98.5, 99.5, 100.5, 101.5], 10), values)
    assert exact.pvalue < 0.05
    found = changes(before, after)["docker vs host"]
    assert (found.verdict, codes(found)) == (Verdict.UNDECIDED, ["one-run-a-side"])
    assert found.p is not None and found.p > 0.05


@pytest.mark.parametrize("gate", ["worse", "strict", "throughput > -90%"])
def test_a_gate_for_which_nothing_can_be_judged_is_not_met(gate: str) -> None:
    """Whatever two blocks a side had given."""
    found = compare(ran(steady, blocks=2), ran(steady, blocks=2), gate)
    assert ({change.reason for change in found.changes}, found.unjudged) == ({"too-few-blocks"}, 0)
    (outcome,) = found.gates
    assert (outcome.met, outcome.nothing_judged) == (False, True)
    assert compare(without(ran(steady), 7), ran(steady)).unjudged == 0


# ── How the runs came to their end ────────────────────────────────────────────────────────────────────────────────


def stopped(after: int) -> StoredRun:
    """A run of 8 to 40 blocks, which had seen enough at a look."""
    whole = ran(steady, blocks={"min": 8, "max": 40})
    number = next(number for number, look in enumerate(whole.manifest.plan.looks, 1) if look.blocks == after)
    look = {"event": "LookTaken", "look": number, "blocks": after, "decided": 1, "undecided": 0, "stops": True}
    records = [record for record in whole.records if record.trial.block < after]
    return StoredRun(
        whole.manifest, records, [{"event": "RunStarted"}, look, {"event": "RunEnded", "interrupted": False}]
    )


def warned(before: StoredRun, after: StoredRun) -> list[tuple[str, str]]:
    return [(warning.code, warning.run) for warning in compare(before, after).warnings]


def test_a_run_that_stopped_at_a_look_before_its_last_is_warned_of() -> None:
    """What made it stop was its values: of runs that do not differ more than the level says are called different."""
    early, late, fixed = stopped(12), stopped(40), ran(steady, blocks=12)
    assert warned(early, fixed) == [("stopped-at-a-look", "before")]
    assert warned(fixed, early) == [("stopped-at-a-look", "after")]
    assert warned(early, stopped(16)) == [("stopped-at-a-look", "before"), ("stopped-at-a-look", "after")]
    assert warned(late, fixed) == []
    (warning, _) = compare(early, early).warnings
    assert "after 12 of at most 40 blocks" in warning.text


def test_a_run_that_has_not_come_to_its_end_is_warned_of() -> None:
    whole = ran(steady)
    half = StoredRun(
        whole.manifest,
        [record for record in whole.records if record.trial.block < 4],
        [{"event": "RunStarted"}, {"event": "RunEnded", "interrupted": True}],
    )
    assert warned(whole, half) == [("unfinished", "after"), ("blocks-missing", "after")]
    assert warned(half, whole) == [("unfinished", "before"), ("blocks-missing", "before")]


# ── Failures ──────────────────────────────────────────────────────────────────────────────────────────────────────


def failing(of: StoredRun, blocks: range, blame: Blame | None = "treatment", arm: str = "docker") -> StoredRun:
    """The same run where docker failed in some blocks."""
    records = [
        one.model_copy(update={"status": TrialStatus.FAILED, "blame": blame, "responses": {}})
        if one.trial.block in blocks and one.trial.treatment["environment"] == arm
        else one
        for one in of.records
    ]
    return StoredRun(of.manifest, records, of.events)


def test_failures_are_the_worst_ranks() -> None:
    random = np.random.default_rng(1).normal(0, 0.002, size=(2, 60))
    before = ran(lambda block, arm: 100 + random[0, 2 * block + (arm == "docker")], blocks=30)
    after = ran(lambda block, arm: 100 + random[1, 2 * block + (arm == "docker")], blocks=30)
    found = compare(before, failing(after, range(14)), "worse")
    costs = next(change for change in found.changes if change.of == "contrast")
    assert (costs.verdict, costs.interval and costs.interval[0]) == (Verdict.DIFFERENT, 0)
    assert is_worse(costs)


def test_a_third_that_fails_is_never_equivalent() -> None:
    before = ran(steady, blocks=60)
    found = compare(before, failing(before, range(20)), "worse")
    costs = next(change for change in found.changes if change.of == "contrast")
    assert (costs.failed, costs.failed_before, costs.blocks) == (20, 0, 60)
    assert (costs.verdict, costs.reason) == (Verdict.UNDECIDED, "failures-unlike"), "the typical boot is as it was"
    assert (found.worse, [case.why for case in found.gates[0].cases]) == (1, ["failing"])
    assert "trials-failed" in codes(costs)
    back = compare(failing(before, range(20)), before, "worse")
    assert (back.worse, back.gates[0].met) == (0, True)


def test_what_fails_in_every_block_fails_a_gate_and_before_is_nothing_to_hold_against() -> None:
    whole = ran(steady)
    found = compare(whole, failing(whole, range(8)), "worse")
    assert (found.worse, found.gates[0].met) == (1, False)
    back = compare(failing(whole, range(8)), whole, "worse")
    assert ({one.reason for one in back.changes if one.of == "contrast"}, back.gates[0].nothing_judged) == (
        {"nothing-before"},
        True,
    )
    both = compare(failing(whole, range(8)), failing(whole, range(8)), "worse")
    assert both.gates[0].nothing_judged


def test_more_failures_fail_a_gate_though_the_typical_boot_is_as_it_was() -> None:
    """Where the level is shared, so that ranks do not tell it: 9 of 30, and the noise is far larger than the margin."""

    def noisy(block: int, arm: str) -> float:
        return 100 * (1 + wobble(block * 3 + 5 * (arm == "docker"), 0.4))

    before = ran(noisy, blocks=30, alpha=0.01)
    found = compare(before, failing(before, range(9)), "worse")
    costs = next(change for change in found.changes if change.of == "contrast")
    assert costs.verdict is Verdict.UNDECIDED
    assert [case.why for case in found.gates[0].cases] == ["failing"]


def test_a_failure_of_others_is_skipped_and_one_without_blame_is_told() -> None:
    whole = ran(steady)
    host = compare(whole, failing(whole, range(3), "host"))
    assert {(one.failed, one.blocks) for one in host.changes if one.of == "contrast"} == {(0, 5)}
    assert host.warnings == ()
    old = compare(failing(whole, range(3), None), whole, "worse")
    assert {(one.failed_before, one.blocks_before) for one in old.changes if one.of == "contrast"} == {(0, 5)}
    assert [(one.code, one.run) for one in old.warnings] == [("judged-as-version-1", "before")]


@pytest.mark.parametrize("arm", ["docker", "host"])
def test_what_was_withdrawn_has_no_test_and_passes_no_gate(arm: str) -> None:
    whole = ran(steady)
    event = {"event": "Withdrawn", "treatment": {"environment": arm}, "reason": "it broke"}
    gone = StoredRun(whole.manifest, failing(whole, range(3), arm=arm).records, [event])
    for before, after, when in ((whole, gone, "after"), (gone, whole, "before"), (gone, gone, "after")):
        found = compare(before, after, "worse", "throughput > -50%")
        costs = next(change for change in found.changes if change.of == "contrast")
        assert (costs.verdict, costs.because_of, costs.p, costs.interval) == (Verdict.WITHDRAWN, when, None, None)
        assert [case.why for outcome in found.gates for case in outcome.cases] == ["withdrawn"] * 2
        assert not any(outcome.nothing_judged for outcome in found.gates)


# ── Several runs a side ───────────────────────────────────────────────────────────────────────────────────────────


def shifted(shift: float, salt: int = 0, **design: Any) -> StoredRun:
    """A run in which docker has a shift of the run's own."""
    return ran(
        lambda block, arm: steady(block + salt * (1 + (arm == "docker")), arm) * (1 + shift * (arm == "docker")),
        **design,
    )


def costs_of(before: list[StoredRun], after: list[StoredRun], *gates: str) -> tuple[ResponseChange, Comparison]:
    found = run_comparison.compare(before, after, gates=[parse_gate(one) for one in gates])
    return next(change for change in found.changes if change.of == "contrast"), found


def test_with_several_runs_a_side_the_run_is_the_unit() -> None:
    """Each run has a shift of its own, which sixteen blocks a side would take for a change."""
    before, after = [shifted(0.03), shifted(-0.01)], [shifted(-0.03), shifted(0.0)]
    costs, found = costs_of(before, after, "strict")
    assert (costs.runs_before, costs.runs, costs.blocks_before, costs.blocks) == (2, 2, 16, 16)
    assert costs.verdict is Verdict.UNDECIDED and costs.reason is None
    assert [case.why for case in found.gates[0].cases] == ["undecided"]
    pooled, _ = costs_of(before[:1], after[:1])
    assert pooled.verdict is Verdict.DIFFERENT
    assert codes(costs) == [] and "one-run-a-side" in codes(pooled)


def test_a_change_that_all_runs_have_is_found_by_two_runs_a_side() -> None:
    before, after = [shifted(0.001), shifted(0.0)], [shifted(-0.2), shifted(-0.201)]
    costs, found = costs_of(before, after, "worse", "throughput > -25%", "throughput > -15%")
    assert (costs.verdict, costs.p is not None and costs.p < 0.05) == (Verdict.DIFFERENT, True)
    assert costs.ratio == pytest.approx(0.8, rel=0.01)
    assert [outcome.met for outcome in found.gates] == [False, True, False]
    assert [outcome.cases[0].why for outcome in found.gates] == ["worse", None, "not-shown"]


def test_too_few_runs_are_told_with_how_many_it_takes() -> None:
    costs, found = costs_of([shifted(0.0)], [shifted(-0.2), shifted(-0.2), shifted(-0.2)], "worse")
    assert (costs.verdict, costs.reason, costs.needs_runs) == (Verdict.UNDECIDED, "too-few-runs", 2)
    assert (costs.because_of, found.gates[0].nothing_judged, found.gates[0].met) == (None, True, False)


def test_runs_that_mostly_fail_are_ranked() -> None:
    good = [shifted(0.001), shifted(0.0)]
    bad = [failing(shifted(0.0), range(6)), failing(shifted(0.0), range(6))]
    costs, found = costs_of(good, bad, "worse")
    assert (costs.reason, costs.needs_runs, costs.ratio) == ("too-few-runs", 4, 0)
    assert not found.gates[0].met
    costs, found = costs_of(good * 2, bad * 2, "worse")
    assert (costs.verdict, costs.ratio, costs.interval) == (Verdict.DIFFERENT, 0, (0, 0))
    assert found.gates[0].cases[0].why == "failing"


def test_a_run_without_a_value_is_told_and_the_others_are_judged() -> None:
    after = [shifted(0.0), shifted(0.001), without(shifted(0.0), 8)]
    costs, _ = costs_of([shifted(0.0), shifted(0.002)], after)
    assert (costs.runs, costs.verdict) == (2, Verdict.EQUIVALENT)
    assert [one.text for one in costs.warnings if one.code == "runs-missing"] == ["2 of 3 runs after have it"]
    costs, found = costs_of([shifted(0.0), shifted(0.002)], after[1:], "worse")
    assert (costs.reason, costs.because_of, found.unjudged) == ("too-few-runs", "after", 1)


def test_a_run_of_another_study_among_them_leaves_what_all_share() -> None:
    other = manifest(["host", "podman"])
    found = run_comparison.compare([shifted(0.0), StoredRun(other, [])], [shifted(0.0), shifted(0.0)])
    assert {change.treatment["environment"] for change in found.changes} == {"host"}
    assert {(one.of, one.run, one.treatment["environment"]) for one in found.alone} == {
        ("treatment", "before", "docker"),
        ("contrast", "before", "docker"),
        ("treatment", "before", "podman"),
        ("contrast", "before", "podman"),
        ("treatment", "after", "docker"),
        ("contrast", "after", "docker"),
    }


@pytest.mark.filterwarnings("error")
def test_runs_that_do_not_vary_are_compared_all_the_same() -> None:
    def flat(value: float) -> StoredRun:
        return ran(lambda block, arm: value if arm == "docker" else 100.0)

    same, _ = costs_of([flat(50), flat(50)], [flat(50), flat(50)])
    assert (same.verdict, same.interval, same.p) == (Verdict.EQUIVALENT, (1, 1), 1)
    other, _ = costs_of([flat(50), flat(50)], [flat(40), flat(40)])
    assert other.verdict is Verdict.DIFFERENT and other.ratio == pytest.approx(0.8)


# ── Gates ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_gate_may_name_any_response_and_the_level_is_shared_by_what_gates() -> None:
    def with_latency(of: StoredRun, factor: float) -> StoredRun:
        return StoredRun(
            of.manifest,
            [
                one.model_copy(
                    update={
                        "responses": {
                            **one.responses,
                            "latency_p99": lower(
                                steady(one.trial.block, "host") * (factor if "docker" in one.trial.id else 1.0)
                            ),
                        }
                    }
                )
                for one in of.records
            ],
        )

    before, after = with_latency(ran(steady), 1.0), with_latency(ran(steady), 1.04)
    found = compare(before, after, "worse", "latency_p99 < 5%", "latency_p99<3%")
    assert [(outcome.gate, outcome.met) for outcome in found.gates] == [
        ("worse", True),
        ("latency_p99 < 5%", True),
        ("latency_p99<3%", False),
    ]
    assert {(one.of, one.response, one.level, one.primary) for one in found.changes} == {
        ("treatment", "throughput", 0.05, False),
        ("contrast", "throughput", 0.025, True),
        ("contrast", "latency_p99", 0.025, False),
    }
    alone = compare(before, after, "latency_p99 < 5%")
    assert {(one.response, one.level) for one in alone.changes if one.of == "contrast"} == {
        ("throughput", 0.05),
        ("latency_p99", 0.05),
    }


def test_a_strict_gate_takes_evidence_that_it_is_not_worse() -> None:
    quiet, better = ran(steady), shifted(0.2)
    slightly = shifted(-0.015, salt=3)
    loud = ran(lambda block, arm: 100 * (1 + wobble(block * 3 + 5 * (arm == "docker"), 0.4)))
    assert [case.why for case in compare(quiet, quiet, "strict").gates[0].cases] == [None]
    assert compare(quiet, better, "strict").gates[0].met
    assert [case.why for case in compare(loud, loud, "worse", "strict").gates[1].cases] == ["undecided"]
    assert compare(loud, loud, "worse").gates[0].met
    assert compare(quiet, slightly, "strict").changes[-1].verdict is Verdict.EQUIVALENT


def test_a_difference_is_held_against_a_share_of_what_was() -> None:
    before = ran(lambda block, arm: 0.2 + wobble(block, 0.001), plain)
    after = ran(lambda block, arm: (0.21 if arm == "docker" else 0.2) + wobble(block + 3, 0.001), plain)
    found = compare(before, after, "throughput < 10%", "throughput < 2%")
    assert [outcome.met for outcome in found.gates] == [True, False]
    none = ran(lambda block, arm: 0.0, plain)
    assert [case.why for case in compare(none, none, "throughput < 2%").gates[0].cases] == ["no-margin"]
    assert compare(none, none, "throughput < 0%").gates[0].cases[0].why == "not-shown"


@pytest.mark.parametrize("text", ["", "throughput", "throughput > 3", "throughput >= 3%", "x > -100%", "a b > 1%"])
def test_what_is_no_gate_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="; write "):
        parse_gate(text)


def test_what_was_not_even_planned_is_a_case_of_a_gate() -> None:
    before = ran(steady)
    plan = before.manifest.plan.model_copy(update={"contrasts": ()})
    after = StoredRun(before.manifest.model_copy(update={"plan": plan}), before.records)
    found = compare(StoredRun(before.manifest, before.records), after, "worse")
    assert found.gates[0].met, "where no reference is shared, treatments are gated"
    third = manifest(["host", "docker", "qemu"])
    records = [
        *ran(steady).records,
        *(record("qemu", block, {"throughput": ratio(80.0)}) for block in range(8)),
    ]
    found = compare(StoredRun(third, records), before, "worse")
    assert [case.why for case in found.gates[0].cases] == [None, "not-planned"]
    assert (found.gone, found.gates[0].met) == (1, False)
