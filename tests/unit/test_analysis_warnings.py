"""What is told about how a run was measured."""

from typing import Any

import numpy as np
import pytest

from nearmetal.analysis.analyse import analyse
from nearmetal.analysis.diagnostics import position_p
from nearmetal.analysis.interference import INTERFERENCE
from nearmetal.analysis.results import Verdict
from nearmetal.model import TrialStatus, Warned
from tests.analysis_inputs import PAIR, PRIMARIES, codes, manifest, only, ratio, record, run, whole_run, wobble


@pytest.mark.parametrize("how", ["restore", "reuse"])
def test_a_boot_that_was_not_fresh_limits_the_conclusion(how: str) -> None:
    of = manifest()
    records = [record(arm, block, {"throughput": ratio(1.0)}, how=how) for block in range(8) for arm in PAIR]
    contrast = only(run(of, records))
    (warning,) = (warning for warning in contrast.warnings if warning.code == "one-boot")
    assert "that one boot" in warning.text


def test_one_machine_under_two_names_is_told_as_that() -> None:
    of = manifest()
    records = [
        record(arm, block, {"throughput": ratio(1.0)}, how="reuse", boot="it") for block in range(8) for arm in PAIR
    ]
    (warning,) = (one for one in only(run(of, records)).warnings if one.code == "one-machine")
    assert "'docker' and 'host'" in warning.text and "A/A" in warning.text
    apart = [
        record(arm, block, {"throughput": ratio(1.0)}, how="reuse", boot=arm) for block in range(8) for arm in PAIR
    ]
    assert "one-machine" not in codes(only(run(of, apart)))


@pytest.mark.parametrize(
    ("cpus", "warned"),
    [(("0", "1"), False), (("0-1", "1"), True), (("0,2-3", "1,4"), False), (("0", ""), True), (("", ""), True)],
)
def test_client_and_server_on_the_same_cpus(cpus: tuple[str, str], warned: bool) -> None:
    of = manifest()
    records = [record(arm, block, {"throughput": ratio(1.0)}, cpus=cpus) for block in range(8) for arm in PAIR]
    assert ("cpus-shared" in codes(only(run(of, records)))) == warned


@pytest.mark.parametrize(("under", "warned"), [(None, False), ("load", True)])
def test_a_workload_without_clients_shares_its_cpus_with_none(under: str | None, warned: bool) -> None:
    """Unless it is measured under the load of one that has some."""
    of = manifest()
    (workload,) = of.plan.resolved[0].workloads
    own = workload.model_copy(update={"has_clients": False, "under": under})
    workloads = (own, workload.model_copy(update={"name": "load"}))
    resolved = tuple(one.model_copy(update={"workloads": workloads}) for one in of.plan.resolved)
    alone = of.model_copy(update={"plan": of.plan.model_copy(update={"resolved": resolved})})
    records = [record(arm, block, {"throughput": ratio(1.0)}, cpus=("", "")) for block in range(8) for arm in PAIR]
    assert ("cpus-shared" in codes(only(run(alone, records)))) == warned


def test_warnings_of_trials_are_summed_up_for_their_contrast() -> None:
    of = manifest()
    records = [
        record(
            arm,
            block,
            {"throughput": ratio(1.0)},
            warnings=(Warned(code="steal", text=f"{block} %"),) if arm == "docker" and block < 3 else (),
        )
        for block in range(8)
        for arm in PAIR
    ]
    (warning,) = only(run(of, records)).warnings
    assert warning == Warned(code="steal", text="in 3 of 16 trials (the treatment's): 0 to 2 %")


