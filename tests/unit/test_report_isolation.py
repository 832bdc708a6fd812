"""The chapter on isolation: the rows that httperf prints, from either generator, beside the published ones."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from nearmetal import studies
from nearmetal.model import Artifact, BootRecord, MachineRecord, Response, TrialAddress, TrialRecord, TrialStatus
from nearmetal.planning import plan as planning
from nearmetal.report.blocks import Notice, Quantity, Section, Table
from nearmetal.report.chapters import make_sections
from nearmetal.report.report_input import read_run_input
from nearmetal.report.write import write
from nearmetal.store.manifest import Manifest
from nearmetal.store.run_folder import RunFolder
from nearmetal.studies.cpu_isolation import chapter as cpu_isolation
from nearmetal.studies.cpu_isolation.chapter import ROWS, of_httperf, of_load
from nearmetal.studies.published.figures import find_published
from nearmetal.study.blocks import plan_blocks
from nearmetal.study.study_file import read as read_study
from nearmetal.workloads import noise as noise_workload
from nearmetal.workloads.httperf.output import parse_figures
from tests import journals

from .workloads_stage import golden

pytestmark = pytest.mark.usefixtures("one_engine")

LOAD = golden("load/open-1000.json")
HTTPERF = parse_figures(golden("httperf/normal.out").decode())
GAPS = {"none": 500.0, "user": 300.0, "kernel": 20.0, "kernel+user": 2.0}


def responses(workload: str, level: str) -> dict[str, Response]:
    if workload != "noise":
        value = 0.001 if level == "none" else 0.0009
        name = {"http-100": "connection_stddev", "http-500": "latency_p99"}.get(workload, "latency_mean")
        return {name: Response(value=value, unit="s", better="lower", scale="ratio")}
    kind = noise_workload.KINDS["gaps"]
    return {"gaps": kind.of(GAPS[level])}


def documents(workload: str) -> dict[str, bytes]:
    if workload == "noise":
        return {}
    if workload.startswith("httperf"):
        return {"httperf-0.json": json.dumps(HTTPERF).encode(), "httperf-0.txt": golden("httperf/normal.out")}
    return {"load-0.json": LOAD}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run of the built-in study that might have been: two blocks."""
    path = tmp_path_factory.mktemp("run") / "isolation"
    path.mkdir()
    source = studies.read_study_file("cpu-isolation")
    study = read_study(source, "cpu-isolation", ["design.blocks=2"])
    plan = planning.make_plan(study)
    made = RunFolder(path)
    manifest = Manifest(
        run="isolation",
        created="2025-03-01T12:00:00Z",
        study=study,
        source=source,
        plan=plan,
        versions={"nearmetal": "0.1.0"},
        host={},
    )
    made.write_manifest(manifest)
    with made.journal.open("w") as journal:
        for block in plan_blocks(plan):
            for boot in block.boots:
                for trial in boot.trials:
                    address = TrialAddress(
                        id=trial.id,
                        block=block.index,
                        attempt=block.attempt,
                        position=trial.position,
                        repeat=trial.repeat,
                        treatment=boot.treatment,
                        workload=trial.workload,
                    )
                    line = record(made, address, f"{block.index} {boot.treatment}").model_dump(mode="json")
                    journal.write(json.dumps(line, separators=(",", ":")) + "\n")
    return made


def record(folder: RunFolder, address: TrialAddress, boot: str) -> TrialRecord:
    artifacts = []
    for name, content in documents(address.workload).items():
        place = folder.artifacts / address.id / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
        path = place.relative_to(folder.path).as_posix()
        artifacts.append(Artifact(path=path, sha256=hashlib.sha256(content).hexdigest()))
    return TrialRecord(
        trial=address,
        site="local",
        boot=BootRecord(id=boot, how="boot"),
        machines=(MachineRecord(role="server", environment="qemu", boot_id=boot, cpus="0-1"),),
        status=TrialStatus.OK,
        phases_ns={},
        responses=responses(address.workload, str(address.treatment["isolation"])),
        artifacts=tuple(artifacts),
    )


def chapter(folder: RunFolder) -> Section:
    (found,) = [section for section in make_sections(read_run_input(folder)) if section.name == "cpu-isolation"]
    return found


def test_other_studies_that_isolate_have_no_such_chapter(folder: RunFolder, tmp_path: Path) -> None:
    shutil.copytree(folder.path, tmp_path / "mine")
    with journals.changed_manifest(tmp_path / "mine") as manifest:
        manifest["study"]["name"] = "mine"
    names = {section.name for section in make_sections(read_run_input(RunFolder(tmp_path / "mine")))}
    assert "responses" in names
    assert not names & {"cpu-isolation", "published"}


def table(section: Section, name: str) -> list[dict[str, object]]:
    (found,) = [block for block in section.blocks if isinstance(block, Table) and block.name == name]
    return [dict(zip([column.title for column in found.columns], row, strict=True)) for row in found.rows]


