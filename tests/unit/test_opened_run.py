"""A run as data: tidy tables, in Python and as files."""

import csv
import io
import json
import re
import shutil
from pathlib import Path
from typing import get_args

import duckdb
import pandas
import polars
import pytest

import nearmetal
from nearmetal import opened_run
from nearmetal.errors import BadInput, HostCannot
from nearmetal.report import exports
from nearmetal.report.report_input import read_run_input
from nearmetal.report.tidy_tables import Name, TidyTable, find_columns, make_table
from nearmetal.store.run_folder import RunFolder
from tests import plausible_networks, plausible_run
from tests.command_line import called

DOCS = Path(__file__).parents[2] / "docs" / "data.md"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return plausible_run.make(tmp_path_factory.mktemp("run") / "one", blocks=8)


def test_a_row_stands_for_each_value(run: RunFolder) -> None:
    rows = nearmetal.open_run(run.path).trials("rows")
    records = read_run_input(run).records
    assert len(rows) == sum(max(1, len(record.responses)) for record in records)
    first = next(record for record in records if record.responses)
    (name, told) = next(iter(first.responses.items()))
    (row,) = [row for row in rows if (row["trial"], row["response"]) == (first.trial.id, name)]
    assert (row["value"], row["unit"], row["environment"]) == (
        told.value,
        told.unit,
        first.trial.treatment["environment"],
    )
    failed = [row for row in rows if row["status"] != "ok" and row["response"] is None]
    assert {row["value"] for row in failed} <= {None}


def test_trials_are_there_without_an_analysis(run: RunFolder) -> None:
    opened = nearmetal.open_run(run.path)
    assert opened.trials("rows")
    assert "analysis" not in vars(opened._read)
    assert opened.contrasts("rows")
    assert "analysis" in vars(opened._read)


def test_contrasts_are_those_of_the_report(run: RunFolder) -> None:
    rows = nearmetal.open_run(run.path).contrasts("rows")
    told = read_run_input(run).analysis.contrasts
    assert [(row["verdict"], row["estimate"]) for row in rows] == [
        (one.verdict.value, one.difference if one.ratio is None else one.ratio) for one in told
    ]


def test_frames_are_of_what_is_asked_for_or_installed(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = nearmetal.open_run(run.path)
    assert isinstance(opened.blocks(), polars.DataFrame)
    frame = opened.blocks("pandas")
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame["treatment"]) == opened.blocks("polars")["treatment"].to_list()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert isinstance(opened.blocks(), list)

    def lacking(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(opened_run, "import_module", lacking)
    with pytest.raises(HostCannot, match="pip install polars"):
        opened.blocks("polars")
    with pytest.raises(BadInput, match="choose one of: polars, pandas, rows"):
        opened.blocks("arrow")  # type: ignore[arg-type]  # no package to install: it would not help


def test_pictures_and_files_are_given_and_others_are_refused(run: RunFolder) -> None:
    opened = nearmetal.open_run(run.path)
    assert "vega-lite" in opened.chart("verdicts-ratios")["$schema"]
    with pytest.raises(BadInput, match=r"choose one of: .*verdicts"):
        opened.chart("nothing")
    with pytest.raises(BadInput, match="no trial of this run left such a file"):
        opened.artifact("../../etc/passwd")


def test_a_file_is_given_as_it_was_written_or_not_at_all(tmp_path: Path) -> None:
    folder = plausible_networks.shared(tmp_path / "run", blocks=6)
    opened = nearmetal.open_run(folder.path)
    artifact = next(artifact for record in read_run_input(folder).records for artifact in record.artifacts)
    file = folder.path / artifact.path
    assert opened.artifact(artifact.path) == file.read_bytes()
    file.write_bytes(file.read_bytes() + b" ")
    with pytest.raises(BadInput, match="nearmetal verify"):
        opened.artifact(artifact.path)


def test_a_folder_that_is_no_run_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(BadInput):
        nearmetal.open_run(tmp_path)


@pytest.mark.parametrize("name", get_args(Name))
def test_a_table_is_the_same_in_every_format(run: RunFolder, name: str, tmp_path: Path) -> None:
    table = make_table(read_run_input(run), name)  # type: ignore[arg-type]
    written = called("export", str(run.path), "--table", name).stdout
    header, *lines = csv.reader(io.StringIO(written))
    assert tuple(header) == table.columns and len(lines) == len(table.rows)
    expected = [[None if value == "" else value for value in values] for values in find_columns(table).values()]
    arrow = tmp_path / "table.arrow"
    called("export", str(run.path), "--table", name, "--format", "arrow", "-o", str(arrow))
    read_back = polars.read_ipc(arrow)
    assert read_back.columns == list(table.columns)
    assert [list(column) for column in read_back] == list(find_columns(table).values())
    file = tmp_path / "table.parquet"
    called("export", str(run.path), "--table", name, "--format", "parquet", "-o", str(file))
    frame = duckdb.read_parquet(str(file)).fetchall()
    assert len(frame) == len(table.rows)
    assert [list(column) for column in zip(*frame, strict=True)] == expected


def test_arrow_without_a_library_says_which_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "find_spec", lambda name: None)
    with pytest.raises(HostCannot) as refused:
        exports.write_arrow(TidyTable(("value",), [((), [(1,)])]))
    assert refused.value.remedy.endswith(" -m pip install pyarrow, or polars; or --format csv")


