"""From records to an analysis: which trials count, what the verdicts are, what is warned of."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nearmetal import plan as planning
from nearmetal.analysis.analyse import analyse
from nearmetal.analysis.contrasts import judge
from nearmetal.analysis.responses import arms_of
from nearmetal.analysis.results import Analysis, Contrast, Verdict
from nearmetal.analysis.summary import summary
from nearmetal.model import (
    Response,
    Study,
    TrialRecord,
    TrialStatus,
    Warned,
)
from nearmetal.store.folder import MachineFacts, Manifest

PRIMARIES = {"web": "throughput"}
PAIR = ("host", "docker")
Value = Callable[[int, str, int], float]
"""Of block, environment and repeat."""


def manifest(environments: Sequence[str] = ("host", "docker"), **design: Any) -> Manifest:
    study = Study.model_validate(
        {
            "name": "trial",
            "reference": {"environment": environments[0]},
            "factors": {"environment": {"levels": list(environments)}},
            "workloads": [{"name": "web", "kind": "http"}],
            "design": {"blocks": 8, **design},
        }
    )
    return Manifest(
        run="r", created="2025-03-01T12:00:00Z", study=study, source="", plan=planning.make(study), versions={}, host={}
    )


def record(
    environment: str,
    block: int,
    values: Mapping[str, Response],
    *,
    attempt: int = 0,
    repeat: int = 0,
    position: int = 0,
    status: TrialStatus = TrialStatus.OK,
    how: str = "boot",
    cpus: tuple[str, str] = ("0", "1"),
    warnings: tuple[Warned, ...] = (),
) -> TrialRecord:
    made: TrialRecord = TrialRecord.from_json(
        {
            "trial": {
                "id": f"{environment}-{block}-{attempt}-{repeat}",
                "block": block,
                "attempt": attempt,
                "position": position,
                "repeat": repeat,
                "treatment": {"environment": environment},
                "workload": "web",
            },
            "site": "local",
            "boot": {"id": "b", "how": how},
            "machines": [
                {"role": "server", "environment": environment, "boot_id": "b", "cpus": cpus[0]},
                {"role": "client", "environment": environment, "boot_id": "b", "cpus": cpus[1]},
            ],
            "status": status.value,
            "responses": {name: response.model_dump(mode="json") for name, response in values.items()},
            "warnings": [warning.model_dump(mode="json") for warning in warnings],
        }
    )
    return made


def ratio(value: float, **more: Any) -> Response:
    return Response(value=value, unit="1/s", better="higher", **more)


def plain(value: float) -> Response:
    return Response(value=value, unit="share", better="lower", scale="difference")


def whole_run(of: Manifest, value: Value, response: Callable[[float], Response] = ratio) -> list[TrialRecord]:
    return [
        record(environment, block, {"throughput": response(value(block, environment, repeat))}, repeat=repeat)
        for block in range(of.study.design.fixed_blocks)
        for environment in ("host", "docker")
        for repeat in range(of.study.design.repeats)
    ]


def run(of: Manifest, records: Iterable[TrialRecord]) -> Analysis:
    return analyse(of, records, [], PRIMARIES)


def only(analysis: Analysis) -> Contrast:
    (contrast,) = analysis.contrasts
    return contrast


def codes(contrast: Contrast) -> set[str]:
    return {warning.code for warning in contrast.warnings}


def wobble(block: int, size: float) -> float:
    """Noise without a trend, the same every time."""
    return size * (0.31, -0.72, 0.93, -0.14, -0.55, 0.66, -0.87, 0.28)[block % 8]


# ── Which trials count ────────────────────────────────────────────────────────────────────────────────────────────


def test_repeats_of_a_boot_are_averaged_geometrically_on_the_ratio_scale() -> None:
    of = manifest(repeats=2)
    records = whole_run(of, lambda block, environment, repeat: (100.0, 400.0)[repeat])
    contrast = only(run(of, records))
    assert contrast.pairs[0].treatment == pytest.approx(200.0)
    assert contrast.blocks == 8


def test_repeats_are_averaged_plainly_on_the_difference_scale() -> None:
    of = manifest(repeats=2)
    records = whole_run(of, lambda block, environment, repeat: (0.1, 0.4)[repeat], plain)
    assert only(run(of, records)).pairs[0].reference == pytest.approx(0.25)


def test_a_boot_short_of_a_repeat_does_not_count() -> None:
    of = manifest(repeats=2)
    records = whole_run(of, lambda *_: 1.0)[:-1]
    contrast = only(run(of, records))
    assert contrast.blocks == 7
    assert "blocks-missing" in codes(contrast)


@pytest.mark.parametrize("status", [TrialStatus.INVALID, TrialStatus.FAILED, TrialStatus.LOST])
def test_what_is_not_ok_is_counted_and_never_used(status: TrialStatus) -> None:
    of = manifest()
    records = whole_run(of, lambda *_: 1.0)
    records[5] = record("docker", 2, {"throughput": ratio(1e9)}, status=status)
    analysis = run(of, records)
    assert analysis.trials.model_dump() == {"ok": 15, "invalid": 0, "failed": 0, "lost": 0, status.value: 1}
    assert [pair.block for pair in only(analysis).pairs] == [0, 1, 3, 4, 5, 6, 7]
    assert all(1e9 not in cell.values for cell in analysis.cells)


def test_a_contrast_takes_the_first_attempt_in_which_both_arms_are_ok() -> None:
    of = manifest()
    records = [one for one in whole_run(of, lambda *_: 1.0) if one.trial.block != 3]
    bad = TrialStatus.FAILED
    records += [
        record("host", 3, {"throughput": ratio(10)}, attempt=0),
        record("docker", 3, {"throughput": ratio(11)}, attempt=0, status=bad),
        record("host", 3, {"throughput": ratio(20)}, attempt=1, status=bad),
        record("docker", 3, {"throughput": ratio(21)}, attempt=1),
        record("host", 3, {"throughput": ratio(30)}, attempt=2),
        record("docker", 3, {"throughput": ratio(31)}, attempt=2),
    ]
    analysis = run(of, records)
    pair = next(pair for pair in only(analysis).pairs if pair.block == 3)
    assert (pair.attempt, pair.reference, pair.treatment) == (2, 30, 31)
    assert "blocks-repeated" in codes(only(analysis))
    host = next(cell for cell in analysis.cells if cell.treatment == {"environment": "host"})
    assert host.values[3] == 10  # a table of one arm shows the first attempt in which that arm is ok


def test_blocks_come_in_planned_order_whatever_finished_first() -> None:
    of = manifest()
    records = whole_run(of, lambda block, *_: 1.0 + block)
    forwards, backwards = run(of, records), run(of, records[::-1])
    assert forwards == backwards
    assert [pair.block for pair in only(forwards).pairs] == list(range(8))


def test_true_and_one_are_different_treatments() -> None:
    odd = record("docker", 0, {"throughput": ratio(5)})
    treatment = {**odd.trial.treatment, "offload": True}
    other = odd.model_copy(update={"trial": odd.trial.model_copy(update={"treatment": treatment})})
    same = odd.model_copy(
        update={"trial": odd.trial.model_copy(update={"treatment": {**treatment, "offload": 1}, "id": "x"})}
    )
    assert len(arms_of([odd, other, same], 1)) == 3


# ── Verdicts ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_clear_difference() -> None:
    of = manifest()
    contrast = only(
        run(of, whole_run(of, lambda block, arm, _: 100 * (1 + wobble(block, 0.01)) * (0.5 if arm == "docker" else 1)))
    )
    assert contrast.verdict is Verdict.DIFFERENT
    assert contrast.ratio == pytest.approx(0.5)
    assert contrast.interval == (contrast.ratio, contrast.ratio)
    assert contrast.p == 2**-7
    assert contrast.equivalence == (1 / 1.02, 1.02)
    assert contrast.level == 0.05


def test_equivalence_comes_before_difference() -> None:
    """Half a percent, surely there and surely within the margin of two."""
    of = manifest()
    contrast = only(run(of, whole_run(of, lambda block, arm, _: 100.5 if arm == "docker" else 100.0)))
    assert contrast.verdict is Verdict.EQUIVALENT
    assert contrast.interval is not None and contrast.interval[0] > 1


def test_noise_is_undecided() -> None:
    of = manifest()
    noisy = whole_run(of, lambda block, arm, _: 100 * (1 + (wobble(block, 0.1) if arm == "docker" else 0)))
    contrast = only(run(of, noisy))
    assert (contrast.verdict, contrast.reason) == (Verdict.UNDECIDED, None)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.floats(0.5, 1), st.floats(1e-3, 0.5), st.floats(0.01, 0.2))
def test_verdicts_follow_their_order(low: float, width: float, margin: float) -> None:
    interval, bounds = (low, low + width), (1 / (1 + margin), 1 + margin)
    verdict, _ = judge(interval, bounds, 1.0)
    inside = bounds[0] <= interval[0] and interval[1] <= bounds[1]
    excludes = interval[0] > 1 or interval[1] < 1
    expected = Verdict.EQUIVALENT if inside else Verdict.DIFFERENT if excludes else Verdict.UNDECIDED
    assert verdict is expected


@pytest.mark.parametrize(("contrasts", "blocks"), [(1, 6), (2, 7), (4, 8)])
def test_too_few_blocks_for_the_family(contrasts: int, blocks: int) -> None:
    environments = [f"e{number}" for number in range(contrasts + 1)]
    for count, reason in ((blocks - 1, "too-few-blocks"), (blocks, None)):
        of = manifest(environments, blocks=count)
        records = [
            record(name, block, {"throughput": ratio(100.0 * (number + 1) + block)})
            for block in range(count)
            for number, name in enumerate(environments)
        ]
        analysis = run(of, records)
        assert {contrast.reason for contrast in analysis.contrasts} == {reason}
        verdict = Verdict.DIFFERENT if reason is None else Verdict.UNDECIDED
        assert {contrast.verdict for contrast in analysis.contrasts} == {verdict}
        assert all((contrast.p is None) == (reason is not None) for contrast in analysis.contrasts)
        assert all(contrast.ratio is not None for contrast in analysis.contrasts)


def test_a_planned_contrast_without_a_single_trial_is_still_told() -> None:
    contrast = only(run(manifest(), []))
    assert (contrast.verdict, contrast.reason, contrast.blocks) == (Verdict.UNDECIDED, "too-few-blocks", 0)
    assert contrast.response == "throughput" and contrast.ratio is None


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (ratio(0.0), "not-positive"),
        (ratio(-1.0), "not-positive"),
        (ratio(7.0, censored="right"), "censored"),
        (ratio(float("inf")), "not-finite"),
        (Response(value=1.0, unit="B", better="higher"), "units-differ"),
    ],
)
def test_a_value_that_the_scale_cannot_hold_leaves_it_undecided(response: Response, reason: str) -> None:
    of = manifest()
    records = whole_run(of, lambda block, arm, _: 200.0 if arm == "docker" else 100.0)
    records[4] = record("host", 2, {"throughput": response})
    contrast = only(run(of, records))
    assert (contrast.verdict, contrast.reason) == (Verdict.UNDECIDED, reason)
    assert (contrast.ratio, contrast.interval, contrast.p) == (None, None, None)
    assert reason in codes(contrast)
    assert contrast.blocks == 8


def test_differences_are_held_against_a_share_of_the_reference() -> None:
    of = manifest(margin="10%")
    near = only(run(of, whole_run(of, lambda block, arm, _: 0.21 if arm == "docker" else 0.20, plain)))
    far = only(run(of, whole_run(of, lambda block, arm, _: 0.25 if arm == "docker" else 0.20, plain)))
    assert near.equivalence == pytest.approx((-0.02, 0.02))
    assert (near.verdict, far.verdict) == (Verdict.EQUIVALENT, Verdict.DIFFERENT)
    assert near.difference == pytest.approx(0.01) and near.ratio is None


def test_without_a_margin_there_is_no_equivalence() -> None:
    of = manifest()
    zeros = only(run(of, whole_run(of, lambda *_: 0.0, plain)))
    assert (zeros.verdict, zeros.reason, zeros.equivalence) == (Verdict.UNDECIDED, "no-margin", None)
    lossy = only(run(of, whole_run(of, lambda block, arm, _: 0.1 + block / 99 if arm == "docker" else 0.0, plain)))
    assert lossy.verdict is Verdict.DIFFERENT


def test_the_primary_response_comes_first_and_the_rest_is_exploratory() -> None:
    of = manifest(["host", "docker", "qemu"])
    records = [
        record(
            environment,
            block,
            {
                "errors": plain(0.01 * (1 + block)),
                "throughput": ratio(100.0 + block),
                **({} if environment == "qemu" else {"connect_p50": ratio(1.0 + block)}),
            },
        )
        for block in range(8)
        for environment in ("host", "docker", "qemu")
    ]
    analysis = run(of, records)
    found = [(one.treatment["environment"], one.response, one.primary, one.level) for one in analysis.contrasts]
    assert found == [
        ("docker", "throughput", True, 0.025),
        ("docker", "connect_p50", False, 0.05),
        ("docker", "errors", False, 0.05),
        ("qemu", "throughput", True, 0.025),
        ("qemu", "errors", False, 0.05),
    ]


def test_what_belongs_to_a_boot_that_workloads_share_is_told_once() -> None:
    study = manifest(share_boot=True).study.model_dump(mode="json")
    workloads = [{"name": name, "kind": "http"} for name in ("web", "again")]
    shared = Study.model_validate({**study, "workloads": workloads})
    of = manifest().model_copy(update={"study": shared, "plan": planning.make(shared)})
    seconds = {"host": 1.0, "docker": 3.0}
    records = []
    for block in range(8):
        for arm in PAIR:
            for position, workload in enumerate(("web", "again") if block % 2 else ("again", "web")):
                values = {"throughput": ratio(100.0), "ready": Response(value=seconds[arm], unit="s", better="lower")}
                one = record(arm, block, values, position=position)
                records.append(one.model_copy(update={"trial": one.trial.model_copy(update={"workload": workload})}))
    bad = records[0].model_copy(update={"status": TrialStatus.FAILED, "responses": {}})
    analysis = analyse(of, [bad, *records[1:]], [], {"web": "throughput", "again": "throughput"})
    assert [(one.workload, one.response) for one in analysis.contrasts] == [
        ("web", "throughput"),
        ("again", "throughput"),
        ("", "ready"),
    ]
    ready = analysis.contrasts[-1]
    assert ready.ratio == pytest.approx(3.0)
    assert (ready.blocks, ready.primary) == (8, False)
    cells = [(cell.workload, cell.treatment["environment"], len(cell.values)) for cell in analysis.cells[-2:]]
    assert cells == [("", "host", 8), ("", "docker", 8)]
    assert {cell.response for cell in analysis.cells if cell.workload} == {"throughput"}


def test_boots_of_their_own_tell_their_own_time_to_ready() -> None:
    values = {"throughput": ratio(100.0), "ready": Response(value=1.0, unit="s", better="lower")}
    analysis = run(manifest(), [record(arm, block, values) for block in range(8) for arm in PAIR])
    assert [(one.workload, one.response) for one in analysis.contrasts] == [("web", "throughput"), ("web", "ready")]


def test_a_response_missing_in_some_blocks_is_warned_of() -> None:
    of = manifest()
    records = whole_run(of, lambda *_: 1.0)
    records[0] = record("host", 0, {})
    contrast = only(run(of, records))
    assert contrast.blocks == 7
    assert "response-missing" in codes(contrast)


# ── Warnings about how it was measured ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("how", ["restore", "reuse"])
def test_a_boot_that_was_not_fresh_limits_the_conclusion(how: str) -> None:
    of = manifest()
    records = [record(arm, block, {"throughput": ratio(1.0)}, how=how) for block in range(8) for arm in PAIR]
    contrast = only(run(of, records))
    (warning,) = (warning for warning in contrast.warnings if warning.code == "one-boot")
    assert "that one boot" in warning.text


@pytest.mark.parametrize(
    ("cpus", "warned"),
    [(("0", "1"), False), (("0-1", "1"), True), (("0,2-3", "1,4"), False), (("0", ""), True), (("", ""), True)],
)
def test_client_and_server_on_the_same_cpus(cpus: tuple[str, str], warned: bool) -> None:
    of = manifest()
    records = [record(arm, block, {"throughput": ratio(1.0)}, cpus=cpus) for block in range(8) for arm in PAIR]
    assert ("cpus-shared" in codes(only(run(of, records)))) == warned


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
    assert warning == Warned(code="steal", text="in 3 of 16 trials, all of the treatment: 0 to 2 %")


def test_a_trial_that_warns_twice_of_the_same_is_one_trial() -> None:
    of = manifest()
    twice = (Warned(code="late", text="client 0 was late"), Warned(code="late", text="client 1 was late"))
    records = [record(arm, block, {"throughput": ratio(1.0)}, warnings=twice) for block in range(8) for arm in PAIR]
    (warning,) = only(run(of, records)).warnings
    assert warning.text == "in 16 of 16 trials: client 0 to 1 was late"


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
        {"event": "RunResumed", "finished": 3},
        {"event": "Withdrawn", "treatment": {"environment": "docker"}, "reason": "no engine"},
        {"event": "LeftBehind", "what": "the link nm0"},
        {"event": "RunEnded", "interrupted": True},
    ]
    records = [record("host", 0, {}, attempt=0), record("host", 0, {}, attempt=1)]
    found = {warning.code: warning.text for warning in analyse(of, records, events, PRIMARIES).warnings}
    assert found.keys() == {
        "left-out",
        "interrupted",
        "unfinished",
        "withdrawn",
        "left-behind",
        "blocks-repeated",
        "blocks-missing",
    }
    assert found["withdrawn"].startswith("environment=docker was withdrawn")
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
        ("unfinished", "the run has not come to its end; `nearmetal resume` goes on with it"),
        ("left-out", "environment=qemu nic=a; environment=qemu nic=b were left out: no QEMU on this host"),
        ("blocks-missing", "0 of 8 planned blocks were begun"),
        ("left-behind", "could not be put back: the link nm0 (2 times)"),
    ]


def test_a_run_that_ended_well_is_not_called_unfinished() -> None:
    events: list[dict[str, Any]] = [{"event": "RunStarted"}, {"event": "RunEnded", "interrupted": False}]
    of = manifest()
    analysis = analyse(of, whole_run(of, lambda *_: 1.0), events, PRIMARIES)
    assert analysis.warnings == ()


# ── Tables and the summary ────────────────────────────────────────────────────────────────────────────────────────


def test_cells_hold_what_a_table_shows() -> None:
    of = manifest(blocks=4)
    values = {"host": (1.0, 2.0, 3.0, 10.0), "docker": (5.0, 5.0, 5.0, 5.0)}
    analysis = run(of, whole_run(of, lambda block, arm, _: values[arm][block]))
    host, docker = analysis.cells
    assert host.values == (1.0, 2.0, 3.0, 10.0) and host.blocks == (0, 1, 2, 3)
    assert (host.mean, host.median, host.minimum, host.maximum) == (4.0, 2.5, 1.0, 10.0)
    assert host.stddev == pytest.approx(4.0824829)
    assert docker.stddev == 0.0


def test_summary_has_the_fields_that_scripts_rely_on() -> None:
    of = manifest()
    document = summary(run(of, whole_run(of, lambda block, arm, _: 2.0 if arm == "docker" else 1.0)), "DIR", "trial")
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert (document["schema"], document["run"], document["study"]) == ("summary.v1", "DIR", "trial")
    assert document["trials"] == {"ok": 16, "invalid": 0, "failed": 0, "lost": 0}
    (contrast,) = document["contrasts"]
    fixed = {
        "workload", "response", "unit", "scale", "primary", "treatment", "reference", "blocks", "look", "level",
        "ratio", "difference", "interval", "p", "verdict", "warnings",
    }  # fmt: skip
    assert fixed <= contrast.keys()
    assert contrast["verdict"] == "different" and contrast["look"] is None


def test_the_same_store_gives_the_same_bytes() -> None:
    of = manifest()
    records = whole_run(of, lambda block, arm, _: 100 + wobble(block, 3) + (arm == "docker"))
    assert run(of, records).model_dump_json() == run(of, iter(records)).model_dump_json()


# ── The fairness diff ─────────────────────────────────────────────────────────────────────────────────────────────


def facts(**more: Any) -> dict[str, Any]:
    return {
        "schema": "facts.v1",
        "kernel": {"release": "6.1", "boot_id": more.pop("boot_id", "x"), "uptime_seconds": 5.0},
        "processor": {"model": "EPYC", "flags": ["aes", "avx", "sse"], "allowed": "0", "allowed_count": 1},
        "memory": {"total_bytes": 2**30, "available_bytes": 12345},
        "limits": {"resources": {"open_files": {"soft": 1024, "hard": None}}},
        "sysctls": {"net.core.somaxconn": "4096"},
        "interfaces": {"data": {"mac": "02", "mtu": 1500, "up": True, "features": {"rx-gro": "on", "tx-all": "off"}}},
        "hashes": {"/usr/sbin/lighttpd": "ab" * 32, "/usr/bin/php": None},
        **more,
    }


def fairness(*of: tuple[dict[str, Any], dict[str, Any]]) -> dict[tuple[str, str], Mapping[str, str]]:
    machines = tuple(MachineFacts(treatment=treatment, role="server", facts=told) for treatment, told in of)
    analysis = run(manifest().model_copy(update={"fairness": machines}), [])
    return {(row.group, row.fact): row.values for row in analysis.fairness}


HOST, DOCKER = {"environment": "host"}, {"environment": "docker"}
SAME = {("binaries", "1 of the programs under test"): {"host": "identical", "docker": "identical"}}


def test_only_what_differs_is_in_the_diff() -> None:
    other = facts(boot_id="y", memory={"total_bytes": 2**30, "available_bytes": 1})
    assert fairness((HOST, facts()), (DOCKER, other)) == SAME


def test_lists_are_told_as_what_they_lack_and_add() -> None:
    other = facts(processor={"model": "TCG", "flags": ["sse", "hypervisor"], "allowed": "3", "allowed_count": 1})
    assert fairness((HOST, facts()), (DOCKER, other)) == {
        ("cpu", "model"): {"host": "EPYC", "docker": "TCG"},
        ("cpu", "flags"): {"host": "aes avx sse", "docker": "lacks aes avx; adds hypervisor"},
        **SAME,
    }


def test_offloads_differ_by_what_is_on_not_by_what_can_be_changed() -> None:
    features = {"rx-gro": "off", "tx-all": "fixed off", "new": "fixed off"}
    rows = fairness((HOST, facts()), (DOCKER, facts(interfaces={"data": {"mtu": 1500, "features": features}})))
    assert rows == {("offloads", "rx-gro"): {"host": "on", "docker": "off"}, **SAME}


def test_limits_sizes_and_what_was_not_told() -> None:
    other = facts(
        memory={"total_bytes": 2**29}, limits={"memory_bytes": 2**29, "resources": {"open_files": {"soft": None}}}
    )
    rows = fairness((HOST, facts()), (DOCKER, other))
    assert rows["memory", "total"] == {"host": "1 GiB", "docker": "512 MiB"}
    assert rows["limits", "memory"] == {"docker": "512 MiB"}
    assert rows["limits", "resources.open_files.soft"] == {"host": "1024", "docker": "unlimited"}


def kernel(command_line: str) -> dict[str, Any]:
    return facts(kernel={"release": "6.1", "command_line": command_line})


def test_of_a_command_line_only_the_words_that_differ_and_could_matter() -> None:
    rows = fairness(
        (HOST, kernel('BOOT_IMAGE=/boot/v root=UUID=1 ro quiet isolcpus=1 psi=1 dyndbg="a b" -- --token=x nohz=off')),
        (DOCKER, kernel("console=ttyS0 psi=1 nowatchdog nearmetal.hostname=nm-1 nearmetal.data=02:17,10.111.0.3/16")),
    )
    values = {"host": 'dyndbg="a b" isolcpus=1', "docker": "nowatchdog"}
    assert rows == {("kernel", "command_line"): values, **SAME}


def test_how_a_machine_boots_and_what_it_is_called_is_no_difference() -> None:
    first = "root=/dev/vda1 rootflags=x rw psi=1 initrd=a nearmetal.hostname=nm-1 nearmetal.control=52:54 audit=0"
    second = "audit=0 rdinit=/init console=ttyS0 net.ifnames=0 panic=-1 nearmetal.hostname=nm-2 psi=1"
    assert fairness((HOST, kernel(first)), (DOCKER, kernel(second))) == SAME
    guests = [{"environment": "qemu", "workers": workers} for workers in (1, 4)]
    rows = fairness((HOST, kernel("nohz=off")), *zip(guests, map(kernel, (first, second)), strict=True))
    assert rows["kernel", "command_line"] == {"host": "nohz=off", "qemu": "audit=0 psi=1"}


def test_a_kernel_that_adds_no_word_says_so() -> None:
    rows = fairness((HOST, kernel("psi=1")), (DOCKER, kernel("root=/dev/vda1")))
    assert rows["kernel", "command_line"] == {"host": "psi=1", "docker": "none of these"}


def test_folders_of_an_overlay_are_mere_names() -> None:
    def mounted(machine: str, *options: str) -> dict[str, Any]:
        overlay = {"type": "overlay", "source": machine, "options": [f"upperdir=/{machine}/upper", *options]}
        return facts(filesystems={"/": {**overlay, "mounted_at": "/"}})

    assert fairness((HOST, mounted("nm-e756a8-1", "rw")), (DOCKER, mounted("nm-e756a8-2", "rw"))) == SAME
    rows = fairness((HOST, mounted("a", "rw")), (DOCKER, facts(filesystems={"/": {"source": "/dev/vda"}})))
    assert rows["disk", "filesystems./.source"] == {"docker": "/dev/vda"}
    assert rows["disk", "filesystems./.options"] == {"host": "rw"}


def test_another_binary_is_shown_by_its_hash() -> None:
    rows = fairness((HOST, facts()), (DOCKER, facts(hashes={"/usr/sbin/lighttpd": "cd" * 32, "/usr/bin/php": None})))
    assert rows == {("binaries", "/usr/sbin/lighttpd"): {"host": "abababababab", "docker": "cdcdcdcdcdcd"}}


def test_treatments_that_differ_within_an_environment_are_told_apart() -> None:
    rows = fairness(
        (HOST, facts()),
        ({"environment": "qemu", "nic": "e1000"}, facts(network={"driver": "e1000"})),
        ({"environment": "qemu", "nic": "virtio"}, facts(network={"driver": "virtio_net"})),
    )
    assert rows["network", "driver"] == {
        "environment=qemu nic=e1000": "e1000",
        "environment=qemu nic=virtio": "virtio_net",
    }


def test_strange_facts_do_not_break_the_diff() -> None:
    strange = {"schema": "facts.v1", "gpu": {"memory_bytes": None, "cards": []}, "interfaces": {}, "answer": 42}
    rows = fairness((HOST, strange), (DOCKER, facts()))
    assert rows["answer", "answer"] == {"host": "42"}


def test_machines_that_were_emulated_are_named_whatever_was_asked_for() -> None:
    accels = {"host": None, "docker": "tcg"}
    of = manifest()
    records = [
        one.model_copy(update={"readback": {"resources": {"accel": accels[str(one.trial.treatment["environment"])]}}})
        for one in whole_run(of, lambda block, environment, repeat: 1.0 + block)
    ]
    (warning,) = [warning for warning in run(of, records).warnings if warning.code == "emulated"]
    assert warning.text.startswith("docker ran by emulation (tcg)")
    native = [one.model_copy(update={"readback": {"resources": {"accel": "kvm"}}}) for one in records]
    assert "emulated" not in [warning.code for warning in run(of, native).warnings]
