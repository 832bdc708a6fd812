"""The answer in sentences: absolute values, everyday words, and nothing that the verdict does not say."""

from typing import Any

import pytest

from nearmetal.analysis.results import Contrast, Pair, Verdict
from nearmetal.report import figures
from nearmetal.report.answer import answer_contrasts
from nearmetal.report.palette import colour_environments
from nearmetal.report.report_input import ReportInput, read_run_input
from nearmetal.report.words import Labels
from tests import contrast_examples, plausible_run


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> ReportInput:
    return read_run_input(plausible_run.make(tmp_path_factory.mktemp("run") / "run", blocks=2))


def contrast(mine: float, theirs: float, **changes: Any) -> Contrast:
    pairs = tuple(
        Pair(block=block, attempt=0, treatment=mine * (1 + 0.002 * block), reference=theirs * (1 + 0.002 * block))
        for block in range(8)
    )
    return contrast_examples.contrast(
        **{"ratio": mine / theirs, "pairs": pairs, "equivalence": (1 / 1.02, 1.02), **changes}
    )


QEMU = {"environment": "qemu"}


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (
            contrast(3400, 29400, interval=(0.05, 0.1667), treatment=QEMU),
            "The VM (qemu) serves 3,424 requests a second where the host serves 29,610: 0.12 × as many (0.05 to 0.17).",
        ),
        (
            contrast(28500, 29400, interval=(0.95, 0.99)),
            "The container (docker) serves 28,700 requests a second where the host serves 29,610: "
            "3 % fewer (1 to 5 %).",
        ),
        (
            contrast(28500, 29400, interval=(0.95, 0.99), look=1, adjusted=0.981),
            "The container (docker) serves 28,700 requests a second where the host serves 29,610: "
            "3 % fewer (1 to 5 %), or 2 % fewer corrected for the looks.",
        ),
        (
            contrast(28500, 29400, interval=(0.95, 0.99), look=3, adjusted=0.9701),
            "The container (docker) serves 28,700 requests a second where the host serves 29,610: "
            "3 % fewer (1 to 5 %).",
        ),
        (
            contrast(29400, 29400, interval=(0.99, 1.01), verdict=Verdict.EQUIVALENT),
            "The container (docker) serves 29,610 requests a second where the host serves 29,610: the same within 2 %, "
            "1.00 × (0.99 to 1.01).",
        ),
        (
            contrast(28500, 29400, interval=(0.9, 1.05), verdict=Verdict.UNDECIDED, needs=24),
            "The container (docker) could not be told from the host: it serves 28,700 requests a second where the host "
            "serves 29,610 (0.97 ×, 0.90 to 1.05); about 24 blocks would decide it.",
        ),
        (
            contrast(2e-5, 1e-5, response="cpu_per_event", unit="s", better="lower", interval=(1.9, 2.1)),
            "The container (docker) costs 20.1 µs of the host's CPU time for each event where the host costs 10.1 µs: "
            "2.00 × as much (1.90 to 2.10).",
        ),
        (
            contrast(1.2e-3, 1e-3, response="latency_p99", unit="s", better="lower", interval=(1.1, 1.3)),
            "The container (docker) has a 99th percentile of latency of 1.21 ms where the host has 1.01 ms: "
            "20 % longer (10 to 30 %).",
        ),
        (
            contrast(1, 1, interval=None, ratio=None, verdict=Verdict.WITHDRAWN),
            "The container (docker) was given up after failures, and is not compared with the host.",
        ),
    ],
)
def test_a_verdict_is_said_with_both_values(told: Contrast, said: str, report: ReportInput) -> None:
    (one,) = answer_contrasts([told], report.manifest.plan, report.labels)
    assert [each.text for each in one] == [said]


def test_a_treatment_has_one_answer_with_a_sentence_for_each_comparison(report: ReportInput) -> None:
    both = [contrast(3400, 29400), contrast(700, 900, workload="primes", response="events", interval=(0.7, 0.85))]
    (one,) = answer_contrasts(both, report.manifest.plan, report.labels)
    first, second = (each.text for each in one)
    assert first.startswith("In the workload web, the container (docker) serves ")
    assert second.startswith(
        "In the workload primes, it does 705 events a second where the host does 906: 22 % fewer (15 to 30 %)"
    )


def test_machines_of_one_family_are_told_apart_by_their_names(report: ReportInput) -> None:
    plan = report.manifest.plan
    alike = tuple(
        one.model_copy(update={"environment": plan.resolved[1].environment.model_copy(update={"level": level})})
        for one, level in zip(plan.resolved, ("host", "docker", "qemu"), strict=False)
    )
    (one,) = answer_contrasts([contrast(1, 2)], plan.model_copy(update={"resolved": alike}), Labels.of_plan(plan))
    assert one[0].text.startswith("docker serves")


@pytest.mark.parametrize(
    ("value", "place", "shown"),
    [(38396.0, 1000, "38,000/s"), (38396.0, 1e6, "38,000/s"), (1234.5, 10, "1,230/s"), (0.0, 10, "0/s")],
)
def test_a_figure_has_the_digits_that_are_known_and_two_in_any_case(value: float, place: float, shown: str) -> None:
    assert figures.format_quantity(figures.round_off(value, place), "1/s") == shown


def test_what_does_not_scatter_is_told_in_full() -> None:
    assert figures.as_known([1234.5] * 5) == 1234.5
    assert figures.as_known([19000.0, 31000.0, 29000.0, 43000.0]) == 30000.0


def test_no_two_environments_of_a_few_share_a_colour() -> None:
    assert len(set(colour_environments(["a", "i", "q", "y"]).values())) == 4
