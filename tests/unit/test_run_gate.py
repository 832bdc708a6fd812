"""`nearmetal run --gate`: one run's comparisons, judged when it ends."""

from pathlib import Path

import pytest

from nearmetal.analysis.results import Failures, Verdict
from nearmetal.commands.gates import find_why
from tests.command_line import Ended, called
from tests.contrasted import contrast

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
        "gate not met: 1 comparison surely worse than its reference, by more than the margin",
        "gate throughput > -70% met: 1 comparison shown to keep it",
        "gate latency_p50 < 10% not met: 1 comparison whose interval reaches beyond that",
    ]


def test_what_nothing_can_be_decided_of_is_not_met_and_evidence_is(study: Path) -> None:
    ended = gated(study, "--gate", blocks="2")
    assert (ended.returncode, "1 comparison of which nothing can be decided" in ended.stdout) == (5, True)


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
