"""Questions in SQL to runs: what the tables hold, what is kept for the next time, and what cannot be read."""

import csv
import io
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from nearmetal.commands import compare_output
from nearmetal.commands import runs as runs_commands
from nearmetal.commands.query import query_runs
from nearmetal.errors import BadInput, HostCannot
from nearmetal.store import query
from tests import journals
from tests.command_line import call
from tests.waiting import wait_until

GOLDEN = Path(__file__).parents[1] / "golden" / "run"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return Path(shutil.copytree(GOLDEN, tmp_path / "run's"))


class Asking:
    """Asks, and keeps what was said beside."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.said: list[str] = []

    def __call__(self, sql: str, *runs: Path) -> list[tuple[object, ...]]:
        return list(query.answer_query(sql, runs, self.home, self.said.append).rows)


@pytest.fixture
def ask(tmp_path: Path) -> Asking:
    return Asking(tmp_path / "cache")


@pytest.fixture(scope="module")
def same_ask(tmp_path_factory: pytest.TempPathFactory) -> Asking:
    """Asks GOLDEN, which no test changes: its tables, which take most of the time, are made once."""
    return Asking(tmp_path_factory.mktemp("cache"))


def records(run: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines()]
    return [line for line in lines if line["schema"].startswith("record.")]


def test_every_trial_and_every_response_is_there(run: Path, ask: Asking) -> None:
    found = records(run)
    assert ask("SELECT count(*), count(DISTINCT trial) FROM trials", run) == [(len(found), len(found))]
    responses = sum(len(record["responses"]) for record in found)
    assert ask("SELECT count(*) FROM responses", run) == [(responses,)]
    values = sorted(record["responses"]["throughput"]["value"] for record in found)
    told = ask("SELECT value FROM responses WHERE response = 'throughput' ORDER BY value", run)
    assert [value for (value,) in told] == values


def test_each_client_has_a_row_of_its_own(run: Path, ask: Asking) -> None:
    with journals.changed(run / "journal.jsonl") as told:
        for record in told:
            if "throughput" in record.get("responses", {}):
                record["responses"]["throughput"]["by_client"] = [1.5, 2.5, 4.0]
    trials = ask("SELECT count(*) FROM responses WHERE response = 'throughput'", run)[0][0]
    assert ask("SELECT client, value, unit, count(*) FROM clients GROUP BY ALL ORDER BY 1", run) == [
        (0, 1.5, "1/s", trials),
        (1, 2.5, "1/s", trials),
        (2, 4.0, "1/s", trials),
    ]


def test_what_observers_and_readbacks_hold_are_rows(run: Path, ask: Asking) -> None:
    with journals.changed(run / "journal.jsonl") as told:
        for record in told:
            record["observers"] = {"usage": {"client-0": {"cpu.all.usr": 12.5, "steal": "untold"}}}
            record["readback"] = {"offload": {"server": {"tso": True, "gro": False}}}
    trials = ask("SELECT count(*) FROM trials", run)[0][0]
    found = ask("SELECT place, figure, value, text, count(*) FROM observers GROUP BY ALL ORDER BY 2", run)
    assert found == [
        ("usage.client-0", "cpu.all.usr", 12.5, "12.5", trials),
        ("usage.client-0", "steal", None, "untold", trials),
    ]
    assert ask("SELECT DISTINCT place, figure, text FROM readback ORDER BY 2", run) == [
        ("offload.server", "gro", "false"),
        ("offload.server", "tso", "true"),
    ]


def test_tables_join_by_run_and_levels_are_texts(run: Path, ask: Asking) -> None:
    rows = ask(
        "SELECT name, environment, treatment['environment'], block, provision FROM trials JOIN runs USING (run)"
        " ORDER BY block, environment LIMIT 2",
        run,
    )
    assert rows == [("run's", "base", "base", 0, "boot"), ("run's", "slow", "slow", 0, "boot")]
    study, blocks, year = ask("SELECT study, blocks, year(created) FROM runs", run)[0]
    assert (study, blocks) == ("golden", 8) and int(str(year)) >= 2025


def test_a_journal_is_read_once_and_again_when_it_has_grown(run: Path, ask: Asking) -> None:
    before = ask("SELECT count(*) FROM trials", run)
    assert ask("SELECT count(*) FROM trials", run) == before
    assert ask.said == ["reading run's"]
    journal = run / "journal.jsonl"
    more = records(run)[0]
    more["trial"]["id"] += "0"
    journal.write_text(journal.read_text() + json.dumps(more) + "\n")
    assert ask("SELECT count(*) FROM trials", run) != before
    assert ask.said == ["reading run's"] * 2
    assert len(list((ask.home / "query").iterdir())) == 1, "what was kept of the shorter one is still there"


def test_what_is_kept_and_not_whole_is_made_again(run: Path, ask: Asking) -> None:
    before = ask("SELECT count(*) FROM runs", run)
    (kept,) = (ask.home / "query").iterdir()
    (kept / "runs.parquet").unlink()
    assert ask("SELECT count(*) FROM runs", run) == before
    (kept / "runs.parquet").write_bytes(b"rubbish")
    with pytest.raises(BadInput, match="what is kept of journals cannot be read") as refused:
        ask("SELECT count(*) FROM runs", run)
    assert "remove that folder" in (refused.value.remedy or "")


def test_a_disk_that_is_full_is_called_so(run: Path, ask: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise duckdb.IOException('Could not write to file "x": No space left on device')

    monkeypatch.setattr(query, "_convert_journal", full)
    with pytest.raises(HostCannot, match="its disk is full"):
        ask("FROM runs", run)
    assert not list((ask.home / "query").iterdir())


def test_a_torn_last_line_never_counted(run: Path, ask: Asking) -> None:
    journal = run / "journal.jsonl"
    journal.write_bytes(journal.read_bytes() + b'{"schema": "record.v1", "trial": {"id"')
    assert ask("SELECT count(*) FROM trials", run) == [(len(records(GOLDEN)),)]


def test_a_run_that_cannot_be_read_is_told_and_left_out(run: Path, ask: Asking, tmp_path: Path) -> None:
    damaged = Path(shutil.copytree(GOLDEN, tmp_path / "damaged"))
    lines = (damaged / "journal.jsonl").read_bytes().splitlines(keepends=True)
    (damaged / "journal.jsonl").write_bytes(b"".join([*lines[:3], b"rubbish\n", *lines[3:]]))
    without = Path(shutil.copytree(GOLDEN, tmp_path / "without"))
    (without / "manifest.json").unlink()
    gone = tmp_path / "gone"
    assert ask("SELECT count(DISTINCT run) FROM trials", run, damaged, without, gone) == [(1,)]
    told = "\n".join(ask.said)
    assert "line 4 cannot be read: it is not JSON" in told
    assert told.count("left out: ") == 3
    assert not [path for path in (ask.home / "query").iterdir() if path.name.startswith(".")]


def test_where_none_of_the_runs_can_be_read_there_is_an_error_and_no_answer(ask: Asking, tmp_path: Path) -> None:
    """No rows would pass for an answer."""
    damaged = Path(shutil.copytree(GOLDEN, tmp_path / "damaged"))
    with (damaged / "journal.jsonl").open("ab") as journal:
        journal.write(b"rubbish\n")
    without = Path(shutil.copytree(GOLDEN, tmp_path / "without"))
    (without / "manifest.json").unlink()
    with pytest.raises(BadInput, match="cannot be read: it is not JSON") as refused:
        ask("FROM trials", damaged, without)
    assert refused.value.where == str(damaged / "journal.jsonl") and refused.value.remedy
    assert ask("SELECT count(*) FROM trials") == [(0,)]


@pytest.mark.parametrize("file", ["journal.jsonl", "manifest.json"])
def test_a_run_of_which_a_file_is_gone_is_refused_with_the_words_of_show(file: str, run: Path, ask: Asking) -> None:
    assert ask("SELECT count(*) FROM runs", run) == [(1,)]  # and what is kept of it is not taken for the run
    (run / file).unlink()
    with pytest.raises(BadInput) as shown:
        call(runs_commands.show, run=run, as_json=False)
    with pytest.raises(BadInput) as refused:
        ask("FROM runs", run)
    assert str(refused.value) == str(shown.value)
    assert "is missing" in str(shown.value)


def test_a_run_of_which_nothing_is_recorded_yet_is_left_out(run: Path, ask: Asking) -> None:
    (run / "journal.jsonl").unlink()
    manifest = json.loads((run / "manifest.json").read_text())
    (run / "manifest.json").write_text(json.dumps({**manifest, "fairness": []}))
    with pytest.raises(BadInput, match="nothing is recorded of this run yet"):
        ask("FROM runs", run)


def test_a_run_whose_path_is_no_text_is_told_and_left_out(run: Path, ask: Asking, tmp_path: Path) -> None:
    odd = shutil.copytree(GOLDEN, tmp_path / "odd\udcff")
    assert ask("SELECT name FROM runs", run, odd) == [(run.name,)]
    assert "odd\udcff: this path is not UTF-8" in ask.said[-1]


@pytest.mark.parametrize(
    ("name", "beside"),
    [
        ("run[1]", "run1"),
        pytest.param("a*b", "axb", marks=pytest.mark.long),
        pytest.param("q?z", "qyz", marks=pytest.mark.long),
        (r"b\[1]", "b[1]"),
    ],
)
def test_a_folders_name_is_no_pattern(name: str, beside: str, ask: Asking, tmp_path: Path) -> None:
    """Neither a run's, which gave the figures of the one beside it, nor that of what is kept."""
    run, other = tmp_path / "runs" / name, tmp_path / "runs" / beside
    for one in (run, other):
        shutil.copytree(GOLDEN, one)
    changed(run, lambda line: line.update(reason="here"))
    for home in (tmp_path / beside, tmp_path / name):
        ask.home = home
        assert ask("SELECT count(*) FROM trials WHERE reason = 'here'", run) == [(1,)]
        assert ask("SELECT count(*) FROM runs", run) == [(1,)]


