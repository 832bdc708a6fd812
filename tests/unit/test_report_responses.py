"""What was measured: all pictures at first sight where they are few, else those that verdicts are about."""

from pathlib import Path

from nearmetal.report.blocks import Chart
from nearmetal.report.reading import read, sections
from nearmetal.store.folder import RunFolder
from tests import plausible_run, plausible_sysbench


def pictures(folder: RunFolder) -> dict[str, tuple[list[str], bool]]:
    """Of each chart of the chapter, its panels and whether they are folded away."""
    (section,) = [section for section in sections(read(folder)) if section.name == "responses"]
    charts = [block for block in section.blocks if isinstance(block, Chart)]
    return {chart.name: ([panel.name for panel in chart.panels], chart.folded) for chart in charts}


def test_of_many_responses_those_with_verdicts_are_shown_and_the_rest_is_a_click_away(tmp_path: Path) -> None:
    found = pictures(plausible_sysbench.sysbench(tmp_path / "run", 4))
    assert found["responses"] == (["cpu-events", "fileio-2g-read"], False)
    rest, is_folded = found["responses-more"]
    assert is_folded and {"cpu-latency_p95", "fileio-2g-written", "fileio-2g-fsyncs"} <= set(rest)
    assert not set(rest) & set(found["responses"][0])


def test_few_responses_are_all_shown(tmp_path: Path) -> None:
    ((name, (panels, is_folded)),) = pictures(plausible_run.make(tmp_path / "run", blocks=2)).items()
    assert name == "responses" and len(panels) > 1 and not is_folded
