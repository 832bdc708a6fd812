"""The chapters on networks: there when a run has what they need, right, and from the run's folder alone."""

import csv
import io
import math
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nearmetal.analysis import single_arm
from nearmetal.analysis.results import Cell
from nearmetal.model import Level
from nearmetal.report.blocks import Chart, Notice, Paragraph, Quantity, Section, Table, Terms
from nearmetal.report.chapters import make_sections
from nearmetal.report.client_lines import label_without_clients
from nearmetal.report.report_input import ReportInput, read_run_input
from nearmetal.report.table_values import show_value
from nearmetal.report.write import write
from nearmetal.store.run_folder import RunFolder
from tests import journals, plausible_networks, plausible_run

pytestmark = pytest.mark.usefixtures("one_engine")

OURS = ("transactions", "network", "saturation", "odd-clients", "shared-network", "published")


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return plausible_networks.transactions(tmp_path_factory.mktemp("run") / "counted", blocks=11)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return plausible_networks.shared(tmp_path_factory.mktemp("run") / "shared", blocks=8)


def chapters(folder: RunFolder) -> dict[str, Section]:
    """They are made once of each folder: a test that changes a run asks for them after it, or of a copy."""
    if folder.path not in _MADE:
        _MADE[folder.path] = {one.name: one for one in make_sections(read_run_input(folder)) if one.name in OURS}
    return _MADE[folder.path]


_MADE: dict[Path, dict[str, Section]] = {}


def table(section: Section, name: str) -> list[dict[str, object]]:
    (found,) = [block for block in section.blocks if isinstance(block, Table) and block.name == name]
    titles = [column.title for column in found.columns]
    return [dict(zip(titles, row, strict=True)) for row in found.rows]


def drawn(spec: Mapping[str, Any], mark: str) -> list[dict[str, Any]]:
    """The rows of all layers with this mark."""
    return [row for layer in spec["layer"] if layer["mark"]["type"] == mark for row in layer["data"]["values"]]


def renamed(folder: RunFolder, path: Path, name: str) -> RunFolder:
    """The same run of a study of another name."""
    shutil.copytree(folder.path, path)
    copy = RunFolder(path)
    with journals.changed_manifest(path) as manifest:
        manifest["study"]["name"] = name
    return copy


def test_a_run_of_something_else_has_none_of_these_chapters(tmp_path: Path) -> None:
    assert not chapters(plausible_run.make(tmp_path / "quickstart", blocks=2))


def test_each_run_has_the_chapters_that_it_has_figures_for(counted: RunFolder, shared: RunFolder) -> None:
    assert list(chapters(counted)) == ["transactions", "published"]
    assert list(chapters(shared)) == ["network", "saturation", "odd-clients", "shared-network", "published"]


def test_under_a_name_of_ones_own_nothing_is_called_published(
    counted: RunFolder, shared: RunFolder, tmp_path: Path
) -> None:
    assert not chapters(renamed(counted, tmp_path / "counted", "mine"))
    mine = chapters(renamed(shared, tmp_path / "shared", "mine"))
    assert list(mine) == ["network", "saturation", "odd-clients"]
    names = {block.name for section in mine.values() for block in section.blocks if isinstance(block, Table)}
    assert not [name for name in names if "published" in name]


# ── Transactions ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_transactions_have_a_column_for_each_number_of_workers(counted: RunFolder) -> None:
    rows = table(chapters(counted)["transactions"], "transactions")
    assert len(rows) == 8  # host and docker on and off, qemu with two cards on and off
    host = next(row for row in rows if row["treatment"] == "host, offload on")
    assert host["4 workers: blocks"] == 11
    assert host["4 workers: mean"] == pytest.approx(200_000, rel=0.02)
    low, high = host["4 workers: low"], host["4 workers: high"]
    assert isinstance(low, float) and isinstance(high, float)
    assert low < 200_000 * 1.01 and high > 200_000 * 0.99


def test_transactions_of_one_block_have_no_standard_deviation(tmp_path: Path) -> None:
    report = read_run_input(plausible_networks.transactions(tmp_path / "counted", blocks=1))
    (section,) = [one for one in make_sections(report) if one.name == "transactions"]
    found = table(section, "transactions")
    assert {(row["4 workers: blocks"], row["4 workers: stddev"]) for row in found} == {(1, None)}