def test_columns_without_a_value_have_a_type_in_arrow() -> None:
    table = TidyTable(("nothing", "flag", "number"), [((None,), [(True, 1), (None, None)])])
    frame = polars.read_ipc(exports.write_arrow(table))
    assert frame.schema == {"nothing": polars.String, "flag": polars.Boolean, "number": polars.Int64}


def test_nothing_in_latex_is_a_command_of_somebody_elses() -> None:
    table = TidyTable(("a_b", "value"), [(('\\input{x} & 5 % #$^~<>|"',), [(float("inf"),)]), ((None,), [(1.23456,)])])
    written = exports.write_latex(table)
    body = written[written.index("\\midrule") : written.index("\\bottomrule")]
    assert r"\textbackslash{}input\{x\} \& 5 \% \#\$\textasciicircum{}\textasciitilde{}" in body
    assert "unbounded" in body and r"-- & 1.235 \\" in body and r"a\_b" in written


def test_latex_has_the_columns_that_a_paper_prints(run: RunFolder) -> None:
    written = called("export", str(run.path), "--table", "contrasts", "--format", "latex").stdout
    head = written.split("\\toprule\n")[1].split("\n")[0].removesuffix(r" \\").split(" & ")
    assert {"response", "treatment", "estimate", "low", "high", "p", "verdict"} <= set(head)
    assert len(head) <= 12 and "better" not in head and "level" not in head
    rows = written.split("\\midrule\n")[1].split("\n\\bottomrule")[0].splitlines()
    assert {row.count(" & ") for row in rows} == {len(head) - 1}


def test_a_number_in_latex_is_one_of_a_paper() -> None:
    values = (9863.0, 9999.6, 10034.4, -67108864.0, 2.535e-05, -1.5e12, 0.0)
    written = exports.write_latex(TidyTable(("value",), [((), [(one,) for one in values])]))
    rows = written.split("\\midrule\n")[1].split("\n\\bottomrule")[0].removesuffix(r" \\").split(" \\\\\n")
    assert rows == ["9863", "10000", "10034", "-67108864", r"$2.535 \times 10^{-5}$", r"$-1.5 \times 10^{12}$", "0"]


def test_what_is_the_same_in_all_rows_is_said_above_a_table_in_latex() -> None:
    table = TidyTable(("workload", "treatment", "unit", "p"), [(("web",), [("a", "", 0.5), ("b", "", 0.25)])])
    written = exports.write_latex(table)
    assert "% in all rows: workload web\n" in written and "treatment & p" in written and "unit" not in written


def test_a_spreadsheet_runs_nothing() -> None:
    table = TidyTable(("reason",), [((), [("=cmd()",)])])
    assert exports.write_csv(table) == "reason\n'=cmd()\n"


def test_levels_of_several_kinds_are_texts() -> None:
    table = TidyTable(("level", "number"), [((), [(1, 1), ("one", 2.5), (None, None)])])
    assert find_columns(table) == {"level": ["1", "one", None], "number": [1.0, 2.5, None]}


def test_the_report_writes_them_too(run: RunFolder, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run.path, copy)
    called("report", str(copy))
    for name in ("trials", "blocks"):
        assert (copy / "report" / f"{name}.csv").read_text() == called("export", str(copy), "--table", name).stdout
    assert "vega-lite" in json.loads((copy / "report" / "verdicts-ratios.vl.json").read_text())["$schema"]


@pytest.mark.parametrize("name", get_args(Name))
def test_the_docs_name_each_column(run: RunFolder, name: str) -> None:
    (chapter,) = re.findall(rf"^## {name}\n(.*?)(?=^## |\Z)", DOCS.read_text(), re.DOTALL | re.MULTILINE)
    rows = (line.split("|")[1] for line in chapter.splitlines() if line.startswith("| `"))
    told = [column for row in rows for column in re.findall(r"`(\w+)`", row)]
    factors = {factor for treatment in read_run_input(run).manifest.plan.treatments for factor in treatment}
    table = make_table(read_run_input(run), name)  # type: ignore[arg-type]
    assert told == [column for column in table.columns if column not in factors]
