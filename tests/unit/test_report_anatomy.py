"""The chapters on packets: a typical request of each treatment, and what goes along with a verdict."""

import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from nearmetal.analysis.attribution import Attributed, attributed
from nearmetal.analysis.responses import arms_of, key_of
from nearmetal.analysis.results import Verdict
from nearmetal.analysis.traits import OF_PACKETS, TRAITS
from nearmetal.model import Scale
from nearmetal.report.anatomy import seen
from nearmetal.report.anatomy_injected import wilson
from nearmetal.report.blocks import Chart, Notice, Paragraph, Section, Statements, Table
from nearmetal.report.cells import for_people
from nearmetal.report.reading import ReportInput, read
from nearmetal.report.sections.anatomy import plugin as anatomy
from nearmetal.report.sections.why import plugin as why
from nearmetal.report.terminal import why_lines
from nearmetal.report.why_figures import clause, verdict
from nearmetal.report.write import render, write
from tests import plausible_captures, plausible_run

pytestmark = pytest.mark.usefixtures("one_engine")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> ReportInput:
    return read(plausible_captures.make(tmp_path_factory.mktemp("captured") / "run"))


def table(section: Section | None, name: str) -> Table:
    assert section is not None
    (found,) = [block for block in section.blocks if isinstance(block, Table) and block.name == name]
    return found


def test_a_run_without_captures_has_neither_chapter(tmp_path: Path) -> None:
    plain = read(plausible_run.make(tmp_path / "run", 8))
    assert anatomy.render(plain) is None
    assert why.render(plain) is None


def test_each_treatment_has_a_ladder_of_its_medians(report: ReportInput) -> None:
    host, docker, qemu = seen(report)
    assert [one.workload for one in (host, docker, qemu)] == ["web"] * 3
    assert (min(host.events.values()), [*host.events][-1]) == (0, "response_last")
    assert qemu.events["response_last"] == pytest.approx(8 * 155e-6, rel=0.05)
    section = anatomy.render(report)
    assert section is not None
    (ladders,) = [block for block in section.blocks if isinstance(block, Chart) and block.name == "anatomy"]
    assert [panel.name for panel in ladders.panels] == ["web-host", "web-docker", "web-qemu"]


def test_what_was_rare_is_told_of_a_thousand_requests_beside_what_kernels_count(report: ReportInput) -> None:
    mishaps = table(anatomy.render(report), "anatomy-mishaps")
    titles = [column.title for column in mishaps.columns]
    assert [row[titles.index("sent again")] for row in mishaps.rows] == [0, 0, 3]
    queued = titles.index("queued")
    assert [row[queued] for row in mishaps.rows] == [3, 3, 3]
    packets = table(anatomy.render(report), "anatomy-packets")
    corked = [column.title for column in packets.columns].index("corked")
    assert [row[corked] for row in packets.rows] == [0.9, 0.9, 0.04]


def test_bytes_of_a_request_have_the_same_unit_wherever_they_are_told(report: ReportInput) -> None:
    packets = table(anatomy.render(report), "anatomy-packets")
    at = [column.title for column in packets.columns].index("bytes")
    told = {str(row[0]): for_people(row[1]) for row in table(why.render(report), "why-2").rows}
    assert for_people(packets.rows[2][at]) == told["bytes for each request"] == "2.83 KiB"


def test_what_the_kernels_of_a_full_capture_counted_is_not_told(tmp_path: Path) -> None:
    section = anatomy.render(read(plausible_captures.make(tmp_path / "run", 2, limit_reached=1)))
    titles = [one.title for name in ("packets", "mishaps") for one in table(section, f"anatomy-{name}").columns]
    assert not {"by kernels", "queued", "corked"} & set(titles)
    assert {"sent again", "packets"} < set(titles)
    assert section is not None
    (warned,) = [block.text for block in section.blocks if isinstance(block, Notice)]
    trials = ", ".join(f"of web with {name} in 2 of 2 trials" for name in ("host", "docker", "qemu"))
    assert warned.endswith(f"What kernels counted is left out {trials}: they went on counting")