@pytest.mark.parametrize(
    ("busy", "said"),
    [
        ({"docker": 8, "host": 8}, "the host spent 60 to 67 % elsewhere, in all 16 trials: "),
        ({"docker": 4}, "the host spent 60 to 63 % elsewhere, in 4 of 16 trials: "),
        ({"docker": 3, "host": 3}, None),
    ],
)
def test_a_host_that_was_busy_in_half_of_a_sides_trials_is_told_of_the_whole_run(
    busy: dict[str, int], said: str | None
) -> None:
    records = [
        record(
            arm,
            block,
            {"throughput": ratio(1.0)},
            warnings=(Warned(code="busy-host", text=f"the host spent {60 + block} % elsewhere"),)
            if block < busy.get(arm, 0)
            else (),
        )
        for block in range(8)
        for arm in PAIR
    ]
    told = [one.text for one in run(manifest(), records).warnings if one.code == "busy-host"]
    what_to_do = "these are figures of a busy host; repeat the run on a quiet one"
    assert told == ([] if said is None else [said + what_to_do])


def test_a_host_that_was_busy_in_one_way_or_another_is_told_of_both() -> None:
    ways = (Warned(code="busy-host", text="the host spent 60 % elsewhere"), Warned(code="steal", text="denied 9 %"))
    records = [
        record(arm, block, {"throughput": ratio(1.0)}, warnings=(ways[block],) if block < 2 else ())
        for block in range(4)
        for arm in PAIR
    ]
    told = [one.text.partition(":")[0] for one in run(manifest(), records).warnings if one.code in INTERFERENCE]
    assert told == ["the host spent 60 % elsewhere, in 2 of 8 trials", "denied 9 %, in 2 of 8 trials"]


def test_a_host_that_was_busy_in_trials_that_do_not_count_is_not_told_of() -> None:
    busy = (Warned(code="steal", text="denied"),)
    bad = [record(arm, 0, {}, status=TrialStatus.INVALID, warnings=busy) for arm in PAIR]
    good = [record(arm, 0, {"throughput": ratio(1.0)}, attempt=1) for arm in PAIR]
    assert "steal" not in {one.code for one in run(manifest(), [*bad, *good]).warnings}


@pytest.mark.parametrize("bad", [1, 2])
def test_one_block_of_a_later_attempt_has_the_wording_of_several(bad: int) -> None:
    records = [
        record(arm, block, {"throughput": ratio(1.0)}, attempt=int(block < bad)) for block in range(8) for arm in PAIR
    ]
    (warning,) = only(run(manifest(), records)).warnings
    assert warning.text == f"a later attempt counts for {bad} of 8 blocks"


def test_a_trial_that_warns_twice_of_the_same_is_one_trial() -> None:
    of = manifest()
    twice = (Warned(code="late", text="client 0 was late"), Warned(code="late", text="client 1 was late"))
    records = [record(arm, block, {"throughput": ratio(1.0)}, warnings=twice) for block in range(8) for arm in PAIR]
    (warning,) = only(run(of, records)).warnings
    assert warning.text == "in 16 of 16 trials: client 0 to 1 was late"


@pytest.mark.parametrize("unit", [1e-300, 1e307])
def test_the_unit_of_a_response_does_not_change_whether_its_place_matters(unit: float) -> None:
    places = np.array([[0.0, 1.0, 1.0, 0.0, 1.0], [1.0, 0.0, 0.0, 1.0, 0.0]])
    values = np.array([[1.0, 1.2, 1.5, 1.1, 1.3], [1.4, 1.0, 1.1, 1.2, 1.0]])
    assert position_p(values * unit, places) == pytest.approx(position_p(values, places))


@pytest.mark.parametrize("good", [0, 2, 5, 6, 8, 30, 40])
def test_a_treatment_that_was_withdrawn_takes_no_blocks_from_others_place_effect(good: int) -> None:
    """5 % less in each later place. Where docker was good in few blocks, the others' forty tell; in many, all do."""
    environments = ("host", "docker", "podman")
    orders = [np.random.default_rng(block).permutation(3) for block in range(40)]
    records = [
        record(arm, block, {"throughput": ratio(100 - 5 * place + wobble(block + 3 * number, 2))}, position=place)
        for block, order in enumerate(orders)
        for number, (arm, place) in enumerate(zip(environments, order.tolist(), strict=True))
        if arm != "docker" or block < good
    ]
    podman = next(one for one in run(manifest(environments, blocks=40), records).contrasts if "podman" in str(one))
    assert "position" in codes(podman)