def test_without_any_run_the_tables_are_there_and_empty(ask: Asking, run: Path) -> None:
    empty = query.answer_query("SELECT * FROM responses", [], ask.home, ask.said.append)
    full = query.answer_query("SELECT * FROM responses LIMIT 1", [run], ask.home, ask.said.append)
    assert (empty.rows, empty.columns) == ((), full.columns)
    assert ask("SELECT count(*) FROM runs") == [(0,)]


@pytest.mark.parametrize("sql", ["selec", "SELECT nothing FROM trials", "SELECT * FROM trial", "", "SELECT 1/"])
def test_what_cannot_be_answered_is_told_with_what_could(sql: str, same_ask: Asking) -> None:
    with pytest.raises(BadInput) as refused:
        same_ask(sql, GOLDEN)
    assert "trials(run, trial, block" in (refused.value.remedy or "") or "SELECT" in (refused.value.remedy or "")
    assert "\n" not in refused.value.what


def test_no_line_is_named_that_the_question_does_not_have(same_ask: Asking) -> None:
    with pytest.raises(BadInput, match="Could not convert string 'a'") as refused:
        query.answer_query("SELECT cast('a' AS int)", [GOLDEN], same_ask.home, same_ask.said.append, most=100)
    assert "SELECT cast('a' AS int)" in refused.value.what and "LINE" not in refused.value.what