def test_one_full_capture_leaves_out_what_kernels_counted_in_its_own_trial_alone(tmp_path: Path) -> None:
    """Their counts there are of all requests, and the capture knows of a part of them."""
    folder = plausible_captures.make(tmp_path / "run", 3)
    lines = [json.loads(line) for line in folder.journal.read_text().splitlines()]
    cut = next(one for one in lines if one["trial"]["treatment"]["environment"] == "qemu" and one["observers"])
    capture = cut["observers"]["capture"]
    capture["trace-0"]["requests"] = 100
    capture["server-0"].update({"limit_reached": 1, "kernel.RetransSegs": 500, "kernel.TCPAutoCorking": 900})
    folder.journal.write_text("".join(json.dumps(one) + "\n" for one in lines))
    section = anatomy.render(read(folder))
    for name, title, expected in (
        ("packets", "corked", [0.9, 0.9, 0.04]),
        ("mishaps", "queued", [3, 3, 3]),
        ("mishaps", "by kernels", [0, 0, 3]),
    ):
        found = table(section, f"anatomy-{name}")
        place = [column.title for column in found.columns].index(title)
        assert [row[place] for row in found.rows] == expected, title
    assert section is not None
    (warned,) = [block.text for block in section.blocks if isinstance(block, Notice)]
    assert warned.endswith("What kernels counted is left out of web with qemu in 1 of 3 trials: they went on counting")


def test_packets_of_treatments_are_compared_with_intervals(report: ReportInput) -> None:
    rows = table(anatomy.render(report), "anatomy-contrasts").rows
    ((_, _, _, change, estimate, low, high, scale, _, blocks, verdict),) = [
        row for row in rows if row[1:3] == ("qemu vs host", "packets for each request")
    ]
    assert isinstance(low, float) and isinstance(high, float) and low < 9 / 5 < high
    assert estimate == pytest.approx(9 / 5, rel=0.02)
    assert (scale, blocks, for_people(verdict)) == ("ratio", 8, "differs")
    assert "×" in str(change)
    assert not [row for row in rows if "CPU" in str(row[2])]


def test_segments_and_acks_have_distributions(report: ReportInput) -> None:
    rows = table(anatomy.render(report), "anatomy-segments").rows
    told = {row[2]: row[3:] for row in rows if row[1] == "host"}
    document = json.loads(next(report.folder.path.glob("artifacts/*/trace-0.json")).read_text())
    spread = document["each_request"]["response_segments"]
    assert told["segments of the reply"] == (*(spread[name] for name in ("median", "p90", "p99", "max")), 50)
    assert set(told) == {"segments of the request", "segments of the reply", "ACKs of the reply", "bytes of the reply"}


def test_what_was_asked_stands_beside_what_was_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = plausible_run.SOURCE.replace("[machine]", '[link]\ndelay = "1ms"\nreorder = "1%"\n[machine]')
    monkeypatch.setattr(plausible_run, "SOURCE", source)
    told = read(plausible_captures.make(tmp_path / "run", 4))
    rows = table(anatomy.render(told), "anatomy-injected").rows
    assert [row[1] for row in rows] == ["host", "docker", "qemu"]
    (asked, seen, low, high) = (getattr(value, "value", None) for value in rows[2][3:])
    assert asked == 0.01
    assert seen == pytest.approx(3 / 9000)
    assert low is not None and high is not None and 0 < low < 3 / 9000 < high < 0.01


def test_of_streams_too_what_was_asked_stands_beside_what_was_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = plausible_run.SOURCE.replace("[machine]", '[link]\nloss = "2%"\n[machine]')
    monkeypatch.setattr(plausible_run, "SOURCE", source)
    folder = plausible_captures.make(tmp_path / "run", 4)
    told = [json.loads(line) for line in folder.journal.read_text().splitlines()]
    for record in told:
        if "trace-0" in record["observers"].get("capture", {}):
            stream = {"requests": 0, "payload": 2**30, "crossed": 700_000, "lost": 14_000, "overtaken": 0}
            record["observers"]["capture"]["trace-0"] = stream
    folder.journal.write_text("".join(json.dumps(record) + "\n" for record in told))
    section = anatomy.render(read(folder))
    rows = table(section, "anatomy-injected").rows
    assert [row[1:3] for row in rows] == [(name, "packets lost") for name in ("host", "docker", "qemu")]
    assert [getattr(value, "value", None) for value in rows[0][3:5]] == [0.02, 0.02]
    assert section is not None and not [block for block in section.blocks if isinstance(block, Chart)]