@pytest.mark.parametrize(("title", "told"), [("piped bytes", "piped bytes"), ("", "my throughput")])
def test_a_warning_calls_a_response_as_its_workload_does(title: str, told: str) -> None:
    """Or else by its name, in words."""
    of = manifest(("host", "docker"), blocks=40)
    (workload,) = of.plan.resolved[0].workloads
    kind = workload.responses["throughput"].model_copy(update={"title": title})
    titled = workload.model_copy(update={"primary": "my_throughput", "responses": {"my_throughput": kind}})
    resolved = tuple(one.model_copy(update={"workloads": (titled,)}) for one in of.plan.resolved)
    primaries = {"web": "my_throughput"}
    plan = of.plan.model_copy(update={"resolved": resolved, "primaries": primaries})
    records = [
        record(arm, block, {"my_throughput": ratio(100 - 5 * place + wobble(block + 3 * place, 2))}, position=place)
        for block in range(40)
        for place, arm in enumerate(("host", "docker") if block % 3 else ("docker", "host"))
    ]
    contrast = only(analyse(of.model_copy(update={"plan": plan}), records, [], primaries))
    (warned,) = (one.text for one in contrast.warnings if one.code == "position")
    assert warned.startswith(f"{told} depends on the place")


def test_a_place_effect_is_found_by_the_blocks_that_tell_most() -> None:
    """An effect that only blocks without docker can tell, of which there are more than with it."""
    records = [
        record(arm, block, {"throughput": ratio(value)}, position=place)
        for block in range(40)
        for place, arm in enumerate(("host", "podman") if block % 3 else ("podman", "host"))
        for value in [100 + wobble(7 * block + 3 * place, 1) - (5 * place if block >= 8 else 0)]
    ] + [record("docker", block, {"throughput": ratio(100.0 + block % 3)}, position=2) for block in range(8)]
    analysis = run(manifest(("host", "docker", "podman"), blocks=40), records)
    assert "position" in codes(next(one for one in analysis.contrasts if one.treatment["environment"] == "podman"))


def test_a_place_effect_is_not_made_of_two_attempts() -> None:
    """Where docker comes second it fails at first, and when the block is repeated all is a fifth slower."""
    records = []
    for block in range(8):
        order = PAIR if block % 2 else PAIR[::-1]
        for place, arm in enumerate(order):
            value = 100 + wobble(block + 3 * (arm == "host"), 2)
            status = TrialStatus.FAILED if block % 2 and arm == "docker" else TrialStatus.OK
            records.append(record(arm, block, {"throughput": ratio(value)}, position=place, status=status))
            if block % 2:
                records.append(record(arm, block, {"throughput": ratio(0.8 * value)}, position=place, attempt=1))
    contrast = only(run(manifest(), records))
    assert "blocks-repeated" in codes(contrast)
    assert "position" not in codes(contrast)


def test_an_honest_run_is_not_warned_of() -> None:
    of = manifest()
    records = [
        record(arm, block, {"throughput": ratio(100 + (wobble(block, 1) if arm == "host" else 0))}, position=place)
        for block in range(8)
        for place, arm in enumerate(PAIR if block % 3 else PAIR[::-1])
    ]
    analysis = run(of, records)
    assert only(analysis).warnings == ()
    assert analysis.warnings == ()


