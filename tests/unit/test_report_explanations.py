"""What goes along with a verdict: what differs most, in its chapter and in a terminal, and what cannot be told."""

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nearmetal.analysis.attribution import CovariateContrast, attributed
from nearmetal.analysis.covariates import COVARIATES, OF_PACKETS
from nearmetal.analysis.responses import arms_of, key_of
from nearmetal.model import Scale
from nearmetal.report.blocks import Paragraph, Statements
from nearmetal.report.explanations import badge_difference, write_clause
from nearmetal.report.formats import comma_separated
from nearmetal.report.report_input import ReportInput, read_run_input
from nearmetal.report.sections.anatomy import plugin as anatomy
from nearmetal.report.sections.verdict_explanations import plugin as why
from nearmetal.report.table_values import show_value
from nearmetal.report.terminal import why_lines
from nearmetal.report.write import render, write
from tests import journals, plausible_captures, plausible_run
from tests.unit.report_captured import clocks_unlike, in_terminal, notes, table

pytestmark = pytest.mark.usefixtures("one_engine")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> ReportInput:
    return read_run_input(plausible_captures.make(tmp_path_factory.mktemp("captured") / "run"))


def test_what_differs_is_ranked_with_intervals(report: ReportInput) -> None:
    host, docker, qemu = (report.arms[key_of({"environment": name}), "web"] for name in ("host", "docker", "qemu"))
    found = {one.covariate.name: one for one in attributed(qemu.paired(host), 0.05)}
    packets = found["packets"]
    assert packets.blocks == 8 and packets.scale == "ratio" and packets.differs
    assert packets.interval is not None and packets.interval[0] < 9 / 5 < packets.interval[1]
    # Nothing was retransmitted on the host, so it has no ratio; and three of a thousand weigh little.
    assert found["retransmitted"].scale == "difference"
    assert found["retransmitted"].estimate == pytest.approx(0.003)
    names = list(found)
    assert names.index("packets") < names.index("retransmitted")
    assert found["autocorked"].treatment == pytest.approx(0.04)
    # 40 % of one CPU in the kernel, at 9,150 requests in a second.
    assert found["kernel_time"].reference == pytest.approx(0.4 / 9150, rel=0.05)
    same = {one.covariate.name: one for one in attributed(docker.paired(host), 0.05)}
    assert not same["acks"].differs and same["acks"].distance == 0
    assert (badge_difference(same["acks"]).text, badge_difference(same["packets"]).text) == (
        "the same in all blocks",
        "undecided",
    )
    assert "steal" not in found  # nobody had any


def with_traces(path: Path, **given: dict[str, float]) -> ReportInput:
    """A run whose captures told these figures of each environment."""
    folder = plausible_captures.make(path, 8)
    with journals.changed_records(folder.journal) as told:
        for record in told:
            if trace := record["observers"].get("capture", {}).get("trace-0"):
                trace |= given[record["trial"]["treatment"]["environment"]]
    return read_run_input(folder)


def test_the_packets_of_a_connection_are_no_difference_between_its_requests(tmp_path: Path) -> None:
    """Six ACKs on either side, of 30,000 requests and of 3,000."""
    acks = {"host": {"acks": 0.0002}, "docker": {"acks": 0.0002}, "qemu": {"acks": 0.002}}
    told = with_traces(tmp_path / "run", **acks)
    rows = [list(map(show_value, row)) for row in table(why.render(told), "why-2").rows]
    (at,) = [place for place, row in enumerate(rows) if row[0] == "bare ACKs of the client for each request"]
    assert rows[at] == [rows[at][0], "0.002", "0.0002", "+0.0018 (+0.0018 to +0.0018)", "hardly differs"]
    assert {row[-1] for row in rows[at + 1 :]} == {"none"}
    section = why.render(told)
    assert section is not None
    (said,) = [block for block in section.blocks if isinstance(block, Statements)]
    sure = sum(row[-1] == "differs" for row in rows)
    (qemu,) = [item for item in said.items if item.text.startswith("qemu")]
    assert f" {sure} figures of " in f" {qemu.detail}"
    packets = table(anatomy.render(told), "anatomy-packets")
    at = [column.title for column in packets.columns].index("ACKs")
    assert [row[at] for row in packets.rows] == [0.0002, 0.0002, 0.002]