def test_writes_alone_are_told_without_intervals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = plausible_run.SOURCE.replace('"http"\n', '"http"\nwrites = "10x1000"\n', 1)
    monkeypatch.setattr(plausible_run, "SOURCE", source)
    told = table(anatomy.render(read(plausible_captures.make(tmp_path / "run", 4))), "anatomy-injected")
    assert [column.title for column in told.columns][-2:] == ["asked", "seen"]
    assert told.rows[0][2:] == ("writes of a reply, and their bytes", "10x1000", "none told apart")
    assert "Wilson" not in told.caption


def test_a_share_of_nothing_has_an_interval() -> None:
    assert wilson(0, 1000, 0.05) == pytest.approx((0, 0.00383), abs=1e-5)
    assert {wilson(0, whole, 0.05)[0] for whole in range(1, 20_000, 7)} == {0.0}
    assert {wilson(whole, whole, 0.05)[1] for whole in range(1, 20_000, 7)} == {1.0}


def test_captures_that_hold_no_request_are_told_with_the_reason(tmp_path: Path) -> None:
    folder = plausible_captures.make(tmp_path / "run", 2)
    told = [json.loads(line) for line in folder.journal.read_text().splitlines()]
    for record in told:
        if "trace-0" in record["observers"].get("capture", {}):
            record["observers"]["capture"]["trace-0"] = {"requests": 0, "retransmitted": 0}
    folder.journal.write_text("".join(json.dumps(record) + "\n" for record in told))
    manifest = json.loads((folder.path / "manifest.json").read_text())
    manifest["study"]["observe"]["capture"] = {"snap": 64}
    (folder.path / "manifest.json").write_text(json.dumps(manifest))
    section = anatomy.render(read(folder))
    assert section is not None
    (notice,) = section.blocks
    assert isinstance(notice, Notice)
    assert notice.text.startswith("The captures of web hold no HTTP request (")
    assert notice.text.endswith("Of each packet 64 bytes are kept: from 96 on requests are seen")


def test_a_ring_that_went_round_says_that_it_holds_the_last(tmp_path: Path) -> None:
    told = read(plausible_captures.make(tmp_path / "run", 2, limit_reached=1, held=4000))
    section = anatomy.render(told)
    assert section is not None
    (notice,) = [block for block in section.blocks if isinstance(block, Notice)]
    assert "the capture reached its limit, and holds no more than the last 4,000 packets. " in notice.text


def test_a_capture_that_is_not_whole_is_told(tmp_path: Path) -> None:
    told = read(plausible_captures.make(tmp_path / "run", 2, dropped_by_kernel=17))
    section = anatomy.render(told)
    assert section is not None
    (notice,) = [block for block in section.blocks if isinstance(block, Notice)]
    assert notice.text.startswith("6 captures are not whole, for example: server-0: 17 packets came faster")


def test_a_trial_whose_document_is_gone_is_told_without_it(tmp_path: Path) -> None:
    folder = plausible_captures.make(tmp_path / "run", 2)
    for file in folder.path.glob("artifacts/*/trace-0.json"):
        file.write_text("{")
    section = anatomy.render(read(folder))
    assert section is not None
    assert [block.name for block in section.blocks if isinstance(block, Chart | Table)] == [
        "anatomy",
        "anatomy-packets",
        "anatomy-mishaps",
        "anatomy-contrasts",
    ]


def test_what_differs_is_ranked_with_intervals(report: ReportInput) -> None:
    host, docker, qemu = (report.arms[key_of({"environment": name}), "web"] for name in ("host", "docker", "qemu"))
    found = {one.trait.name: one for one in attributed(qemu.paired(host), 0.05)}
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
    same = {one.trait.name: one for one in attributed(docker.paired(host), 0.05)}
    assert not same["acks"].differs and same["acks"].distance == 0
    assert (verdict(same["acks"]).text, verdict(same["packets"]).text) == ("the same in all blocks", "undecided")
    assert "steal" not in found  # nobody had any