def with_a_wild_block(folder: RunFolder) -> ReportInput:
    """A run of which the last block carried next to nothing with any treatment."""
    with journals.changed(folder.journal) as records:
        last = max(record["trial"]["block"] for record in records)
        for record in records:
            for response in record["responses"].values():
                if record["trial"]["block"] == last and response["scale"] == "ratio":
                    response["value"] *= 0.01
    return read_run_input(folder)


def number(value: object) -> float:
    return value.value if isinstance(value, Quantity) else float(str(value))


def test_what_stands_before_an_interval_lies_in_it_whatever_one_block_did(tmp_path: Path) -> None:
    report = with_a_wild_block(plausible_networks.transactions(tmp_path / "counted", blocks=12))
    (section,) = [one for one in make_sections(report) if one.name == "transactions"]
    row = table(section, "transactions")[0]
    of = {name: number(row[f"4 workers: {name}"]) for name in ("mean", "centre", "low", "high")}
    assert of["mean"] < of["low"] < of["centre"] < of["high"]
    assert str(row["4 workers"]).startswith(f"{of['centre']:,.0f} ({of['low']:,.0f} – ")

    report = with_a_wild_block(plausible_networks.shared(tmp_path / "shared", blocks=12))
    chosen = {one.name: one for one in make_sections(report)}
    for name in ("network", "saturation"):
        rows = [row for row in table(chosen[name], name) if row.get("response") not in ("loss", "jitter")]
        assert rows
        for row in rows:
            mean, centre, low, high = (number(row[title]) for title in ("mean", "centre", "from", "to"))
            assert mean < low <= centre <= high
    charts = [block for name in ("network", "saturation") for block in chosen[name].blocks if isinstance(block, Chart)]
    points = [
        row
        for chart in charts
        if chart.name in ("network", "saturation")
        for panel in chart.panels
        for row in drawn(panel.spec, "point")
    ]
    assert points and all(row["low"] <= row["y"] <= row["high"] for row in points)


def test_ratios_stand_beside_those_of_the_published_counts(counted: RunFolder) -> None:
    rows = table(chapters(counted)["transactions"], "transactions-published")
    by_name = {row["comparison"]: row for row in rows}
    e1000 = by_name["qemu, nic e1000 vs host (offload off, workers 4)"]
    assert e1000["published ratio"] == pytest.approx(549 / 906)
    assert e1000["measured ratio"] == pytest.approx(0.62 * 0.4 * 0.3 / 0.8, rel=0.03)
    assert e1000["published is"] == "higher"
    docker = by_name["docker vs host (offload on, workers 16)"]
    assert docker["published ratio"] == pytest.approx(934 / 918)
    switched = by_name["offload off vs offload on (qemu, workers 1, nic virtio-net)"]
    assert switched["published ratio"] == pytest.approx(916 / 916)


# ── Clients that share a network ──────────────────────────────────────────────────────────────────────────────────


def test_lines_run_over_the_number_of_clients_and_tell_tcp_from_udp(shared: RunFolder) -> None:
    chart, each = [block for block in chapters(shared)["network"].blocks if isinstance(block, Chart)]
    assert each.name == "each-client"
    panels = {panel.name: panel.spec for panel in chart.panels}
    assert list(panels) == ["bandwidth", "transfer", "jitter", "loss"]
    lines = drawn(panels["bandwidth"], "line")
    assert {row["label"] for row in lines} == {"host, tcp", "host, udp", "qemu, tcp", "qemu, udp"}
    assert {row["label"] for row in lines if row["dash"]} == {"host, udp", "qemu, udp"}
    assert sorted(round(row["x"]) for row in lines if row["label"] == "host, tcp") == [1, 2, 3, 4, 5]


def with_a_third_client_that_loses(folder: RunFolder, path: Path) -> RunFolder:
    """The third of several clients has the worst jitter and the most loss, as the published study saw."""
    shutil.copytree(folder.path, path)
    copy = RunFolder(path)
    with journals.changed(copy.journal) as records:
        for record in records:
            clients = int(record["trial"]["treatment"]["clients"])
            for name in ("jitter", "loss"):
                if clients > 1 and (response := record["responses"].get(name)):
                    response["by_client"] = [response["value"] * (1.5 if n == 2 else 1.0) for n in range(clients)]
    return copy


