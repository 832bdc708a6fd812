"""Figures that observers left are compared on the scale that is declared for them, whatever was measured."""

import math
from collections.abc import Sequence

import pytest

from nearmetal.analysis import attribution
from nearmetal.analysis.attribution import CovariateContrast, attributed
from nearmetal.analysis.covariates import Covariate
from nearmetal.analysis.responses import Replicate
from nearmetal.model import Scale
from nearmetal.report.explanations import count_by_chance, list_values, show_difference
from tests.analysis_inputs import ratio, record


def compare(
    monkeypatch: pytest.MonkeyPatch, scale: Scale, treatment: Sequence[float], reference: Sequence[float]
) -> CovariateContrast | None:
    covariate = Covariate("calls", "calls", lambda record: record.responses["calls"].value, scale=scale)
    monkeypatch.setattr(attribution, "COVARIATES", (covariate,))
    sides = [
        [
            Replicate(block, 0, 0.0, (record(name, block, {"calls": ratio(value)}),), {})
            for block, value in enumerate(values)
        ]
        for name, values in (("docker", treatment), ("host", reference))
    ]
    found = attributed(list(zip(*sides, strict=True)), 0.05)
    return found[0] if found else None


@pytest.mark.parametrize("reference", [[1.0] * 8, [0.0] * 8, [0.0, 1.0] * 4])
@pytest.mark.parametrize("scale", ["ratio", "difference"])
def test_values_do_not_choose_the_scale(
    monkeypatch: pytest.MonkeyPatch, scale: Scale, reference: Sequence[float]
) -> None:
    found = compare(monkeypatch, scale, [2.0] * 8, reference)
    assert found is not None and found.scale == scale and found.differs
    assert 0 < found.distance <= 2


def test_a_ratio_to_nothing_is_unbounded(monkeypatch: pytest.MonkeyPatch) -> None:
    more = compare(monkeypatch, "ratio", [2.0] * 8, [0.0] * 8)
    assert (
        more is not None and more.estimate == math.inf and show_difference(more) == "unbounded (unbounded to unbounded)"
    )
    assert list_values(more)[:3] == ("unbounded", "unbounded", "unbounded")
    less = compare(monkeypatch, "ratio", [0.0] * 8, [2.0] * 8)
    assert less is not None and less.estimate == 0 and less.differs
    alike = compare(monkeypatch, "ratio", [0.0, 3.0] * 4, [0.0, 3.0] * 4)
    assert alike is not None and alike.estimate == 1 and not alike.differs


def test_what_is_negative_has_no_ratio(monkeypatch: pytest.MonkeyPatch) -> None:
    assert compare(monkeypatch, "ratio", [-1.0] * 8, [2.0] * 8) is None
    assert compare(monkeypatch, "difference", [-1.0] * 8, [2.0] * 8) is not None


def test_chance_is_counted_for_all_that_have_an_interval() -> None:
    assert count_by_chance(40, 0.05) == "by chance alone 2 would on average, at most"
    assert count_by_chance(3, 0.05) == "by chance alone 0.15 would on average, at most"