def with_traces(path: Path, **given: dict[str, float]) -> ReportInput:
    """A run whose captures told these figures of each environment."""
    folder = plausible_captures.make(path, 8)
    told = [json.loads(line) for line in folder.journal.read_text().splitlines()]
    for record in told:
        if trace := record["observers"].get("capture", {}).get("trace-0"):
            trace |= given[record["trial"]["treatment"]["environment"]]
    folder.journal.write_text("".join(json.dumps(record) + "\n" for record in told))
    return read(folder)


def test_the_packets_of_a_connection_are_no_difference_between_its_requests(tmp_path: Path) -> None:
    """Six ACKs on either side, of 30,000 requests and of 3,000."""
    acks = {"host": {"acks": 0.0002}, "docker": {"acks": 0.0002}, "qemu": {"acks": 0.002}}
    told = with_traces(tmp_path / "run", **acks)
    rows = [list(map(for_people, row)) for row in table(why.render(told), "why-2").rows]
    (at,) = [place for place, row in enumerate(rows) if row[0] == "bare ACKs of the client for each request"]
    assert rows[at] == [rows[at][0], "0.002", "0.0002", "10.000 × (10.000 to 10.000)", "hardly differs"]
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
    trait = next(trait for trait in TRAITS if trait.name == "packets")
    one = Attributed(trait, 8, *sides, scale, sum(interval) / 2, interval)
    assert one.is_slight == is_slight
    assert not (one.is_slight and one.differs)


def test_with_too_few_blocks_nothing_differs(tmp_path: Path) -> None:
    told = read(plausible_captures.make(tmp_path / "run", 3))
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
    assert len(named) == 2 and " × the interrupts in the server for each request (" in named[0]
    # Each by an interval of its own, so that it has to be said how many would where nothing differs.
    number, _, rest = said.items[0].detail.partition(" figures of ")
    assert int(number) > 5
    among = int(rest.partition(" ")[0])
    assert rest == (
        f"{among} that were observed differ, each by its own interval; "
        f"by chance alone {0.05 * among:.2g} would on average, at most"
    )
    assert "; most unlike: " in said.items[1].text and said.items[1].text.startswith("docker carries 0.968")


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
    told = read(plausible_captures.make(tmp_path / "run", 10))
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


def in_terminal(report: ReportInput, width: int = 1000) -> str:
    lines = why_lines(report)
    assert lines is not None
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(lines)
    return capture.get()


def test_a_terminal_tells_what_goes_along_where_anything_was_observed(report: ReportInput, tmp_path: Path) -> None:
    assert max(map(len, in_terminal(report, 60).splitlines())) <= 60
    assert why_lines(read(plausible_run.make(tmp_path / "run", 8))) is None


def test_a_difference_says_of_what_it_is_and_a_ratio_too() -> None:
    traits = {trait.name: trait for trait in TRAITS}
    ratio = Attributed(traits["packets"], 8, 9.5, 1.0, "ratio", 9.5, (9.2, 9.8))
    assert clause(ratio) == "9.5 × the packets for each request (9.2 to 9.8)"
    count = Attributed(traits["acks"], 8, 0.0, 1.0, "difference", -1.0, (-1.2, -0.9))
    assert clause(count) == "−1.0 bare ACKs of the client for each request (−1.2 to −0.9)"
    time = Attributed(traits["transfer"], 8, 8e-5, 0.0, "difference", 8e-5, None)
    assert clause(time) == "+80 µs in the time in which a reply comes in"


