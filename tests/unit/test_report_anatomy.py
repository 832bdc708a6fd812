"""The chapter on packets: a typical request of each treatment, what it took and what became of it."""

import json
from pathlib import Path

import pytest

from nearmetal.report.anatomy import list_captured
from nearmetal.report.blocks import Badge, Chart, Notice, Paragraph, Table
from nearmetal.report.report_input import ReportInput, read_run_input
from nearmetal.report.sections.anatomy import plugin as anatomy
from nearmetal.report.sections.anatomy import wilson_interval
from nearmetal.report.sections.verdict_explanations import plugin as why
from nearmetal.report.table_values import show_value
from nearmetal.report.write import write
from nearmetal.store.run_folder import RunFolder
from tests import journals, plausible_captures, plausible_run
from tests.unit.report_captured import table

pytestmark = pytest.mark.usefixtures("one_engine")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> ReportInput:
    return read_run_input(plausible_captures.make(tmp_path_factory.mktemp("captured") / "run"))


def test_a_run_without_captures_has_neither_chapter(tmp_path: Path) -> None:
    plain = read_run_input(plausible_run.make(tmp_path / "run", 8))
    assert anatomy.render(plain) is None
    assert why.render(plain) is None


def test_each_treatment_has_a_ladder_of_its_medians(report: ReportInput) -> None:
    host, docker, qemu = list_captured(report)
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
    told = {str(row[0]): show_value(row[1]) for row in table(why.render(report), "why-2").rows}
    assert show_value(packets.rows[2][at]) == told["bytes for each request"] == "2.83 KiB"


def test_what_the_kernels_of_a_full_capture_counted_is_not_told(tmp_path: Path) -> None:
    section = anatomy.render(read_run_input(plausible_captures.make(tmp_path / "run", 2, limit_reached=1)))
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
    with journals.changed_records(folder.journal) as lines:
        cut = next(one for one in lines if one["trial"]["treatment"]["environment"] == "qemu" and one["observers"])
        capture = cut["observers"]["capture"]
        capture["trace-0"]["requests"] = 100
        capture["server-0"].update({"limit_reached": 1, "kernel.RetransSegs": 500, "kernel.TCPAutoCorking": 900})
    section = anatomy.render(read_run_input(folder))
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
    assert (scale, blocks, show_value(verdict)) == ("ratio", 8, "differs")
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
    told = read_run_input(plausible_captures.make(tmp_path / "run", 4))
    section = anatomy.render(told)
    assert section is not None
    rows = table(section, "anatomy-injected").rows
    assert [row[1] for row in rows] == ["host", "docker", "qemu"]
    (asked, seen, low, high) = (getattr(value, "value", None) for value in rows[2][3:7])
    assert asked == 0.01
    assert seen == pytest.approx(3 / 9000)
    assert low is not None and high is not None and 0 < low < 3 / 9000 < high < 0.01
    assert [row[7] for row in rows] == [Badge("fewer", "unknown")] * 3
    (why_fewer,) = [one.text for one in section.blocks if isinstance(one, Paragraph) and "held back" in one.text]
    assert "of host, docker and qemu fewer" in why_fewer


def test_of_streams_too_what_was_asked_stands_beside_what_was_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = plausible_run.SOURCE.replace("[machine]", '[link]\nloss = "2%"\n[machine]')
    monkeypatch.setattr(plausible_run, "SOURCE", source)
    folder = plausible_captures.make(tmp_path / "run", 4)
    with journals.changed_records(folder.journal) as told:
        for record in told:
            if "trace-0" in record["observers"].get("capture", {}):
                stream = {"requests": 0, "payload": 2**30, "crossed": 700_000, "lost": 14_000, "overtaken": 0}
                record["observers"]["capture"]["trace-0"] = stream
    section = anatomy.render(read_run_input(folder))
    rows = table(section, "anatomy-injected").rows
    assert [row[1:3] for row in rows] == [(name, "packets lost") for name in ("host", "docker", "qemu")]
    assert [getattr(value, "value", None) for value in rows[0][3:5]] == [0.02, 0.02]
    assert [row[7] for row in rows] == [Badge("yes", "same")] * 3
    assert section is not None and not [one for one in section.blocks if "held back" in getattr(one, "text", "")]
    assert section is not None and not [block for block in section.blocks if isinstance(block, Chart)]


def test_writes_alone_are_told_without_intervals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = plausible_run.SOURCE.replace('"lighttpd"', '"probe"').replace(
        '"http"\n', '"http"\nwrites = "10x1000"\n', 1
    )
    monkeypatch.setattr(plausible_run, "SOURCE", source)
    told = table(anatomy.render(read_run_input(plausible_captures.make(tmp_path / "run", 4))), "anatomy-injected")
    assert [column.title for column in told.columns][-3:] == ["asked", "seen", "confirmed"]
    none = ("writes of a reply, and their bytes", "10x1000", "none told apart", Badge("not seen", "unknown"))
    assert told.rows[0][2:] == none
    assert "Wilson" not in told.caption