def test_both_sides_have_the_ratio_that_stands_beside_them(tmp_path: Path) -> None:
    """Three ACKs of 20,000 requests, and five: 1.667 times as many."""
    told = with_traces(tmp_path / "run", host={"acks": 0.00015}, docker={"acks": 0.00015}, qemu={"acks": 0.00025})
    row = next(row for row in table(why.render(told), "why-2").rows if str(row[0]).startswith("bare ACKs"))
    assert list(map(show_value, row))[1:3] == ["0.00025", "0.00015"]
    (written,) = [
        row
        for row in csv.DictReader(comma_separated(table(why.render(told), "why")).splitlines())
        if row["what"].startswith("bare ACKs") and row["comparison"].startswith("qemu")
    ]
    assert [float(written[side]) for side in ("treatment", "reference")] == [0.00025, 0.00015]
    packets = table(anatomy.render(told), "anatomy-packets")
    at = [column.title for column in packets.columns].index("ACKs")
    assert [row[at] for row in packets.rows] == pytest.approx([0.00015, 0.00015, 0.00025], rel=1e-12)


@pytest.mark.parametrize(
    ("interval", "sides", "scale", "is_slight"),
    [
        ((1.0001, 1.0009), (2.001, 2.0), "ratio", True),
        ((1.0001, 1.0061), (2.001, 2.0), "ratio", False),
        ((0.9, 1.1), (0.001, 0.001), "ratio", False),
        ((-0.009, -0.001), (0.0, 0.005), "difference", True),
        ((-0.011, -0.001), (0.0, 0.005), "difference", False),
    ],
)
def test_a_difference_is_slight_when_the_far_end_of_its_interval_is(
    interval: tuple[float, float], sides: tuple[float, float], scale: Scale, is_slight: bool
) -> None:
    covariate = replace(next(covariate for covariate in COVARIATES if covariate.name == "packets"), scale=scale)
    one = CovariateContrast(covariate, 8, *sides, sum(interval) / 2, interval)
    assert one.is_slight == is_slight
    assert not (one.is_slight and one.differs)


def test_with_too_few_blocks_nothing_differs(tmp_path: Path) -> None:
    told = read_run_input(plausible_captures.make(tmp_path / "run", 3))
    rows = table(why.render(told), "why").rows
    assert rows
    assert {getattr(row[-1], "text", None) for row in rows} == {"too few blocks"}
    section = why.render(told)
    assert section is not None
    (said,) = [block for block in section.blocks if isinstance(block, Statements)]
    for item in said.items:
        assert item.text.startswith("3 blocks: too few to tell whether anything that was observed differs between ")
        assert item.detail.endswith("figures that were observed, without intervals")


def test_each_verdict_is_told_with_what_goes_along(report: ReportInput) -> None:
    section = why.render(report)
    assert section is not None
    (said,) = [block for block in section.blocks if isinstance(block, Statements)]
    # Both differ: the head of the chapter tells of both, the larger difference first.
    assert [item.about for item in said.items] == ["web", "web"]
    assert said.items[0].text.startswith("qemu carries 0.10")
    named = said.items[0].text.partition("; most unlike: ")[2].split("; ")
    assert len(named) == 2 and any(" × the interrupts in the server for each request (" in one for one in named)
    # Each by an interval of its own, so that it has to be said how many would where nothing differs.
    number, _, rest = said.items[0].detail.partition(" figures of ")
    assert int(number) > 5
    among = int(rest.partition(" ")[0])
    assert rest == (
        f"{among} that were observed differ, each by its own interval; "
        f"by chance alone {0.05 * among:.2g} would on average, at most"
    )
    assert "; most unlike: " in said.items[1].text and said.items[1].text.startswith("docker carries 0.96")