def test_what_happened_to_the_run_is_told() -> None:
    of = manifest().model_copy(
        update={"left_out": ({"environment": "qemu"},), "left_out_why": ("no QEMU on this host",)}
    )
    events: list[dict[str, Any]] = [
        {"event": "RunStarted"},
        {"event": "RunResumed", "finished": 3, "changed": {"QEMU": ["7.2.0", "7.2.1"]}},
        {"event": "Withdrawn", "treatment": {"environment": "docker"}, "reason": "no engine"},
        {"event": "LeftBehind", "what": "the link nm0"},
        {"event": "RunEnded", "interrupted": True},
    ]
    records = [record("host", 0, {}, attempt=0), record("host", 0, {}, attempt=1)]
    found = {warning.code: warning.text for warning in analyse(of, records, events, PRIMARIES).warnings}
    assert found.keys() == {
        "left-out",
        "interrupted",
        "versions-changed",
        "unfinished",
        "withdrawn",
        "left-behind",
        "blocks-repeated",
        "blocks-missing",
    }
    assert found["withdrawn"].startswith("environment=docker was withdrawn")
    assert found["versions-changed"] == (
        "the trials after it was resumed were made with another QEMU: 7.2.1 instead of 7.2.0"
    )
    assert found["left-out"] == "environment=qemu was left out: no QEMU on this host"


def test_what_befell_several_alike_is_told_once_and_what_was_withdrawn_first() -> None:
    of = manifest().model_copy(
        update={
            "left_out": ({"environment": "qemu", "nic": "a"}, {"environment": "qemu", "nic": "b"}),
            "left_out_why": ("no QEMU on this host",) * 2,
        }
    )
    lost = [
        ({"environment": "docker", "workers": workers}, f"nm-e756a8-{workers} did not answer within 120 s")
        for workers in (1, 4)
    ]
    events: list[dict[str, Any]] = [
        {"event": "RunStarted"},
        {"event": "LeftBehind", "what": "the link nm0"},
        *({"event": "Withdrawn", "treatment": treatment, "reason": reason} for treatment, reason in lost),
        {"event": "Withdrawn", "treatment": {"environment": "podman"}, "reason": "no engine"},
        {"event": "LeftBehind", "what": "the link nm0"},
    ]
    found = [(warning.code, warning.text) for warning in analyse(of, [], events, PRIMARIES).warnings]
    assert found == [
        (
            "withdrawn",
            "environment=docker workers=1; environment=docker workers=4 were withdrawn after three failures running: "
            "the machine did not answer within 120 s",
        ),
        ("withdrawn", "environment=podman was withdrawn after three failures running: no engine"),
        (
            "unfinished",
            "the run has not come to its end; where it was interrupted, `nearmetal resume` goes on with it",
        ),
        ("left-out", "environment=qemu nic=a; environment=qemu nic=b were left out: no QEMU on this host"),
        ("blocks-missing", "0 of 8 planned blocks were begun"),
        ("left-behind", "could not be put back: the link nm0 (2 times)"),
    ]


def test_a_study_of_fixed_blocks_says_nothing_before_its_end() -> None:
    """Who looks at each block and stops when the interval looks good is wrong far more often than at the level."""
    of = manifest()
    records = whole_run(of, lambda block, arm, _: (2.0 if arm == "docker" else 1.0) + block / 1000)
    began: dict[str, Any] = {"event": "RunStarted"}
    broken_off: dict[str, Any] = {"event": "RunEnded", "interrupted": True}
    resumed: dict[str, Any] = {"event": "RunResumed", "finished": 3}
    for events in ([began], [began, broken_off], [began, broken_off, resumed]):
        analysis = analyse(of, records, events, PRIMARIES)
        assert {(one.verdict, one.reason) for one in analysis.contrasts} == {(Verdict.UNDECIDED, "not-ended-yet")}
        assert all(one.interval is not None for one in analysis.contrasts)
    ended = analyse(of, records, [began, {"event": "RunEnded", "interrupted": False}], PRIMARIES)
    assert {one.verdict for one in ended.contrasts} == {Verdict.DIFFERENT}


def test_a_run_that_ended_well_is_not_called_unfinished() -> None:
    events: list[dict[str, Any]] = [{"event": "RunStarted"}, {"event": "RunEnded", "interrupted": False}]
    of = manifest()
    analysis = analyse(of, whole_run(of, lambda *_: 1.0), events, PRIMARIES)
    assert analysis.warnings == ()
