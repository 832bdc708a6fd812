"""`nearmetal run --gate`: one run's comparisons, judged when it ends."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from nearmetal.analysis.results import Failures, Verdict
from nearmetal.commands.gates import find_why
from tests.command_line import Ended, called
from tests.contrast_examples import contrast

STUDY = """
name = "gated"
reference = {{ environment = "base" }}
[environments.base]
kind = "mock"
[environments.slow]
kind = "mock"
speed = 0.5
[factors]
environment = ["base", "slow"]
[clients]
environment = "mock"
[[workloads]]
name = "web"
kind = "http"
duration = "1s"
[design]
blocks = {blocks}
"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    return tmp_path / "gated.toml"


def gated(study: Path, *gates: str, blocks: str = "8") -> Ended:
    study.write_text(STUDY.format(blocks=blocks))
    return called("run", str(study), *gates, "-o", str(study.parent / "run"))


def test_each_gate_is_told_and_one_that_is_not_met_ends_with_5(study: Path) -> None:
    ended = gated(study, "--gate", "--gate=throughput > -70%", "--gate=latency_p50 < 10%")
    assert ended.returncode == 5
    assert ended.stdout.splitlines()[-3:] == [
        "gate not met: 1 comparison is surely worse than its reference, by more than the margin",
        "gate throughput > -70% met: 1 comparison shown to keep it",
        "gate latency_p50 < 10% not met: 1 comparison has an interval that reaches beyond the bound",
    ]


def test_what_nothing_can_be_decided_of_is_not_met_and_evidence_is(study: Path) -> None:
    ended = gated(study, "--gate", blocks="2")
    assert (ended.returncode, "1 comparison has no interval, so that nothing can be decided" in ended.stdout) == (
        5,
        True,
    )


def test_a_gate_that_is_met_leaves_the_status(study: Path) -> None:
    ended = gated(study, "--gate", "throughput > -70%", blocks="6")
    assert (ended.returncode, "gate throughput > -70% met" in ended.stdout) == (0, True)


@pytest.mark.parametrize(
    ("gate", "blocks", "said"),
    [
        ("throughputs > 1%", "8", "did you mean `throughput`?"),
        ("latency_p50 < 1%", "{ min = 8, max = 40 }", "judged by its primary responses alone"),
        ("loose", "8", "'loose' is no gate"),
    ],
)
def test_what_no_gate_can_be_about_is_refused_before_anything_is_measured(
    study: Path, gate: str, blocks: str, said: str
) -> None:
    ended = gated(study, f"--gate={gate}", blocks=blocks)
    assert (ended.returncode, said in ended.stderr) == (2, True)
    assert not (study.parent / "run").exists()


def test_what_fails_or_cannot_be_judged_meets_no_gate() -> None:
    assert find_why(contrast()) is None
    assert find_why(contrast(verdict=Verdict.WITHDRAWN, interval=None, p=None)) == "withdrawn"
    unjudged = {"verdict": Verdict.UNDECIDED, "interval": None, "p": None}
    assert find_why(contrast(**unjudged, reason="not-positive")) == "unjudged"
    assert find_why(contrast(**unjudged, reason="no-blocks")) == "unjudged"
    assert find_why(contrast(**unjudged, reason="too-few-blocks")) is None
    for treatment, reference, why in ((10, 0, "failing"), (0, 10, None)):
        failed = Failures(blocks=30, treatment=treatment, reference=reference, both=0, p=0.002)
        assert find_why(contrast(failures=failed)) == why


def test_a_pipeline_gets_gates_as_a_comment_and_as_tests(study: Path) -> None:
    study.write_text(STUDY.format(blocks=8))
    run = study.parent / "run"
    ended = called("run", str(study), "--gate", "--gate=throughput > -70%", "--format", "junit", "-o", str(run))
    assert ended.returncode == 5
    root = ElementTree.fromstring(ended.stdout)
    assert [(suite.get("name"), suite.get("failures")) for suite in root] == [
        ("gate", "1"),
        ("gate throughput > -70%", "0"),
    ]
    (failure,) = root.iter("failure")
    said = "throughput of slow vs base is surely worse than its reference, by more than the margin"
    assert failure.get("message") == f"{said} (alpha 0.05, confidence 95 %)."
    again = called("resume", str(run), "--format", "md")
    assert again.returncode == 5
    assert "- ❌ Gate not met: 1 comparison is surely worse" in again.stdout
    assert "Each comparison is judged at alpha 0" in again.stdout
    (row,) = (line for line in again.stdout.splitlines() if line.startswith("| ▼"))
    assert row.startswith("| ▼ different, worse | slow vs base | throughput | 0."), row


def test_resume_and_show_know_of_the_gates_that_a_run_was_begun_with(study: Path) -> None:
    assert gated(study, "--gate").returncode == 5
    run = str(study.parent / "run")
    said = "gate not met: 1 comparison is surely worse than its reference, by more than the margin"
    resumed = called("resume", run)
    assert (resumed.returncode, said in resumed.stdout) == (5, True)
    shown = called("show", run)
    assert (shown.returncode, said in shown.stdout) == (0, True)
    (gate,) = json.loads(called("show", run, "--json").stdout)["gates"]
    assert (gate["gate"], gate["met"], gate["cases"][0]["why"]) == ("worse", False, "worse")


def test_junit_needs_a_gate(study: Path) -> None:
    ended = gated(study, "--format", "junit")
    assert (ended.returncode, "there is no gate" in ended.stderr) == (2, True)
    assert gated(study, blocks="2").returncode == 0
    resumed = called("resume", str(study.parent / "run"), "--format", "junit")
    assert (resumed.returncode, "this run has none" in resumed.stderr) == (2, True)