@pytest.mark.parametrize(
    ("count", "size", "confirmed"),
    [
        (10.0, 1000.2, Badge("yes", "same")),
        (9.9, 1000, Badge("yes", "same")),
        (7.5, 1000, Badge("fewer", "unknown")),
        (11.0, 1000, Badge("more", "unknown")),
        (10.0, 1500, Badge("of another size", "unknown")),
    ],
)
def test_writes_are_confirmed_by_their_number_and_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: float, size: float, confirmed: Badge
) -> None:
    source = plausible_run.SOURCE.replace('"lighttpd"', '"probe"').replace(
        '"http"\n', '"http"\nwrites = "10x1000"\n', 1
    )
    monkeypatch.setattr(plausible_run, "SOURCE", source)
    folder = plausible_captures.make(tmp_path / "run", 4)
    with journals.changed_records(folder.journal) as told:
        for record in told:
            if trace := record["observers"].get("capture", {}).get("trace-0"):
                trace |= {"writes": count, "write_size": size}
    rows = table(anatomy.render(read_run_input(folder)), "anatomy-injected").rows
    assert {row[-1] for row in rows} == {confirmed}


def test_a_share_of_nothing_has_an_interval() -> None:
    assert wilson_interval(0, 1000, 0.05) == pytest.approx((0, 0.00383), abs=1e-5)
    assert {wilson_interval(0, whole, 0.05)[0] for whole in range(1, 20_000, 7)} == {0.0}
    assert {wilson_interval(whole, whole, 0.05)[1] for whole in range(1, 20_000, 7)} == {1.0}


def test_captures_that_hold_no_request_are_told_with_the_reason(tmp_path: Path) -> None:
    folder = plausible_captures.make(tmp_path / "run", 2)
    with journals.changed_records(folder.journal) as told:
        for record in told:
            if "trace-0" in record["observers"].get("capture", {}):
                record["observers"]["capture"]["trace-0"] = {"requests": 0, "retransmitted": 0}
    with journals.changed_manifest(folder.path) as manifest:
        for observed in manifest["plan"]["treatments"]["observe"]:
            observed["capture"] = {"snap": 64}
    section = anatomy.render(read_run_input(RunFolder(folder.path)))
    assert section is not None
    (notice,) = section.blocks
    assert isinstance(notice, Notice)
    assert notice.text.startswith("The captures of web hold no HTTP request (")
    assert notice.text.endswith("Of each packet 64 bytes are kept: from 96 on requests are seen")


def test_a_ring_that_went_round_says_that_it_holds_the_last(tmp_path: Path) -> None:
    told = read_run_input(plausible_captures.make(tmp_path / "run", 2, limit_reached=1, held=4000))
    section = anatomy.render(told)
    assert section is not None
    (notice,) = [block for block in section.blocks if isinstance(block, Notice)]
    assert "the capture reached its limit, and holds no more than the last 4,000 packets. " in notice.text


def test_a_capture_that_is_not_whole_is_told(tmp_path: Path) -> None:
    told = read_run_input(plausible_captures.make(tmp_path / "run", 2, dropped_by_kernel=17))
    section = anatomy.render(told)
    assert section is not None
    (notice,) = [block for block in section.blocks if isinstance(block, Notice)]
    assert notice.text.startswith("6 captures are not whole, for example: server-0: 17 packets came faster")


def test_a_trial_whose_document_is_gone_is_told_without_it(tmp_path: Path) -> None:
    folder = plausible_captures.make(tmp_path / "run", 2)
    for file in folder.path.glob("artifacts/*/trace-0.json"):
        file.write_text("{")
    section = anatomy.render(read_run_input(folder))
    assert section is not None
    assert [block.name for block in section.blocks if isinstance(block, Chart | Table)] == [
        "anatomy",
        "anatomy-packets",
        "anatomy-mishaps",
        "anatomy-contrasts",
    ]


def test_segments_that_are_all_of_one_size_are_told_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in plausible_captures.SIZES:
        monkeypatch.setitem(plausible_captures.SIZES, name, ((1024, 90),))
    section = anatomy.render(read_run_input(plausible_captures.make(tmp_path / "run")))
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
    with journals.changed_records(folder.journal) as told:
        for capture in (record["observers"]["capture"] for record in told if "capture" in record["observers"]):
            capture["trace-1"] = capture["trace-0"]
    section = anatomy.render(read_run_input(folder))
    assert table(section, "anatomy-packets").caption == "What each request took, means over trials and clients"
    for name in ("anatomy-segments", "anatomy-phases"):
        assert table(section, name).caption.endswith("of one typical trial of each treatment, its first client's alone")
    assert section is not None
    (sizes,) = [block for block in section.blocks if isinstance(block, Chart) and block.name == "anatomy-sizes"]
    assert sizes.caption.endswith("in one typical trial of each treatment, to its first client alone.")


def test_the_report_is_written_with_them(report: ReportInput) -> None:
    write(report.folder)
    names = {file.name for file in report.folder.report.iterdir()}
    assert {"why.csv", "anatomy-packets.csv", "anatomy-web-qemu.svg", "anatomy-sizes-web-host.svg"} <= names
