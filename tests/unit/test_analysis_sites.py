"""Blocks on several sites: what these say, whether they agree, and what hosts in general say."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from nearmetal.analysis.results import Contrast, Verdict
from nearmetal.analysis.signed_rank import signed_rank
from nearmetal.analysis.sites import find_agreement_p
from nearmetal.report import words
from nearmetal.report.blocks import Table
from nearmetal.report.report_input import read_run_input
from nearmetal.report.sections import sites
from tests import plausible_run
from tests.analysis_inputs import manifest, only, ratio, record, run

RESOLUTION = 1e-12


def measured(effects: Mapping[str, float], blocks: int, noise: float = 0.01) -> Contrast:
    """The contrast of a run whose blocks go round the sites, each with a treatment's effect of its own."""
    generator = np.random.default_rng(3)
    names = sorted(effects)
    records = []
    for block in range(blocks):
        site = names[block % len(names)]
        for environment in ("host", "docker"):
            value = 100 * np.exp(generator.normal(0, noise) + (effects[site] if environment == "docker" else 0.0))
            found = record(environment, block, {"throughput": ratio(float(value))})
            records.append(found.model_copy(update={"site": site}))
    return only(run(manifest(blocks=blocks), records))


def test_how_far_sites_lie_apart_is_no_part_of_the_scatter_of_these() -> None:
    contrast = measured({"a": 0.02, "b": 0.10, "c": 0.18}, 12)
    assert contrast.verdict is Verdict.DIFFERENT and contrast.interval is not None
    assert contrast.sites is not None and contrast.sites.stratified is not None
    low, high = contrast.sites.stratified.interval or (0, 0)
    assert 1 < low < 1.105 < high < 1.14
    assert high / low < (contrast.interval[1] / contrast.interval[0]) ** 0.5
    assert contrast.sites is not None and contrast.sites.p is not None and contrast.sites.p < 0.01
    assert [(one.site, one.blocks) for one in contrast.sites.each] == [("a", 4), ("b", 4), ("c", 4)]
    assert [one.estimate for one in contrast.sites.each] == pytest.approx([1.02, 1.105, 1.197], rel=0.02)
    assert contrast.sites.in_general.interval is None
    assert {"sites-differ", "too-few-sites"} <= {one.code for one in contrast.warnings}
    assert words.list_sites(contrast)[0].startswith("sites differ (3 sites, p")


def test_sites_that_are_alike_are_not_seen_to_differ() -> None:
    contrast = measured(dict.fromkeys("abcdef", 0.1), 18)
    assert contrast.sites is not None and contrast.sites.p is not None and contrast.sites.p > 0.05
    low, high = contrast.sites.in_general.interval or (0, 0)
    assert 1 < low < 1.105 < high
    assert not {"sites-differ", "too-few-sites"} & {one.code for one in contrast.warnings}


def test_with_few_blocks_a_site_sites_are_not_told_apart() -> None:
    contrast = measured(dict.fromkeys("abcd", 0.1), 8)
    assert contrast.sites is not None and contrast.sites.p is None and contrast.sites.stratified is None
    logs = [np.log(pair.treatment / pair.reference) for pair in contrast.pairs]
    assert contrast.p == signed_rank(np.array(logs), contrast.level, RESOLUTION).p
    assert words.list_sites(contrast) == ["too few blocks a site to tell whether sites differ (4 sites)"]


def test_of_one_site_nothing_is_told() -> None:
    contrast = measured({"local": 0.1}, 8)
    assert contrast.sites is None
    assert words.list_sites(contrast) == []


def test_p_of_agreement_is_that_of_kruskal_and_wallis() -> None:
    generator = np.random.default_rng(5)
    few = [generator.normal(place, size=8) for place in (0.0, 0.5, 1.0)]
    p = find_agreement_p(few, RESOLUTION)
    assert p is not None and p == pytest.approx(stats.kruskal(*few).pvalue, abs=0.02)
    many = [np.round(generator.normal(place, size=90), 1) for place in (0.0, 0.1, 0.3)]
    p = find_agreement_p(many, RESOLUTION)
    assert p is not None and p == pytest.approx(stats.kruskal(*many).pvalue, abs=0.003)


@pytest.mark.parametrize(
    ("groups", "p"),
    [
        ([], None),
        ([np.zeros(3)], None),
        ([np.zeros(3), np.zeros(4)], 1.0),
        ([np.full(3, np.inf), np.full(3, np.inf)], 1.0),
    ],
)
def test_of_no_differences_and_of_one_site_there_is_nothing_to_agree_on(
    groups: list["np.ndarray[tuple[int], np.dtype[np.float64]]"], p: float | None
) -> None:
    assert find_agreement_p(groups, RESOLUTION) == p


def test_failures_of_one_site_alone_are_seen() -> None:
    p = find_agreement_p([np.full(6, -np.inf), np.linspace(0, 1, 6)], RESOLUTION)
    assert p is not None and p < 0.01


def test_the_report_has_a_row_for_each_site(tmp_path: Path) -> None:
    read_run = read_run_input(plausible_run.make(tmp_path / "run", blocks=2))
    assert sites.plugin.render(read_run) is None
    contrast = measured({"a": 0.02, "b": 0.10, "c": 0.18}, 12)
    told = replace(read_run, analysis=read_run.analysis.model_copy(update={"contrasts": (contrast,)}))
    section = sites.plugin.render(told)
    assert section is not None
    (table,) = section.blocks
    assert isinstance(table, Table)
    assert [row[5] for row in table.rows] == ["a", "b", "c", sites.TOGETHER, sites.IN_GENERAL]