def test_the_three_largest_differences_stand_at_the_head_and_the_others_below(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    speeds = {"docker": 0.97, "qemu": 0.1, "podman": 0.5, "libvirt": 0.8}
    source = plausible_run.SOURCE.replace('"docker", "qemu"', ", ".join(f'"{name}"' for name in speeds))
    monkeypatch.setattr(plausible_run, "SOURCE", source)
    for name, speed in speeds.items():
        monkeypatch.setitem(plausible_run.SPEED, name, speed)
        for given in (plausible_captures.SLOWER, plausible_run.READY, plausible_run.OVERHEAD):
            monkeypatch.setitem(given, name, 1 / speed)
        monkeypatch.setitem(plausible_captures.SIZES, name, plausible_captures.SIZES["host"])
    told = read_run_input(plausible_captures.make(tmp_path / "run", 10))
    section = why.render(told)
    assert section is not None
    head, more, rest = section.blocks[:3]
    assert isinstance(head, Statements) and isinstance(more, Paragraph) and isinstance(rest, Statements)
    assert [item.text.split(" ")[0] for item in head.items] == ["qemu", "podman", "libvirt"]
    # One more of this workload, and the four of the other, of which nothing was observed.
    assert more.text == "These differ most; 5 more are different."
    assert [item.about for item in rest.items] == ["web, docker vs host"]
    said = in_terminal(told)
    assert said.splitlines()[1].startswith("  web, qemu vs host: most unlike: ")
    assert said.splitlines()[-1].rstrip() == "5 more are different: see the report"
    chance = "Each has an interval of its own: where nothing differs, up to 5 % of the figures look as if they did"
    assert said.splitlines()[-2].rstrip() == chance
    assert "surely" not in said


def test_of_what_goes_along_nothing_is_called_sure(report: ReportInput) -> None:
    """Thirty intervals that are not corrected for their number have one beside 0 more often than not."""
    section = why.render(report)
    assert section is not None
    (how,) = [block.text for block in section.blocks if isinstance(block, Paragraph) and "corrected" in block.text]
    chance = "where nothing differs, up to 5 % of the figures look as if they did, so that a long table often has one"
    assert f"not corrected for how many they are: {chance}" in how
    said = [item for block in section.blocks if isinstance(block, Statements) for item in block.items]
    for text in (section.lead, how, *(item.text for item in said), *(item.detail for item in said)):
        assert "sure" not in text


def test_a_terminal_tells_what_goes_along_where_anything_was_observed(report: ReportInput, tmp_path: Path) -> None:
    assert max(map(len, in_terminal(report, 60).splitlines())) <= 60
    assert why_lines(read_run_input(plausible_run.make(tmp_path / "run", 8))) is None


def test_a_difference_says_of_what_it_is_and_a_ratio_too() -> None:
    covariates = {covariate.name: covariate for covariate in COVARIATES}
    ratio = CovariateContrast(covariates["packets"], 8, 9.5, 1.0, 9.5, (9.2, 9.8))
    assert write_clause(ratio) == "9.5 × the packets for each request (9.2 to 9.8)"
    count = CovariateContrast(covariates["acks"], 8, 0.0, 1.0, -1.0, (-1.2, -0.9))
    assert write_clause(count) == "−1.0 bare ACKs of the client for each request (−1.2 to −0.9)"
    time = CovariateContrast(covariates["transfer"], 8, 8e-5, 0.0, 8e-5, None)
    assert write_clause(time) == "+80 µs in the time in which a reply comes in"


def test_each_verdict_has_a_table_of_its_own_with_what_neither_side_had(report: ReportInput) -> None:
    rows = {str(row[0]): row for row in table(why.render(report), "why-2").rows}
    assert [column.title for column in table(why.render(report), "why-2").columns[1:3]] == ["qemu", "host"]
    words = {title: tuple(map(show_value, row[1:])) for title, row in rows.items()}
    assert words["share of packets lost between both ends"][:2] == ("0.0333 %", "0 %")
    assert words["share of the time of the server's CPUs that was stolen"] == ("0 %", "0 %", "–", "none")
    assert list(rows)[-1] == "share of the time of the server's CPUs that was idle"
    # People see one table a verdict, programs have all in one file.
    names = {file.name for file in write(report.folder).with_name("report").iterdir()}
    assert "why.csv" in names and "why-1.csv" not in names
    page, markdown = report.folder.page.read_text(), str(render(report.folder, "md"))
    for text in (page, markdown):
        assert "web, qemu vs host: what goes along" in text
        assert "Figures that go along with each verdict" not in text


def test_what_is_not_observed_is_said_to_be_in_no_table(tmp_path: Path) -> None:
    folder = plausible_captures.make(tmp_path / "run", 2)
    with journals.changed_records(folder.journal) as told:
        for record in told:
            record["observers"].pop("usage", None)
    (said,) = [text for text in notes(read_run_input(folder)) if "Not observed" in text]
    assert "interrupts, context switches" in said and "usage = true" in said and "packets" not in said
    whole = read_run_input(plausible_captures.make(tmp_path / "whole", 2))
    assert not [text for text in notes(whole) if "Not observed" in text]


@pytest.mark.parametrize("sign", [{"limit_reached": 1}, {"dropped_by_kernel": 5}, {"problem": "killed"}])
def test_what_a_capture_that_is_not_whole_counts_is_not_compared_and_a_note_says_so(
    tmp_path: Path, sign: dict[str, Any]
) -> None:
    told = read_run_input(plausible_captures.make(tmp_path / "run", 8, **sign))
    arms = arms_of(told.records, 1)
    host, qemu = (arms[key_of({"environment": name}), "web"] for name in ("host", "qemu"))
    names = {one.covariate.name for one in attributed(qemu.paired(host), 0.05)}
    assert {"network", "server", "interrupts"} <= names
    assert not names & OF_PACKETS
    (note,) = [text for text in notes(told) if text.startswith("Captures do not hold all packets of web with ")]
    assert "web with qemu (8 of 8 trials)" in note and "not compared" in note


def test_a_treatment_like_its_reference_is_said_not_to_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(plausible_captures.SLOWER, "docker", 1.0)
    monkeypatch.setitem(plausible_run.SPEED, "docker", plausible_run.SPEED["host"])
    section = why.render(read_run_input(plausible_captures.make(tmp_path / "run", 8)))
    assert section is not None
    head, said = [block for block in section.blocks if isinstance(block, Statements)]
    assert [item.text.split(" ")[0] for item in head.items] == ["qemu"]
    assert said.items[0].text == "no difference between docker and host shows in what was observed"
    number, _, rest = said.items[0].detail.partition(" figures of ")
    assert number == "0" and rest.endswith(" that were observed differ, each by its own interval")


def test_time_of_cpus_is_not_called_the_servers_where_others_run_on_them(tmp_path: Path) -> None:
    told = read_run_input(plausible_captures.make(tmp_path / "run", 8, shared_kernel={"host", "docker"}))
    (foreign,) = [text for text in notes(told) if "others' programs" in text]
    assert foreign.startswith("With docker and host the server runs on its host's kernel: the time of its CPUs is that")
    titles = {str(row[2]) for row in table(why.render(told), "why").rows}
    assert {
        "time of the server's CPUs in the kernel for each request",
        "CPU time of the host for each request",
    } <= titles


def test_whole_captures_need_no_note(report: ReportInput) -> None:
    assert not [text for text in notes(report) if "Captures" in text]


def test_guests_alone_share_no_cpus_with_others(report: ReportInput) -> None:
    assert not [text for text in notes(report) if "others' programs" in text]


def test_steal_is_compared_only_between_kernels_that_are_told_of_it(tmp_path: Path) -> None:
    """The host is denied 4 % of its time. The guest's kernel would be too, and counts nothing."""
    folder = plausible_captures.make(tmp_path / "run", 8)
    with journals.changed_records(folder.journal) as told:
        for record in told:
            server = record["observers"].get("usage", {}).get("server-0", {})
            match record["trial"]["treatment"]["environment"]:
                case "host":
                    server["cpu.all.steal"] = 4.0
                case "qemu":
                    server["steal"] = "untold"
    report = read_run_input(folder)
    rows = [row for row in table(why.render(report), "why").rows if "stolen" in str(row[2])]
    assert [str(row[1]).split(" ")[0] for row in rows] == ["docker"]
    (untold,) = [text for text in notes(report) if "stolen" in text]
    assert untold.startswith("With qemu the hypervisor does not tell")


@pytest.fixture
def unlike_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks_unlike(monkeypatch)


@pytest.mark.usefixtures("unlike_clocks")
def test_what_is_no_figure_is_told_beside_them(tmp_path: Path) -> None:
    clocks, exits = notes(read_run_input(plausible_captures.make(tmp_path / "run")))
    assert clocks == "The server's kernel takes its time from hpet with qemu, and from tsc with host."
    assert "the host's kernel did not tell" in exits


def test_exits_of_guests_are_a_figure_where_the_kernel_tells(tmp_path: Path) -> None:
    told = read_run_input(
        plausible_captures.make(tmp_path / "run", exits={"host": 40.0, "docker": 40.0, "qemu": 90_000.0})
    )
    assert not [text for text in notes(told) if "VM exits" in text]
    arms = arms_of(told.records, 1)
    host, qemu = (arms[key_of({"environment": name}), "web"] for name in ("host", "qemu"))
    found = {one.covariate.name: one for one in attributed(qemu.paired(host), 0.05)}
    # 9,150 and 915 requests in a second.
    assert found["exits"].differs
    assert found["exits"].treatment == pytest.approx(90_000 / 915, rel=0.1)
    assert found["exits"].reference == pytest.approx(40 / 9150, rel=0.1)