def test_both_generators_have_every_row_that_there_is_an_observation_of() -> None:
    assert set(of_httperf(HTTPERF)) == {row.name for row in ROWS}
    assert {row.name for row in ROWS} - set(of_load(json.loads(LOAD))) == {
        *(f"reply rate {name}" for name in ("min", "avg", "max", "stddev")),
        "reply size footer",
    }


def test_all_fifty_figures_of_an_output_are_rows_and_were_published() -> None:
    found = find_published("cpu-isolation")
    assert found is not None
    printed = {figure.at["what"] for figure in found.find_table("httperf").figures}
    assert {row.name for row in ROWS} == printed
    assert {row.httperf for row in ROWS} == HTTPERF.keys()
    assert len(ROWS) == 50


def test_units_are_si_and_rates_are_over_the_run() -> None:
    rows = of_load(json.loads(LOAD))
    assert rows["test duration"] == 2.0
    assert rows["request rate"] == pytest.approx(1000.0)
    assert (rows["request size"], rows["reply size header"], rows["reply size content"]) == (69.0, 109.0, 402.0)
    assert rows["reply size total"] == 511.0
    assert rows["net I/O in bits"] == rows["net I/O"] * 8
    assert rows["time per request"] == pytest.approx(0.001)
    assert rows["CPU total"] == pytest.approx((rows["CPU time user"] + rows["CPU time system"]) / 2)
    assert rows["net I/O"] == pytest.approx((138000 + 218000 + 804000) / 2)
    assert rows["CPU time system"] == pytest.approx(0.126115)
    assert 0 < rows["p50"] <= rows["p99"] <= rows["max"] < 1
    assert of_httperf({"connection_ms.mean": 1.5, "net.kibibytes_per_s": 2.0, "connect_ms.mean": None}) == {
        "connection time avg": 0.0015,
        "net I/O": 2048.0,
    }


def test_each_workload_has_its_table_with_a_column_for_each_level_and_the_published_ones(folder: RunFolder) -> None:
    rows = {str(row["figure"]): row for row in table(chapter(folder), "isolation-httperf-500")}
    mean = rows["connection time avg"]
    assert mean["none"] == mean["kernel+user"]
    value = HTTPERF["connection_ms.mean"]
    assert value is not None
    assert mean["none"] == Quantity(pytest.approx(value / 1000), "s")  # type: ignore[arg-type]
    assert mean["published: none"] == Quantity(pytest.approx(0.0039), "s")  # type: ignore[arg-type]
    assert rows["connection time max"]["published: kernel+user"] == Quantity(pytest.approx(1.3144), "s")  # type: ignore[arg-type]
    assert not any("published: user" in row for row in rows.values())
    hundred = {str(row["figure"]): row for row in table(chapter(folder), "isolation-http-100")}
    assert hundred["connection time max"]["published: none"] == Quantity(pytest.approx(0.0072), "s")  # type: ignore[arg-type]


def test_a_number_of_connections_that_was_not_published_has_nothing_beside_it_and_says_so(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu_isolation, "_find_connections", lambda workload, *_: 30 if "500" in workload else 100)
    captions = {block.name: block.caption for block in chapter(folder).blocks if isinstance(block, Table)}
    assert "of 30 connections nothing was published, but of 100 and 500" in captions["isolation-http-500"]
    assert "the first run under the heading of 100 connections" in captions["isolation-http-100"]
    assert not any("published" in title for title in table(chapter(folder), "isolation-http-500")[0])


def test_percentiles_are_of_our_generator_and_noise_is_by_level(folder: RunFolder) -> None:
    names = {block.name for block in chapter(folder).blocks if isinstance(block, Table)}
    assert {name for name in names if "latency" in name} == {f"isolation-latency-http-{n}" for n in (100, 500)}
    noise = {row["treatment"]: row["mean"] for row in table(chapter(folder), "isolation-noise")}
    assert noise["qemu, isolation kernel+user"] == Quantity(2.0, "1/s")
    assert noise["qemu, isolation none"] == Quantity(500.0, "1/s")
    titles = list(table(chapter(folder), "isolation-noise")[0])
    assert titles[-4:] == ["mean", "centre", "from", "to"]
    captions = {block.name: block.caption for block in chapter(folder).blocks if isinstance(block, Table)}
    assert captions["isolation-noise"].endswith("95 % interval for the time of this run alone")


def test_the_report_is_written_with_it(folder: RunFolder) -> None:
    page = write(folder).read_text()
    assert "Levels of isolation" in page
    assert "connection time stddev" in page


def test_documents_that_are_gone_are_told(folder: RunFolder) -> None:
    for path in folder.artifacts.rglob("load-0.json"):
        path.write_text("{")
    told = [block.text for block in chapter(folder).blocks if isinstance(block, Notice)]
    assert len(told) == 2
    assert all("cannot be read" in text for text in told)