def test_each_verdict_has_a_table_of_its_own_with_what_neither_side_had(report: ReportInput) -> None:
    rows = {str(row[0]): row for row in table(why.render(report), "why-2").rows}
    assert [column.title for column in table(why.render(report), "why-2").columns[1:3]] == ["qemu", "host"]
    words = {title: tuple(map(for_people, row[1:])) for title, row in rows.items()}
    assert words["share of packets lost between both ends"][:2] == ("0.0333 %", "0 %")
    assert words["share of the time of the server's CPUs that was stolen"] == ("0 %", "0 %", "–", "none")
    assert list(rows)[-1] == "share of the time of the server's CPUs that was idle"
    # People see one table a verdict, programs have all in one file.
    names = {file.name for file in write(report.folder).with_name("report").iterdir()}
    assert "why.csv" in names and "why-1.csv" not in names
    page, markdown = report.folder.page.read_text(), str(render(report.folder, "md"))
    for text in (page, markdown):
        assert "web, qemu vs host: what goes along" in text
        assert "What goes along with each verdict" not in text


def test_what_is_not_observed_is_said_to_be_in_no_table(tmp_path: Path) -> None:
    folder = plausible_captures.make(tmp_path / "run", 2)
    told = [json.loads(line) for line in folder.journal.read_text().splitlines()]
    for record in told:
        record.get("observers", {}).pop("usage", None)
    folder.journal.write_text("".join(json.dumps(record) + "\n" for record in told))
    (said,) = [text for text in notes(read(folder)) if "Not observed" in text]
    assert "interrupts, context switches" in said and "usage = true" in said and "packets" not in said
    whole = read(plausible_captures.make(tmp_path / "whole", 2))
    assert not [text for text in notes(whole) if "Not observed" in text]


@pytest.mark.parametrize("sign", [{"limit_reached": 1}, {"dropped_by_kernel": 5}, {"problem": "killed"}])
def test_what_a_capture_that_is_not_whole_counts_is_not_compared_and_a_note_says_so(
    tmp_path: Path, sign: dict[str, Any]
) -> None:
    told = read(plausible_captures.make(tmp_path / "run", 8, **sign))
    arms = arms_of(told.records, 1)
    host, qemu = (arms[key_of({"environment": name}), "web"] for name in ("host", "qemu"))
    names = {one.trait.name for one in attributed(qemu.paired(host), 0.05)}
    assert {"network", "server", "interrupts"} <= names
    assert not names & OF_PACKETS
    (note,) = [text for text in notes(told) if text.startswith("Captures do not hold all packets of web with ")]
    assert "web with qemu (8 of 8 trials)" in note and "not compared" in note


OF_CLIENTS = ("Was the client at its limit?", "Do both sides carry the same packets?")


def notes(report: ReportInput) -> list[str]:
    section = why.render(report)
    assert section is not None
    return [block.text for block in section.blocks if isinstance(block, Notice)]


def test_a_treatment_like_its_reference_is_said_not_to_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(plausible_captures.SLOWER, "docker", 1.0)
    monkeypatch.setitem(plausible_run.SPEED, "docker", plausible_run.SPEED["host"])
    section = why.render(read(plausible_captures.make(tmp_path / "run", 8)))
    assert section is not None
    head, said = [block for block in section.blocks if isinstance(block, Statements)]
    assert [item.text.split(" ")[0] for item in head.items] == ["qemu"]
    assert said.items[0].text == "no difference between docker and host shows in what was observed"
    number, _, rest = said.items[0].detail.partition(" figures of ")
    assert number == "0" and rest.endswith(" that were observed differ, each by its own interval")


def test_time_of_cpus_is_not_called_the_servers_where_others_run_on_them(tmp_path: Path) -> None:
    told = read(plausible_captures.make(tmp_path / "run", 8, shared_kernel={"host", "docker"}))
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
    told = [json.loads(line) for line in folder.journal.read_text().splitlines()]
    for record in told:
        server = record.get("observers", {}).get("usage", {}).get("server-0", {})
        match record["trial"]["treatment"]["environment"]:
            case "host":
                server["cpu.all.steal"] = 4.0
            case "qemu":
                server["steal"] = "untold"
    folder.journal.write_text("".join(json.dumps(record) + "\n" for record in told))
    report = read(folder)
    rows = [row for row in table(why.render(report), "why").rows if "stolen" in str(row[2])]
    assert [str(row[1]).split(" ")[0] for row in rows] == ["docker"]
    (untold,) = [text for text in notes(report) if "stolen" in text]
    assert untold.startswith("With qemu the hypervisor does not tell")