def test_each_client_has_its_loss_and_jitter_drawn_and_in_rows(shared: RunFolder, tmp_path: Path) -> None:
    section = chapters(with_a_third_client_that_loses(shared, tmp_path / "each"))["network"]
    (chart,) = [block for block in section.blocks if isinstance(block, Chart) and block.name == "each-client"]
    panels = {panel.name: panel.spec for panel in chart.panels}
    assert list(panels) == ["loss", "jitter", "bandwidth"]
    points = [row for row in drawn(panels["jitter"], "point") if row["label"] == "host"]
    assert [round(row["x"]) for row in points] == [1, 2, 3, 4, 5]
    assert max(points, key=lambda row: row["y"]) is points[2]
    rows = [row for row in table(section, "each-client") if (row["treatment"], row["response"]) == ("host", "jitter")]
    assert [(row["clients"], row["client"]) for row in rows[:3]] == [(2, 1), (2, 2), (3, 1)]
    assert len(rows) == 2 + 3 + 4 + 5
    third, fourth = (number(row["mean"]) for row in rows if row["clients"] == 5 and row["client"] in (3, 4))
    assert third == pytest.approx(1.5 * fourth)


def test_what_is_left_to_a_client_stands_beside_the_published_table(shared: RunFolder) -> None:
    rows = table(chapters(shared)["shared-network"], "network-bandwidth-published")
    host = {row["clients"]: row for row in rows if row["treatment"] == "host"}
    assert host[5]["share of one alone"] == "0.200 ×" or str(host[5]["share of one alone"]).startswith(("0.19", "0.20"))
    assert host[5]["share, published"] == "0.131 ×"
    assert all(row["published"] is None for row in rows if row["treatment"] == "qemu")


def test_the_client_that_gets_less_is_found_and_no_other(shared: RunFolder) -> None:
    rows = table(chapters(shared)["odd-clients"], "odd-clients")
    assert rows and {row["client"] for row in rows} == {3}
    assert {row["response"] for row in rows} == {"bandwidth"}
    for row in rows:
        assert row["deviation"] == pytest.approx(-0.2, abs=0.03)


@pytest.mark.parametrize("blocks", [8, 12])
def test_the_clients_of_the_chapter_are_those_that_the_run_is_warned_of(tmp_path: Path, blocks: int) -> None:
    """In eight blocks those of primary responses alone: others are held against one percent."""
    folder = plausible_networks.shared(tmp_path / "run", blocks=blocks)
    warned = [one.text for one in read_run_input(folder).analysis.warnings if one.code == "odd-client"]
    rows = table(chapters(folder)["odd-clients"], "odd-clients")
    assert len(rows) == len(warned)
    assert {row["workload"] for row in rows} == ({"tcp"} if blocks == 8 else {"tcp", "udp"})


def test_repeats_that_are_off_to_either_side_make_no_client_odd(tmp_path: Path) -> None:
    """By the factor 1.6, whose mean with its inverse is 1.11, and 1 on the response's scale."""
    source = f"{plausible_networks.SHARED}repeats = 2\n"
    folder = plausible_networks.make(tmp_path / "run", source, 12, plausible_networks._shared)
    with journals.changed(folder.journal) as records:
        for record in records:
            factor = 1.6 if record["trial"]["repeat"] else 1 / 1.6
            for response in record["responses"].values():
                if response.get("by_client"):
                    response["by_client"] = [
                        factor if client == 2 else 1.0 for client in range(len(response["by_client"]))
                    ]
    assert not [one for one in read_run_input(folder).analysis.warnings if one.code == "odd-client"]
    assert chapters(folder)["odd-clients"].blocks == (Paragraph("None is."),)


