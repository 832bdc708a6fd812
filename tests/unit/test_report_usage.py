"""The chapter on usage: courses of one trial, averages over all, and what it says when samples are missing."""

import json
from pathlib import Path
from typing import Any

import pytest

from nearmetal.model import Artifact, TrialRecord
from nearmetal.observers.usage.samples import Own, Span, average_samples, parse_samples
from nearmetal.report.blocks import Block, Chart, Notice, Paragraph, Quantity, Table
from nearmetal.report.report_input import ReportInput, read_run_input
from nearmetal.report.sections.usage import plugin, read_course
from nearmetal.report.write import write
from nearmetal.store import journal
from nearmetal.store.run_folder import RunFolder, hash_file
from tests import journals, plausible_run

from .workloads_stage import golden

pytestmark = pytest.mark.usefixtures("one_engine")

GUEST, HOST = golden("sample/guest.jsonl"), golden("sample/host.jsonl")


def counters(content: bytes, more: dict[str, Any]) -> dict[str, Any]:
    """As the observer makes them: the measuring is the golden samples' three seconds."""
    samples = parse_samples(content).samples
    began = samples[0]["monotonic_ns"] - samples[0]["elapsed_ns"]
    span = Span(began, samples[-1]["monotonic_ns"])
    seconds = (span.end - span.begin) / 1e9
    told = {"interval": 1.0, "began_ns": began, "seconds": seconds, "samples": 3, "cost": 0.001}
    return told | average_samples(samples, span, Own()) | more


def observed(folder: RunFolder, index: int, record: TrialRecord, **more: Any) -> TrialRecord:
    """A record with what a guest and its host told; the more blocks, the busier."""
    kept = []
    for name, content in (("usage-server-0.jsonl", GUEST), ("usage-host.jsonl", HOST)):
        path = folder.path / "artifacts" / record.trial.id / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        kept.append(Artifact(path=str(path.relative_to(folder.path)), sha256=hash_file(path)))
    guest = counters(GUEST, {"cpu.all.usr": float(index), "cpu.all.idle": 100.0 - index, **more})
    usage = {"server-0": guest, "host": counters(HOST, {})}
    return record.model_copy(update={"observers": {"usage": usage}, "artifacts": tuple(kept)})


def made(path: Path, blocks: int = 3, factors: str = "", **more: Any) -> RunFolder:
    folder = plausible_run.make(path, blocks, factors, faults=False)
    records = list(journal.read_records(folder.journal))
    told = [observed(folder, record.trial.block, record, **more) for record in records]
    folder.journal.write_text(
        "".join(json.dumps(one.model_dump(mode="json"), separators=(",", ":")) + "\n" for one in told)
    )
    return folder


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> ReportInput:
    return read_run_input(made(tmp_path_factory.mktemp("usage") / "run"))


def blocks(report: ReportInput) -> dict[str, Block]:
    section = plugin.render(report)
    assert section is not None
    return {getattr(block, "name", block.kind): block for block in section.blocks}


def table(report: ReportInput, name: str) -> list[dict[str, Any]]:
    block = blocks(report)[name]
    assert isinstance(block, Table)
    return [dict(zip((column.title for column in block.columns), row, strict=True)) for row in block.rows]


def test_a_run_that_was_not_observed_has_no_such_chapter(tmp_path: Path) -> None:
    assert plugin.render(read_run_input(plausible_run.make(tmp_path / "run", 2, faults=False))) is None


def test_averages_are_over_all_trials_in_the_columns_of_mpstat(report: ReportInput) -> None:
    rows = table(report, "usage-cpu")
    assert len(rows) == 2 * 3 * 2  # workloads, treatments, inside and host
    assert list(rows[0])[3:] == [
        *("%usr", "%nice", "%sys", "%iowait", "%irq", "%soft", "%steal", "%guest", "%gnice", "%idle")
    ]
    indices = sorted({record.trial.block for record in report.records})
    assert rows[0]["%usr"] == sum(indices) / len(indices)
    assert (rows[0]["where"], rows[1]["where"]) == ("inside", "its host")