@pytest.fixture
def unlike_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = plausible_run._facts

    def told(environment: str) -> dict[str, object]:
        return {**facts(environment), "clock": {"source": "hpet" if environment == "qemu" else "tsc"}}

    monkeypatch.setattr(plausible_run, "_facts", told)


@pytest.mark.usefixtures("unlike_clocks")
def test_what_is_no_figure_is_told_beside_them(tmp_path: Path) -> None:
    clocks, exits = notes(read(plausible_captures.make(tmp_path / "run")))
    assert clocks == "The server's kernel takes its time from hpet with qemu, and from tsc with host."
    assert "the host's kernel did not tell" in exits


def test_exits_of_guests_are_a_figure_where_the_kernel_tells(tmp_path: Path) -> None:
    told = read(plausible_captures.make(tmp_path / "run", exits={"host": 40.0, "docker": 40.0, "qemu": 90_000.0}))
    assert not [text for text in notes(told) if "VM exits" in text]
    arms = arms_of(told.records, 1)
    host, qemu = (arms[key_of({"environment": name}), "web"] for name in ("host", "qemu"))
    found = {one.trait.name: one for one in attributed(qemu.paired(host), 0.05)}
    # 9,150 and 915 requests in a second.
    assert found["exits"].differs
    assert found["exits"].treatment == pytest.approx(90_000 / 915, rel=0.1)
    assert found["exits"].reference == pytest.approx(40 / 9150, rel=0.1)


@pytest.mark.usefixtures("unlike_clocks")
def test_a_guest_ahead_of_its_host_gets_a_box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(plausible_run.SPEED, "qemu", 1.3)
    told = read(plausible_captures.make(tmp_path / "run", 8))
    assert {one.verdict for one in told.analysis.contrasts if one.primary} == {Verdict.DIFFERENT}
    section = why.render(told)
    assert section is not None
    (head,) = [block for block in section.blocks if isinstance(block, Statements)]
    assert head.items[0].detail.startswith("not plausible by itself, see below; ")
    assert "not plausible by itself: see the report" in in_terminal(told)
    boxes = [block for block in section.blocks if isinstance(block, Notice) and block.tone == "warning"]
    assert len(boxes) == 2  # both workloads
    assert boxes[0].text.startswith("A virtual machine is ahead of its host, which is not plausible by itself: qemu ")
    seen = dict(boxes[0].items)
    assert "takes its time from hpet with qemu, and from tsc with host" in seen["Does the guest's clock keep time?"]
    assert seen["Do both sides carry the same packets?"].startswith("packets for each request, 8.98")
    assert seen["Was the client at its limit?"] == "no trial warns of it"
    assert seen["What differs most?"].count("×") == 3
    # The other workload sends nothing.
    assert [question for question, _ in boxes[1].items] == [question for question in seen if question not in OF_CLIENTS]
    for text in (str(render(told.folder, "html")), str(render(told.folder, "md"))):
        assert text.count("Was the client at its limit?") == 1
        assert text.count("Does the guest") == 2


def uncaptured(path: Path, *environments: str) -> ReportInput:
    """A run in which nobody took packets of these."""
    folder = plausible_captures.make(path, 8)
    told = [json.loads(line) for line in folder.journal.read_text().splitlines()]
    for record in told:
        if record["trial"]["treatment"]["environment"] in environments:
            record["observers"].pop("capture", None)
    folder.journal.write_text("".join(json.dumps(record) + "\n" for record in told))
    return read(folder)


@pytest.mark.parametrize(
    ("lacking", "said"),
    [
        (("host",), "not observed with host: "),
        (("host", "qemu"), "not observed with qemu and host: "),
    ],
)
def test_a_box_says_which_side_lacks_what_another_treatment_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacking: tuple[str, ...], said: str
) -> None:
    monkeypatch.setitem(plausible_run.SPEED, "qemu", 1.3)
    told = uncaptured(tmp_path / "run", *lacking)
    section = why.render(told)
    assert section is not None
    box = next(block for block in section.blocks if isinstance(block, Notice) and block.tone == "warning")
    assert dict(box.items)["Do both sides carry the same packets?"].startswith(said)
    (partly,) = [text for text in notes(told) if "compared with nothing" in text]
    assert partly.startswith("Not observed with ") and partly.endswith(": packets, and what became of them.")
    assert all(name in partly for name in lacking)