def test_the_command(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NEARMETAL_HOME", str(tmp_path / "home"))
    query_runs("SELECT block, treatment, warnings, created FROM trials JOIN runs USING (run)", [run], "json")
    told = json.loads(capsys.readouterr().out)
    assert told["schema"] == "query.v1"
    assert [column["name"] for column in told["columns"]] == ["block", "treatment", "warnings", "created"]
    assert told["rows"][0][1] in ({"environment": "base"}, {"environment": "slow"})
    query_runs(None, [run], "text")
    assert "responses  value" in capsys.readouterr().out
    query_runs("SELECT i FROM range(150) r(i)", [run], "text")
    out = capsys.readouterr().out
    assert "and 50 more rows: a LIMIT shows fewer" in out
    query_runs("SELECT count(*) AS n FROM trials", [], "text")
    assert capsys.readouterr().out.split() == ["n", "0"]


def test_a_spreadsheet_gets_all_rows_and_no_formula(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    query_runs(
        "SELECT i, '=1+1' AS \"=name\", NULL AS gone, i = 1 AS one, [i, 2] AS both FROM range(150) r(i)", [run], "csv"
    )
    head, *rows = csv.reader(io.StringIO(capsys.readouterr().out))
    assert head == ["i", "'=name", "gone", "one", "both"]
    assert len(rows) == 150
    assert rows[1] == ["1", "'=1+1", "", "true", "[1, 2]"]


@pytest.mark.usefixtures("home")
def test_parquet_has_all_rows_and_the_columns_types(run: Path, tmp_path: Path) -> None:
    sql = "SELECT i, treatment, sum(i) OVER () AS total FROM trials, range(150) r(i) WHERE block = 0"
    ended = subprocess.run(
        [sys.executable, "-m", "nearmetal", "query", "--run", str(run), "--format", "parquet", sql],
        capture_output=True,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
    file = tmp_path / "answer.parquet"
    file.write_bytes(ended.stdout)
    told = duckdb.read_parquet(str(file))
    assert list(map(str, told.types)) == ["BIGINT", "MAP(VARCHAR, VARCHAR)", "DOUBLE"]
    trials = sum(record["trial"]["block"] == 0 for record in records(run))
    assert len(told.fetchall()) == 150 * trials
    assert not list((tmp_path / "home" / "cache" / "query").glob(".answer*"))


def as_json(sql: str, run: Path, capsys: pytest.CaptureFixture[str]) -> list[Any]:
    query_runs(sql, [run], "json")
    rows = json.loads(capsys.readouterr().out, parse_constant=lambda text: pytest.fail(f"{text} is not JSON"))["rows"]
    assert len(rows) == 1
    return list(rows[0])


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEARMETAL_HOME", str(tmp_path / "home"))


@pytest.mark.usefixtures("home")
def test_moments_are_by_utc_wherever_it_is_asked(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And with a time zone they need no library that DuckDB does not bring."""
    monkeypatch.setenv("TZ", "America/Los_Angeles")
    moment = "TIMESTAMPTZ '2026-01-01 00:00:00+02'"
    row = as_json(
        f"SELECT {moment}, [{moment}], {moment} = TIMESTAMP '2025-12-31 22:00:00', 1 AS a, 2 AS a", run, capsys
    )
    assert row == ["2025-12-31 22:00:00+00", "['2025-12-31 22:00:00+00']", True, 1, 2]


@pytest.mark.usefixtures("home")
def test_scripts_get_json_that_any_reader_reads(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = as_json("SELECT 'inf'::DOUBLE, [-'inf'::DOUBLE], 'nan'::DOUBLE, 1.5, NULL, true", run, capsys)
    assert row == [None, [None], None, 1.5, None, True]


@pytest.mark.usefixtures("home")
def test_of_many_rows_people_get_the_first(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without all of them in memory."""
    query_runs("SELECT i FROM range(20_000_000_000) r(i) LIMIT 300_000_000", [run], "text")
    assert "and 299,999,900 more rows" in capsys.readouterr().out
    query_runs("SELECT i FROM range(100) r(i)", [run], "text")
    assert "more row" not in capsys.readouterr().out


@pytest.mark.parametrize("sql", ["FROM nothing", "", "SELECT INTERVAL 10000000 YEARS"])
def test_what_cannot_be_told_is_refused(sql: str, same_ask: Asking) -> None:
    with pytest.raises(BadInput) as refused:
        same_ask(sql, GOLDEN)
    assert refused.value.remedy


# ── It reaches for nothing else ───────────────────────────────────────────────────────────────────────────────────────


Refuses = Callable[[str, str], None]


@pytest.fixture
def refuses(same_ask: Asking, tmp_path: Path) -> Refuses:
    """A question, and what is said of it. What is there, and what is kept of runs, is left as it was."""
    there = tmp_path / "there"
    there.mkdir()
    (there / "some.csv").write_text("a\n1\n")

    def check(sql: str, said: str) -> None:
        if not (same_ask.home / "query").exists():
            assert same_ask("SELECT count(*) FROM runs", GOLDEN) == [(1,)]
        (kept,) = (same_ask.home / "query").iterdir()
        before = {file: file.read_bytes() for file in kept.iterdir()}
        with pytest.raises(BadInput, match=said) as refused:
            same_ask(sql.format(there=there, kept=kept), GOLDEN)
        assert refused.value.remedy and "\n" not in refused.value.what
        assert [file.name for file in there.iterdir()] == ["some.csv"]
        assert {file: file.read_bytes() for file in kept.iterdir()} == before

    return check


@pytest.mark.parametrize(
    "sql",
    [
        "INSTALL httpfs",
        "FORCE INSTALL httpfs FROM community",
        "LOAD httpfs",
        "LOAD '{there}'",
        "COPY trials TO '{there}/new.csv'",
        "COPY (FROM runs) TO '{kept}/runs.parquet' (FORMAT parquet, USE_TMP_FILE false)",
        "EXPORT DATABASE '{there}/exported'",
        "ATTACH '{there}/new.db'",
        "FROM '{there}/some.csv'",
        "FROM read_csv('{there}/some.csv')",
        "FROM read_text('/etc/hostname')",
        "FROM glob('/etc/*')",
        "FROM '{there}/*.csv'",
        "FROM 'http://127.0.0.1:1/x.csv'",
        "FROM read_parquet('s3://bucket/x.parquet')",
        "COPY runs FROM '{there}/some.csv'",
        "SELECT 1; COPY runs TO '{there}/new.csv'",
    ],
)
def test_other_files_and_networks_are_refused(sql: str, refuses: Refuses) -> None:
    refuses(sql, "a question reads what runs hold: no other file, no network")


@pytest.mark.parametrize(
    "sql",
    [
        "IMPORT DATABASE '{there}'",
        "CREATE PERSISTENT SECRET s (TYPE http)",
        "CREATE TABLE t AS FROM runs",
        "CREATE TABLE t AS PIVOT trials ON status",
        "DROP VIEW runs; FROM runs",
        "CREATE OR REPLACE VIEW runs AS SELECT 1; FROM runs",
        "BEGIN; FROM runs",
        "PREPARE asked AS FROM runs",
        # These two wrote over what is kept of journals.
        "EXPLAIN ANALYZE COPY (FROM runs) TO '{kept}/runs.parquet' (FORMAT parquet, USE_TMP_FILE false)",
        "COPY (PIVOT trials ON status) TO '{kept}/runs.parquet' (FORMAT parquet, USE_TMP_FILE false)",
    ],
)
def test_what_does_not_read_is_refused(sql: str, refuses: Refuses) -> None:
    refuses(sql, "a question reads, and changes nothing")


@pytest.mark.parametrize("sql", ["SELECT 1; SELECT 2", "FROM runs; PIVOT trials ON status", "SELECT 1;;SELECT 2;"])
def test_one_statement_is_answered_and_no_more(sql: str, refuses: Refuses) -> None:
    refuses(sql, "these are 2 statements, and one can be answered")


def test_a_question_that_inserts_is_refused(ask: Asking) -> None:
    """Where there is no run the tables are no views, and would take it."""
    with pytest.raises(BadInput, match="a question reads, and changes nothing") as refused:
        ask("WITH new AS (INSERT INTO runs (run) VALUES ('x') RETURNING run) FROM new")
    assert refused.value.remedy


@pytest.mark.parametrize(
    "sql",
    [
        "SET enable_external_access = true",
        "SET lock_configuration = false",
        "SET log_query_path = '{there}'",
        "PRAGMA profiling_output = '{there}'",
        "RESET temp_directory",
        "SET temp_directory = '{there}'; FROM runs",
    ],
)
def test_no_setting_opens_it(sql: str, same_ask: Asking, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="a question changes no setting"):
        same_ask(sql.format(there=tmp_path / "there"), GOLDEN)
    assert not (tmp_path / "there").exists()


def test_what_needs_nothing_else_is_answered(same_ask: Asking) -> None:
    assert same_ask("WITH t AS (FROM runs) SELECT count(*) FROM t;", GOLDEN) == [(1,)]
    assert same_ask("SELECT a FROM (VALUES (1), (2)) AS given(a) ORDER BY a", GOLDEN) == [(1,), (2,)]
    for sql in ("SUMMARIZE trials", "DESCRIBE runs", "SHOW TABLES"):
        assert same_ask(sql, GOLDEN), sql
    assert same_ask("SELECT ';' -- and no more; really", GOLDEN) == [(";",)]
    pivot = "PIVOT trials ON status USING count(*) GROUP BY block ORDER BY block"
    assert same_ask(f"{pivot};", GOLDEN) == same_ask(f"FROM ({pivot})", GOLDEN)
    assert same_ask("FROM range(2)") == [(0,), (1,)]


def test_variables_of_the_program_are_no_tables(same_ask: Asking) -> None:
    with pytest.raises(BadInput, match="Table with name kept does not exist"):
        same_ask("FROM kept", GOLDEN)


def test_what_memory_has_no_room_for_is_put_in_the_cache(
    run: Path, ask: Asking, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (told,) = ask("SELECT value FROM duckdb_settings() WHERE name = 'temp_directory'", run)
    assert told == (str(ask.home / "query" / ".spilled"),)
    assert not (tmp_path / ".tmp").exists()


# ── Lines that are not as they should be ──────────────────────────────────────────────────────────────────────────────


def changed(run: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """The first record of a journal is another."""
    journal = run / "journal.jsonl"
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    change(next(line for line in lines if line["schema"].startswith("record.")))
    journal.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return run


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            lambda line: line["responses"]["throughput"].update(value=None),
            "`responses.throughput.value` cannot be null",
        ),
        (lambda line: line["responses"]["throughput"].update(value="fast"), "`responses.throughput.value` cannot be"),
        (lambda line: line["responses"]["throughput"].pop("value"), "`responses.throughput.value` is missing"),
        (lambda line: line["responses"]["throughput"].update(unit=None), "`responses.throughput.unit` cannot be null"),
        (lambda line: line["responses"]["throughput"].update(unit="\x1b"), r"`responses.throughput.unit` cannot be '"),
        (lambda line: line["responses"]["throughput"].update(better="up"), "`responses.throughput.better` cannot be"),
        (lambda line: line["responses"].update(throughput=None), "`responses.throughput` cannot be null"),
        (lambda line: line.update(responses=None), "`responses` cannot be null"),
        (lambda line: line["trial"].update(block="first"), "`trial.block` cannot be 'first'"),
        (lambda line: line.update(status="fine"), "`status` cannot be 'fine'"),
    ],
)
def test_what_a_comparison_would_refuse_is_left_out_for_the_same_reason(
    change: Callable[[dict[str, Any]], object], told: str, run: Path, ask: Asking, tmp_path: Path
) -> None:
    sound = Path(shutil.copytree(GOLDEN, tmp_path / "sound"))
    changed(run, change)
    assert ask("SELECT count(DISTINCT run) FROM trials", run, sound) == [(1,)]
    assert told in ask.said[-1] and "line " in ask.said[-1]
    with pytest.raises(BadInput) as refused:
        compare_output.compare_runs([GOLDEN], [run])
    assert ask.said[-1] == f"left out: {refused.value.where}: {refused.value.what}"


@pytest.mark.parametrize(("value", "count"), [("nan", 1), ("inf", 1), ("-inf", 1), ("1.5", 0)])
def test_a_value_that_is_not_finite_is_there(value: str, count: int, run: Path, ask: Asking) -> None:
    changed(run, lambda line: line["responses"]["throughput"].update(value=float(value)))
    assert ask("SELECT count(*) FROM responses WHERE response = 'throughput' AND NOT isfinite(value)", run) == [
        (count,)
    ]
    assert ask("SELECT count(*) FROM trials", run) == [(len(records(GOLDEN)),)]


@pytest.mark.usefixtures("home")
def test_names_of_runs_do_not_steer_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a\x1b[31m\u202e'\"b", "c\x1b[31m"):
        shutil.copytree(GOLDEN, tmp_path / name)
    (tmp_path / "c\x1b[31m" / "manifest.json").write_text("[]")
    query_runs("SELECT run, name, true AS so FROM runs", [tmp_path], "text")
    told = capsys.readouterr()
    assert "left out" in told.err and "true" in told.out
    assert not any(mark in told.out + told.err for mark in ("\x1b", "\u202e"))


def test_a_question_that_takes_long_is_ended_by_ctrl_c(run: Path) -> None:
    sql = "SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE a.range * b.range % 7 = 3"
    # On one CPU: the question takes as many as there are.
    command = ["taskset", "-c", str(min(os.sched_getaffinity(0))), sys.executable, "-m", "nearmetal", "query", sql]
    asked = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        # Not while it imports: there Ctrl-C ends Python by the signal.
        wait_until(lambda: "duckdb" in Path(f"/proc/{asked.pid}/maps").read_text(), 60)
        with pytest.raises(subprocess.TimeoutExpired):
            asked.wait(2)
        asked.send_signal(signal.SIGINT)
        _, said = asked.communicate(timeout=30)
    finally:
        asked.kill()
    assert (asked.returncode, said.strip()) == (4, "nearmetal: interrupted")


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("repeat('x', 10_000_000)", "(10,000,000 characters)"),
        ("repeat('x', 10_000_000)::BLOB", "xxx"),
        ("range(1_000_000)", "of 1,000,000 entries"),
        ("{'a': repeat('x', 10_000_000)}", "characters)"),
    ],
)
def test_of_a_long_value_people_get_the_begin(
    value: str, told: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Laid out whole it would take minutes, and no terminal shows it."""
    query_runs(f"SELECT {value} AS long", [run], "text")
    said = capsys.readouterr().out
    assert len(said) < 20_000
    assert told in " ".join(said.split())


@pytest.mark.parametrize("sql", ["SELECT nothing FROM runs", "SELECT * FROM nothing"])
def test_an_unknown_name_is_answered_with_the_tables_and_bad_sql_is_not(sql: str, tmp_path: Path) -> None:
    def ask(sql: str) -> BadInput:
        with pytest.raises(BadInput) as refused:
            query.answer_query(sql, [], tmp_path, print)
        return refused.value

    assert "runs(run, name" in ask(sql).remedy
    for wrong in ("SELECT FROM WHERE", "SELECT 1 +", "SELECT 'a'::INTEGER"):
        assert "runs(run" not in ask(wrong).remedy and "nearmetal query" in ask(wrong).remedy