def test_the_clients_have_rows_of_their_own(tmp_path: Path) -> None:
    folder = made(tmp_path / "run")
    with journals.changed_records(folder.journal) as told:
        for record in told:
            usage = record["observers"]["usage"]
            usage["client-0"] = {**usage["server-0"], "cpu.all.usr": 77.0}
    rows = table(read_run_input(folder), "usage-cpu")
    assert [row["where"] for row in rows[:3]] == ["inside", "its host", "clients"]
    assert rows[2]["%usr"] == 77.0


def test_disks_are_in_the_columns_of_iostat(report: ReportInput) -> None:
    row = next(row for row in table(report, "usage-disk") if row["where"] == "inside")
    told = counters(GUEST, {})
    assert row["device"] == "vda"
    written = told["disk.vda.written"] / 1024
    assert (row["tps"], row["kB_wrtn/s"]) == pytest.approx((told["disk.vda.tps"], written))
    assert row["% busy"] == pytest.approx(100 * told["disk.vda.busy"])


def test_machines_are_in_the_columns_of_docker_stats(report: ReportInput) -> None:
    row = table(report, "usage-machines")[0]
    told = counters(HOST, {})
    assert row["CPU %"] == pytest.approx(told["group.server-0.cpu"])
    assert row["memory"].value == told["group.server-0.memory"]
    assert row["limit"] is None, "a guest's group has none"


def test_what_one_of_several_servers_did_not_do_at_all_is_nothing_there(tmp_path: Path) -> None:
    """The observer leaves out what was 0."""
    groups = {"group.server-0.cpu": 50.0, "group.server-0.read": 3_000.0, "group.server-1.cpu": 25.0}
    folder = made(tmp_path / "run")
    with journals.changed_records(folder.journal) as told:
        for record in told:
            host = record["observers"]["usage"]["host"]
            kept = {name: value for name, value in host.items() if not name.startswith("group.")}
            record["observers"]["usage"]["host"] = kept | groups
    row = table(read_run_input(folder), "usage-machines")[0]
    assert (row["CPU %"], row["block in"], row["block out"]) == (37.5, Quantity(1_500, "B/s"), None)


def test_the_course_is_that_of_the_middle_trial_on_the_measurings_clock(report: ReportInput) -> None:
    chart = blocks(report)["usage"]
    assert isinstance(chart, Chart)
    assert len(chart.panels) == 2 * 3 * 2
    record = report.records[0]
    inside = read_course(record, "server-0", report)
    assert [round(one.begin) for one in inside] == [0, 1, 2]
    assert inside[-1].end == pytest.approx(record.observers["usage"]["server-0"]["seconds"])
    first = parse_samples(GUEST).samples[0]["cpus"]["0"]
    assert inside[0].shares["user"] == pytest.approx(first["usr"] + first["nice"])
    assert inside[0].shares["irq"] == pytest.approx(first["irq"] + first["soft"])


def test_the_cost_of_sampling_is_told(report: ReportInput) -> None:
    block = blocks(report)["paragraph"]
    assert isinstance(block, Paragraph)
    assert "0.1 % of a CPU on the host" in block.text


def test_a_sampler_that_was_killed_is_told(tmp_path: Path) -> None:
    found = blocks(
        read_run_input(made(tmp_path / "run", 2, problem="the sampler was killed before the trial was over"))
    )
    notice = found["notice"]
    assert isinstance(notice, Notice)
    assert "12 samplers did not come to the end" in notice.text
    assert "was killed" in notice.text


def test_samples_that_are_gone_cost_the_picture_alone(tmp_path: Path) -> None:
    folder = made(tmp_path / "run", 2)
    for path in folder.path.glob("artifacts/*/*.jsonl"):
        path.write_bytes(b"\xff rubbish\n")
    found = blocks(read_run_input(folder))
    assert "usage" not in found
    assert "usage-cpu" in found


def test_many_treatments_are_told_by_tables_alone(tmp_path: Path) -> None:
    found = blocks(read_run_input(made(tmp_path / "run", 1, "vcpus = [1, 2, 4]")))
    assert "usage" not in found
    assert "usage-cpu" in found


def test_the_chapter_is_drawn(report: ReportInput) -> None:
    write(report.folder)
    assert (report.folder.report / "usage-cpu.csv").read_text().startswith("workload,treatment,where,%usr")
    assert "Resource usage" in report.folder.page.read_text()
    assert len(list(report.folder.report.glob("usage-*.svg"))) == 12
