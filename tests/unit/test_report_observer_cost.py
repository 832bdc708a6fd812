"""The ledger of what watching cost."""

from pathlib import Path

import pytest

from nearmetal import plugins
from nearmetal.report.blocks import Notice, Paragraph, Quantity, Section, Table
from nearmetal.report.report_input import ReportInput, read_run_input
from nearmetal.report.sections.observer_cost import plugin as watching
from tests import journals, plausible_captures, plausible_run


def chapter(report: ReportInput) -> Section:
    section = watching.render(report)
    assert section is not None
    return section


def test_a_run_that_nobody_watched_has_no_ledger(tmp_path: Path) -> None:
    assert watching.render(read_run_input(plausible_run.make(tmp_path / "run", 2))) is None


@pytest.mark.parametrize(("counted", "answered"), [(1000, None), (600, 1000)])
def test_each_who_watched_is_in_the_ledger_with_its_cpu_time(
    counted: float, answered: float | None, tmp_path: Path
) -> None:
    """Error pages, and replies after the window, were watched too; not every version kept how many there were."""
    folder = plausible_captures.make(tmp_path / "run", 4)
    with journals.changed_records(folder.journal) as lines:
        for line in lines:
            line["responses"]["transactions"] = {"value": counted, "unit": "", "better": "higher", "scale": "ratio"}
            line["events"] = answered
    ledger, said = chapter(read_run_input(folder)).blocks
    assert isinstance(ledger, Table) and isinstance(said, Paragraph)
    rows = {row[2:4]: row[4:] for row in ledger.rows if row[1] == "host"}
    assert rows["capture", "client-0"] == (4, Quantity(0.02, "s"), Quantity(0.02 / 1000, "s"), 36_000, 0)
    # 0.3 % of a CPU for ten seconds.
    assert rows["usage", "server-0"] == (4, Quantity(0.03, "s"), Quantity(0.03 / 1000, "s"), None, None)
    assert "probe-cost" in said.text


def test_an_observer_that_is_a_factor_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = plausible_run.SOURCE.replace("@FACTORS@", "@FACTORS@\ncapture = [false, true]")
    source = source.replace('{ environment = "host" }', '{ environment = "host", capture = false }')
    monkeypatch.setattr(plausible_run, "SOURCE", source)
    compared = chapter(read_run_input(plausible_captures.make(tmp_path / "run", 4))).blocks[-1]
    assert isinstance(compared, Table)
    assert {str(row[1]).partition(" (")[0] for row in compared.rows} == {"capture on vs capture off"}
    responses = {row[2] for row in compared.rows}
    assert "throughput" in responses and "time to ready" not in responses
    columns = [column.title for column in compared.columns if column.where == "both"]
    rows = [dict(zip(columns, row, strict=True)) for row in compared.rows]
    assert {row["response"] for row in rows if row["kind"] == "primary"} == {"throughput", "events"}
    assert "median latency" in {row["response"] for row in rows if row["kind"] == "exploratory"}
    assert "exploratory ones are each at 95 %" in compared.caption


class Theirs:
    """An observer of somebody else's."""

    name = "theirs"
    around = True
    takes = 0.0

    def __init__(self, setting: object) -> None:
        pass


def test_an_observer_whose_package_is_gone_is_compared_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan says what the factor sets."""
    source = plausible_run.SOURCE.replace("@FACTORS@", "@FACTORS@\ntheirs = [false, true]")
    source = source.replace('{ environment = "host" }', '{ environment = "host", theirs = false }')
    names, load = plugins.list_names, plugins.load
    with monkeypatch.context() as installed:
        installed.setattr(plausible_run, "SOURCE", source)
        installed.setattr(plugins, "list_names", lambda group: (*names(group), *["theirs"][group != "observers" :]))
        installed.setattr(plugins, "load", lambda group, name: Theirs if name == "theirs" else load(group, name))
        folder = plausible_captures.make(tmp_path / "run", 4)
    compared = [one for one in chapter(read_run_input(folder)).blocks[1:] if isinstance(one, Table)]
    told = [str(row[1]).partition(" (")[0] for one in compared for row in one.rows[:1]]
    assert told == ["theirs on vs theirs off"]


def test_how_is_compared_too_but_does_not_tell_what_watching_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snap = 'snap = { sets = "observe.capture.snap", levels = [96, 512] }'
    source = plausible_run.SOURCE.replace("@FACTORS@", f"@FACTORS@\n{snap}")
    source = source.replace('{ environment = "host" }', '{ environment = "host", snap = 96 }')
    monkeypatch.setattr(plausible_run, "SOURCE", source + "[observe]\ncapture = true\n")
    _, compared, said = chapter(read_run_input(plausible_captures.make(tmp_path / "run", 4))).blocks
    assert isinstance(compared, Table) and isinstance(said, Paragraph)
    assert {str(row[1]).partition(" (")[0] for row in compared.rows} == {"snap 512 vs snap 96"}
    assert "is not told by this run" in said.text


def test_a_capture_that_ended_at_its_limit_is_in_the_ledger_and_said_to_have_ended(tmp_path: Path) -> None:
    ledger, ended, _ = chapter(read_run_input(plausible_captures.make(tmp_path / "run", 4, limit_reached=1))).blocks
    assert isinstance(ledger, Table) and isinstance(ended, Notice)
    rows = {row[2:4]: row[4:] for row in ledger.rows if row[1] == "host"}
    assert rows["capture", "server-0"] == (4, None, None, 36_000, 0)
    assert ended.text.startswith("Captures ended before the load did, ")
    assert dict(ended.items)["web, host, server-0"] == "in 4 of 4 trials, after 9,000 packets"
    assert len(ended.items) == 3


@pytest.mark.parametrize(
    ("problem", "ended"),
    [
        ("tcpdump ended before the trial was over, with status 1: it said nothing", True),
        ("the capture cannot be fetched: gone", False),
    ],
)
def test_who_could_not_be_heard_has_not_stopped_watching(tmp_path: Path, problem: str, ended: bool) -> None:
    told = chapter(read_run_input(plausible_captures.make(tmp_path / "run", 2, problem=problem)))
    assert any(isinstance(block, Notice) for block in told.blocks) == ended


def test_a_ring_that_was_full_has_watched_until_the_end(tmp_path: Path) -> None:
    whole = chapter(read_run_input(plausible_captures.make(tmp_path / "run", 4, limit_reached=1, held=4000)))
    assert not [block for block in whole.blocks if isinstance(block, Notice)]
