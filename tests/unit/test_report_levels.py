"""At what level intervals are, wherever the report says it."""

from dataclasses import replace
from pathlib import Path

import pytest

from nearmetal.report.blocks import Chart, Section, Terms
from nearmetal.report.chapters import make_sections
from nearmetal.report.report_input import ReportInput, read_run_input
from tests import plausible_run


def chapter(report: ReportInput, name: str) -> Section:
    (found,) = [section for section in make_sections(report) if section.name == name]
    return found


def told_level(report: ReportInput) -> str:
    (terms,) = [block for block in chapter(report, "method").blocks if isinstance(block, Terms)]
    return dict(terms.items)["Level"]


def levels(report: ReportInput, primary: bool) -> set[str]:
    return {f"{100 * (1 - one.level):.4g} %" for one in report.analysis.contrasts if one.primary is primary}


@pytest.mark.parametrize(
    ("factors", "is_drawn"), [("", True), ("nic = ['virtio-net', 'e1000', 'e1000e', 'vmxnet3']", False)]
)
def test_shared_and_whole_levels_are_told_apart(factors: str, is_drawn: bool, tmp_path: Path) -> None:
    report = read_run_input(plausible_run.make(tmp_path / "run", blocks=2, factors=factors))
    (shared,), (whole,) = levels(report, primary=True), levels(report, primary=False)
    assert shared != whole == "95 %"
    said = told_level(report)
    assert (
        f"their intervals are at {shared}; those of exploratory comparisons" in said
        and f"are at {whole}. Once some" in said
    )
    exploratory = chapter(report, "exploratory")
    assert f"Each interval is at {whole}: the study's whole level" in exploratory.lead
    assert any(isinstance(block, Chart) for block in exploratory.blocks) is is_drawn


def test_the_level_of_one_contrast_is_that_of_all_intervals(tmp_path: Path) -> None:
    report = read_run_input(plausible_run.make(tmp_path / "run", blocks=2))
    only = report.manifest.plan.contrasts[:1]
    alpha = report.manifest.study.design.alpha
    plan = report.manifest.plan.model_copy(update={"contrasts": only, "level": alpha})
    one = replace(report, manifest=report.manifest.model_copy(update={"plan": plan}))
    assert told_level(one).endswith("0.05 each, so every interval is at 95 %.")