def test_where_nobody_could_tell_an_odd_client_it_is_said_how_many_blocks_it_takes(tmp_path: Path) -> None:
    few = chapters(plausible_networks.shared(tmp_path / "few", blocks=2))["odd-clients"].blocks
    assert few == (
        Paragraph(
            "Too few blocks to tell: it takes 7 with 3 clients, 8 with 4 clients and 8 with 5 clients; of a response "
            "that is not primary, 10 with 3 clients, 10 with 4 clients and 10 with 5 clients."
        ),
    )
    seven = chapters(plausible_networks.shared(tmp_path / "seven", blocks=7))["odd-clients"].blocks
    assert isinstance(seven[0], Table) and {row[-1] for row in seven[0].rows} == {Quantity(3 * 2**-6, "p")}
    assert seven[1] == Paragraph(
        "Of 14 of them there are too few blocks to tell: it takes 8 with 4 clients and 8 with 5 clients; of a response "
        "that is not primary, 10 with 3 clients, 10 with 4 clients and 10 with 5 clients."
    )


def test_where_no_client_is_odd_it_is_said(shared: RunFolder, tmp_path: Path) -> None:
    equal = RunFolder(tmp_path / "equal")
    shutil.copytree(shared.path, equal.path)
    with journals.changed(equal.journal) as records:
        for record in records:
            for response in record["responses"].values():
                if response.get("by_client"):
                    response["by_client"] = [1.0] * len(response["by_client"])
    few, none = chapters(equal)["odd-clients"].blocks
    assert isinstance(few, Paragraph) and few.text.startswith("Of 6 of them there are too few blocks to tell")
    assert none == Paragraph("None of the others is.")


# ── Saturation ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_saturation_is_told_with_its_interval_and_the_published_range(shared: RunFolder) -> None:
    rows = table(chapters(shared)["saturation"], "saturation")
    beside = table(chapters(shared)["shared-network"], "saturation-published")
    assert [row["each client"] for row in beside] == [row["each client"] for row in rows]
    published = {row["treatment"]: row["published for each"] for row in beside}
    assert published["host, clients 1"] == "17 to 20 requests/s"
    assert published["host, clients 2"] == "8 to 10 requests/s"
    assert published["host, clients 3"] is None
    assert published["qemu, clients 1"] is None
    assert {row["blocks"] for row in rows} == {8} and {row["only a bound"] for row in rows} == {0}


def test_all_numbers_of_clients_climb_in_one_picture(shared: RunFolder) -> None:
    blocks = chapters(shared)["saturation"].blocks
    (chart,) = [block for block in blocks if isinstance(block, Chart) and block.name == "ramps"]
    panels = {panel.name: panel.spec for panel in chart.panels}
    whats = ("requests", "replies", "errors")
    assert list(panels) == [f"heavy-{name}-{what}" for name in ("host", "qemu") for what in whats]
    for what in whats:
        lines = drawn(panels[f"heavy-host-{what}"], "line")
        assert {row["climb"] for row in lines} == {"1 client", *(f"{count} clients" for count in range(2, 6))}
        of_two = [row for row in lines if row["climb"] == "2 clients"]
        rungs = [row for row in table(chapters(shared)["saturation"], "ramps") if row["treatment"] == "host, clients 2"]
        assert [row["y"] for row in of_two] == [number(row[what]) for row in rungs]


@pytest.mark.parametrize("name", ["saturation", "ramps"])
def test_rates_of_a_column_have_as_many_decimals_all(name: str, shared: RunFolder) -> None:
    rows = table(chapters(shared)["saturation"], name)
    columns = [column for column, value in rows[0].items() if isinstance(value, Quantity)]
    assert columns
    for column in columns:
        texts = [show_value(value) for row in rows if isinstance(value := row[column], Quantity)]
        assert len({len(text.partition(".")[2]) for text in texts}) == 1, texts


def test_the_steps_of_the_ramps_are_averaged_over_clients_and_blocks(shared: RunFolder) -> None:
    rows = table(chapters(shared)["saturation"], "ramps")
    first = next(row for row in rows if row["treatment"] == "qemu, clients 5")
    assert first["steps"] == 5 * 8
    assert getattr(first["offered"], "value", None) == 1.0
    assert getattr(first["replies"], "value", 0) == pytest.approx(1.0, rel=0.01)
    beyond = [row for row in rows if row["treatment"] == "qemu, clients 1"][-1]
    assert getattr(beyond["errors"], "value", 0) > 1
    assert getattr(beyond["replies"], "value", 99) < getattr(beyond["offered"], "value", 0)