def test_a_box_says_how_packets_are_observed_where_they_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(plausible_run.SPEED, "qemu", 1.3)
    section = why.render(uncaptured(tmp_path / "run", "host", "docker", "qemu"))
    assert section is not None
    box = next(block for block in section.blocks if isinstance(block, Notice) and block.tone == "warning")
    told = dict(box.items)["Do both sides carry the same packets?"]
    assert told.startswith("not observed: capture = true in [observe] tells")


def test_a_box_says_that_captures_do_not_hold_what_they_would_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(plausible_run.SPEED, "qemu", 1.3)
    section = why.render(read(plausible_captures.make(tmp_path / "run", 8, limit_reached=1)))
    assert section is not None
    box = next(block for block in section.blocks if isinstance(block, Notice) and block.tone == "warning")
    assert dict(box.items)["Do both sides carry the same packets?"].startswith("not known: their captures do not hold")


def test_a_guest_ahead_of_a_container_gets_a_box_where_that_has_the_hosts_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(plausible_run.SPEED, "qemu", 1.3)
    source = plausible_run.SOURCE.replace(
        'reference = { environment = "host" }', 'reference = { environment = "docker" }'
    )
    monkeypatch.setattr(plausible_run, "SOURCE", source)
    assert (
        "ahead of a container, which has the host's own kernel"
        in notes(read(plausible_captures.make(tmp_path / "a")))[0]
    )
    sandboxed = '[environments.docker]\nkind = "docker"\nruntime = "runsc"\n[machine]'
    monkeypatch.setattr(plausible_run, "SOURCE", source.replace("[machine]", sandboxed))
    assert not [text for text in notes(read(plausible_captures.make(tmp_path / "b"))) if "ahead" in text]


def test_segments_that_are_all_of_one_size_are_told_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in plausible_captures.SIZES:
        monkeypatch.setitem(plausible_captures.SIZES, name, ((1024, 90),))
    section = anatomy.render(read(plausible_captures.make(tmp_path / "run")))
    assert section is not None
    assert "anatomy-sizes" not in [block.name for block in section.blocks if isinstance(block, Chart)]
    told = [block.text for block in section.blocks if isinstance(block, Paragraph)]
    assert "All segments of servers carry 1,024 to 2,047 bytes, in one typical trial of each treatment." in told


def test_a_mean_over_trials_is_called_one_where_medians_stand_elsewhere(report: ReportInput) -> None:
    section = anatomy.render(report)
    captions = [table(section, name).caption for name in ("anatomy-packets", "anatomy-mishaps")]
    assert captions == [
        "What each request took, means over trials",
        "What became of it, for each thousand requests, means over trials",
    ]


def test_of_several_clients_it_is_said_what_is_a_mean_over_them_and_what_is_of_one(tmp_path: Path) -> None:
    folder = plausible_captures.make(tmp_path / "run")
    told = [json.loads(line) for line in folder.journal.read_text().splitlines()]
    for capture in (record["observers"]["capture"] for record in told if "capture" in record["observers"]):
        capture["trace-1"] = capture["trace-0"]
    folder.journal.write_text("".join(json.dumps(record) + "\n" for record in told))
    section = anatomy.render(read(folder))
    assert table(section, "anatomy-packets").caption == "What each request took, means over trials and clients"
    for name in ("anatomy-segments", "anatomy-phases"):
        assert table(section, name).caption.endswith("of one typical trial of each treatment, its first client's alone")
    assert section is not None
    (sizes,) = [block for block in section.blocks if isinstance(block, Chart) and block.name == "anatomy-sizes"]
    assert sizes.caption.endswith("in one typical trial of each treatment, to its first client alone.")


def test_the_report_is_written_with_them(report: ReportInput) -> None:
    write(report.folder)
    names = {file.name for file in report.folder.report.iterdir()}
    assert {"why.csv", "anatomy-packets.csv", "anatomy-web-qemu.png", "anatomy-sizes-web-host.svg"} <= names