def test_a_step_in_which_the_generator_gave_out_tells_nothing_of_the_server(shared: RunFolder, tmp_path: Path) -> None:
    copy = RunFolder(tmp_path / "gave-out")
    shutil.copytree(shared.path, copy.path)
    gave_out = (Path(__file__).parents[1] / "golden/tools/load/ramp-generator-gave-out.json").read_bytes()
    journals.replace_artifacts(copy, "load-*.json", gave_out)
    section = chapters(copy)["saturation"]
    rows = [row for row in table(section, "ramps") if row["treatment"] == "qemu, clients 1"]
    assert [(getattr(row["offered"], "value", None), row["steps"]) for row in rows] == [
        (rate, 8) for rate in (50.0, 100.0, 150.0, 200.0)
    ]
    (notice,) = [block for block in section.blocks if isinstance(block, Notice)]
    assert notice.text == (
        "In 480 steps the load generator was the limit, and not the server. No mean over steps has them."
    )


def test_documents_that_are_gone_are_told_and_nothing_else_is_lost(shared: RunFolder, tmp_path: Path) -> None:
    copy = RunFolder(tmp_path / "without")
    shutil.copytree(shared.path, copy.path)
    shutil.rmtree(copy.artifacts)
    section = chapters(copy)["saturation"]
    (notice,) = [block for block in section.blocks if isinstance(block, Notice)]
    assert notice.text.startswith("Of 240 ramps the steps cannot be read")
    assert table(section, "saturation") == table(chapters(shared)["saturation"], "saturation")
    assert not [block for block in section.blocks if isinstance(block, Chart) and block.name == "ramps"]


def test_a_document_that_is_none_is_no_step(shared: RunFolder, tmp_path: Path) -> None:
    copy = RunFolder(tmp_path / "broken")
    shutil.copytree(shared.path, copy.path)
    for place, document in enumerate(sorted(copy.artifacts.rglob("load-*.json"))):
        if place < 3:
            document.write_bytes([b"", b'{"steps": [{"offered": -1}]}', b"[]"][place])
    (notice,) = [block for block in chapters(copy)["saturation"].blocks if isinstance(block, Notice)]
    assert notice.text.startswith("Of 3 ramps")


# ── All of it ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.long  # as of any run, in test_report.py
def test_the_folder_alone_gives_the_same_bytes_wherever_it_lies(shared: RunFolder, tmp_path: Path) -> None:
    contents = []
    for name in ("here", "there"):
        copy = RunFolder(tmp_path / name / "run")
        shutil.copytree(shared.path, copy.path)
        write(copy)
        files = {path.name: path.read_bytes() for path in sorted(copy.report.iterdir())}
        contents.append({"report.html": copy.page.read_bytes(), **files})
    assert contents[0] == contents[1]
    assert {"network-bandwidth.svg", "saturation-each.svg", "network.csv", "ramps.csv", "published-bandwidth.csv"} <= (
        contents[0].keys()
    )
    ramps = list(csv.DictReader(io.StringIO(contents[0]["ramps.csv"].decode())))
    assert float(ramps[0]["offered"]) == 1.0


def test_one_of_a_thing_is_not_called_by_its_plural(tmp_path: Path) -> None:
    page = write(plausible_networks.shared(tmp_path / "one", blocks=1)).read_text()
    assert ">1 block<" in page
    assert re.findall(r"[> ]1 (?:blocks|rows|trials|clients)\b", page) == []


def test_what_was_published_is_told_with_its_source_and_oddities(shared: RunFolder) -> None:
    section = chapters(shared)["published"]
    (terms,) = [block for block in section.blocks if isinstance(block, Terms)]
    told = dict(terms.items)
    assert "Pratik Timalsena" in told["Source"] and "616 Mbit/s" in told["Odd in it"]
    rows = table(section, "published-transfer")
    assert rows[0]["unit"] == "Gigabytes" and rows[1]["unit"] == "Megabytes"
    assert str(rows[0]["printed"]).startswith("1.09818, 1.098, ")


# ── What a treatment comes down to ────────────────────────────────────────────────────────────────────────────────


def test_settings_follow_the_factor_that_sets_them_and_else_the_study(shared: RunFolder, counted: RunFolder) -> None:
    report = read_run_input(shared)
    five: dict[str, Level] = {"environment": "qemu", "clients": 5}
    asked = report.asked(five)
    assert (asked.environment.kind, asked.server.nic, asked.clients.count) == ("qemu", "virtio-net", 5)
    assert asked.server.host == asked.clients.host
    assert report.parameter(five, "udp", "rate") == "900Mbit/s" and report.parameter(five, "udp", "nothing") is None
    cells = [cell for cell in report.analysis.cells if cell.treatment == five]
    assert {label_without_clients(cell.treatment, report) for cell in cells} == {"qemu"}
    other = read_run_input(counted)
    four: dict[str, Level] = {"environment": "qemu", "nic": "e1000", "offload": False, "workers": 4}
    asked = other.asked(four)
    assert (asked.server.nic, asked.treatments["offload"]) == ("e1000", False)
    assert other.parameter(four, "transactions", "workers") == 4


def cell(values: list[float], scale: str) -> Cell:
    return Cell.model_validate(
        {
            "workload": "w",
            "response": "r",
            "unit": "s",
            "better": "lower",
            "scale": scale,
            "treatment": {"environment": "host"},
            "values": values,
            "censored": [None] * len(values),
            "blocks": list(range(len(values))),
            "mean": float(np.mean(values)),
            "stddev": 0.0,
            "minimum": min(values),
            "maximum": max(values),
            "median": float(np.median(values)),
        }
    )


def test_the_interval_of_a_centre_covers_it_as_often_as_it_says() -> None:
    noise = np.random.default_rng(3)
    covered = 0
    for _ in range(400):
        interval = single_arm.estimate_centre(cell(noise.lognormal(0, 0.2, size=8).tolist(), "ratio"), 0.05).interval
        assert interval is not None
        covered += interval[0] <= 1.0 <= interval[1]
    assert covered / 400 >= 0.93
    few = single_arm.estimate_centre(cell([1.0, 2.0, 4.0], "ratio"), 0.05)
    assert few.estimate == pytest.approx(2.0) and few.interval is None
    zeros = single_arm.estimate_centre(cell([0.0] * 8, "difference"), 0.05)
    assert (zeros.estimate, zeros.interval) == (0.0, (0.0, 0.0))
    assert math.isnan(single_arm.estimate_centre(cell([1.0, math.inf], "ratio"), 0.05).estimate)


def test_wherever_one_treatment_has_an_interval_it_is_of_the_time_of_the_run(
    counted: RunFolder, shared: RunFolder
) -> None:
    sections = [chapters(counted)["transactions"], *(chapters(shared)[name] for name in ("network", "saturation"))]
    captions = {
        (type(block), block.name): block.caption
        for section in sections
        for block in section.blocks
        if (isinstance(block, Table) and {"from", "4 workers: low"} & {column.title for column in block.columns})
        or (isinstance(block, Chart) and block.name not in ("ramps", "transactions"))
    }
    both = [(of, name) for of in (Table, Chart) for name in ("network", "saturation", "each-client")]
    assert {(Table, "transactions"), *both} == set(captions)
    for name, caption in captions.items():
        assert "95 % interval for the time of this run alone" in caption, name


def test_no_name_beside_the_verdicts_is_cut_however_many_factors_it_tells_of(
    counted: RunFolder, shared: RunFolder
) -> None:
    for folder in (counted, shared):
        (verdicts,) = [section for section in make_sections(read_run_input(folder)) if section.name == "verdicts"]
        (chart,) = [block for block in verdicts.blocks if isinstance(block, Chart)]
        labels = [row["label"] for panel in chart.panels for row in drawn(panel.spec, "text") if "label" in row]
        # Each row is there twice: for its name, and for its figure.
        assert len(labels) == 2 * sum(contrast.primary for contrast in read_run_input(folder).analysis.contrasts)
        limits = [layer["mark"].get("limit") for panel in chart.panels for layer in panel.spec["layer"]]
        assert not any(limits)
