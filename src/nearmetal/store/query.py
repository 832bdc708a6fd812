"""Questions in SQL to all runs at once: what their journals and manifests hold, as tables of DuckDB's.

A journal is read once. What it says is kept in the cache folder as Parquet, named after the journal's size and time, so
that a journal that has grown is read again, and a million trials are asked in less than a second.
"""

import datetime
import errno
import hashlib
import os
import re
import shutil
import tempfile
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from nearmetal.errors import BadInput, HostCannot
from nearmetal.optional_dependencies import describe_install
from nearmetal.store import journal
from nearmetal.store.manifest import Manifest
from nearmetal.store.run_folder import RunFolder
from nearmetal.system.duckdb_interrupt import run_interruptibly
from nearmetal.system.files import closing_descriptor

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection as Database
    from duckdb import DuckDBPyRelation as Relation
    from duckdb import Statement

_Answer = TypeVar("_Answer")

_ADDRESS = (
    "STRUCT(id VARCHAR, block INTEGER, attempt INTEGER, position INTEGER, repeat INTEGER,"
    " treatment MAP(VARCHAR, VARCHAR), workload VARCHAR)"
)
_RESPONSE = "STRUCT(value DOUBLE, unit VARCHAR, better VARCHAR, scale VARCHAR, censored VARCHAR, by_client DOUBLE[])"
_LINE = {
    "schema": "VARCHAR",
    "event": "JSON",
    "trial": _ADDRESS,
    "site": "VARCHAR",
    "boot": "STRUCT(id VARCHAR, how VARCHAR)",
    "status": "VARCHAR",
    "reason": "VARCHAR",
    "blame": "VARCHAR",
    "cause": "VARCHAR",
    "phases_ns": "MAP(VARCHAR, BIGINT)",
    "responses": f"MAP(VARCHAR, {_RESPONSE})",
    "observers": "JSON",
    "readback": "JSON",
    "warnings": 'STRUCT(code VARCHAR, "text" VARCHAR)[]',
}
"""Of a journal's line, what tables have, with DuckDB's types. Levels are texts, as `treatment['workers']`."""

_TRIALS = """
SELECT manifest.run, trial.id AS trial, trial.block, trial.attempt, trial.position, trial.repeat, trial.workload,
  trial.treatment['environment'] AS environment, trial.treatment, status, reason, blame, cause, site,
  boot.how AS provision, boot.id AS boot, phases_ns, list_transform(warnings, lambda one: one.code) AS warnings
FROM line, manifest"""
_RESPONSES = """
SELECT run, trial.id AS trial, trial.block, trial.attempt, trial.repeat, trial.workload,
  trial.treatment['environment'] AS environment, trial.treatment, status,
  entry.key AS response, entry.value.value, entry.value.unit, entry.value.better, entry.value.scale,
  entry.value.censored
FROM (SELECT *, unnest(map_entries(responses)) AS entry FROM line, manifest)"""
_CLIENTS = """
SELECT run, trial, block, attempt, repeat, workload, environment, treatment, status, response,
  client, by_client[client + 1] AS value, unit, better, scale
FROM (SELECT *, unnest(range(0, len(by_client))) AS client FROM (
  SELECT run, trial.id AS trial, trial.block, trial.attempt, trial.repeat, trial.workload,
    trial.treatment['environment'] AS environment, trial.treatment, status,
    entry.key AS response, entry.value.by_client, entry.value.unit, entry.value.better, entry.value.scale
  FROM (SELECT *, unnest(map_entries(responses)) AS entry FROM line, manifest)))"""
_FIGURES = """
SELECT run, trial.id AS trial, trial.block, trial.attempt, trial.repeat, trial.workload,
  trial.treatment['environment'] AS environment, trial.treatment, status,
  replace(replace(leaf.path, '$.', ''), '"', '') AS place, leaf.key AS figure,
  try_cast(leaf.atom ->> '$' AS DOUBLE) AS value, leaf.atom ->> '$' AS text
FROM line, manifest, json_tree(line.{0}) AS leaf WHERE leaf.atom IS NOT NULL"""
_TABLES = {
    "runs": "SELECT * FROM manifest",
    "trials": _TRIALS,
    "responses": _RESPONSES,
    "clients": _CLIENTS,
    "observers": _FIGURES.format("observers"),
    "readback": _FIGURES.format("readback"),
}

_UNREAD = """
SELECT count(*) FROM lines
WHERE coalesce(schema, '') NOT IN ('record.v1', 'record.v2', 'event.v1')
  OR (schema = 'event.v1' AND coalesce(json_type(event), '') <> 'VARCHAR')"""
"""Lines that are neither a trial's nor an event's (`journal.is_event`), as of a newer nearmetal, or no JSON."""

_DOUBTFUL = """
SELECT count(*) FROM line
WHERE trial.id IN (SELECT trial.id FROM line GROUP BY ALL HAVING count(*) > 1)
  OR trial.id IS NULL OR trial.block IS NULL OR trial.attempt IS NULL OR trial.position IS NULL OR trial.repeat IS NULL
  OR trial.treatment IS NULL OR trial.workload IS NULL OR site IS NULL
  OR coalesce(status, '') NOT IN ('ok', 'invalid', 'failed', 'lost') OR responses IS NULL
  OR len(list_filter(map_values(responses), lambda one: one IS NULL OR one.value IS NULL OR one.unit IS NULL
    OR NOT regexp_full_match(one.unit, '[ -~]*') OR coalesce(one.better, '') NOT IN ('higher', 'lower')
    OR coalesce(one.scale, 'ratio') NOT IN ('ratio', 'difference'))) > 0"""
"""Lines of which something that tables have is not as it should be: DuckDB reads them, with nothing in its place. And
those of a trial that has more than one, or with a unit that may hold what no unit can."""

_MANIFEST = ("run VARCHAR", "name VARCHAR", "study VARCHAR", "question VARCHAR", "created TIMESTAMP", "blocks INTEGER")
"""`run` is the folder, as in the other tables; `created` is by UTC."""

_ZONED = "TIMESTAMP WITH TIME ZONE"


@dataclass(frozen=True)
class QueryResult:
    """A result: names and types of its columns, and its rows as plain values. Moments with a time zone are texts."""

    columns: tuple[tuple[str, str], ...]
    rows: tuple[tuple[Any, ...], ...]
    total: int
    """Rows there are, of which `rows` may be the first."""


def require_duckdb() -> None:
    """HostCannot where the library is lacking."""
    try:
        import duckdb  # noqa: F401
    except ImportError:
        remedy = describe_install("duckdb")
        raise HostCannot("questions are answered by duckdb, which is not installed", remedy=remedy) from None


def answer_query(
    sql: str, runs: Sequence[Path], cache: Path, say: Callable[[str], None], most: int | None = None
) -> QueryResult:
    """The answer to a question. BadInput when it cannot be understood, with the tables and their columns if a name is
    unknown.

    A run that cannot be read is told, and left out; where that leaves none of those that were asked, its error is
    raised. Of many rows only `most` are fetched.
    """
    return _answer_by(sql, runs, cache, say, lambda database, _: _fetch_answer(database, sql, most))


def answer_as_parquet(sql: str, runs: Sequence[Path], cache: Path, say: Callable[[str], None]) -> bytes:
    """All rows of the answer to a question as a Parquet file, columns with DuckDB's types. BadInput as `answer_query`.

    Parquet has no integers above 64 bits: such a column, as of a sum, is of doubles.
    """

    def write_rows(database: "Database", file: Path) -> bytes:
        database.sql(sql).write_parquet(str(file), compression="zstd")
        return file.read_bytes()

    return _answer_by(sql, runs, cache, say, write_rows)


def _answer_by(
    sql: str,
    runs: Sequence[Path],
    cache: Path,
    say: Callable[[str], None],
    answer: Callable[["Database", Path], _Answer],
) -> _Answer:
    """What `answer` makes of a database that has the tables; it may write the one file that it is given."""
    import duckdb

    kept = cache / "query"
    kept.mkdir(parents=True, exist_ok=True)
    with (
        duckdb.connect(config=_list_settings(kept)) as database,
        _open_plain_path(kept) as same,
        tempfile.TemporaryDirectory(prefix=".answer-", dir=kept) as own,
    ):
        file = same / Path(own).name / "answer.parquet"
        try:
            kept_files = [same / one.name for one in _kept_of(runs, kept, say)]
            tables = run_interruptibly(database, lambda: _prepare(database, kept_files, file))
        except duckdb.Error as error:
            if os.strerror(errno.ENOSPC) in str(error):
                raise HostCannot("its disk is full", str(kept), "make room there") from None
            what = f"what is kept of journals cannot be read: {_in_one_line(error).replace(str(same), str(kept))}"
            raise BadInput(what, str(kept), "remove that folder: it is made again") from None
        try:
            _refuse_what_is_no_question(sql)
            database.execute("BEGIN TRANSACTION READ ONLY")  # a SELECT may hold a WITH that inserts
            return run_interruptibly(database, lambda: answer(database, file))
        except duckdb.PermissionException as error:
            raise BadInput(f"{_ALONE}: {_in_one_line(error)}", "", _BRING) from None
        except duckdb.TransactionException as error:
            raise BadInput(f"{_READS}: {_in_one_line(error)}", "", _ASK) from None
        except duckdb.Error as error:
            raise BadInput(_in_one_line(error), "", _find_remedy(error, tables)) from None
        except OverflowError as error:
            raise BadInput(
                f"a value is beyond what can be told: {error}", "", "ask for it as text, ::VARCHAR"
            ) from None


_ALONE = "a question reads what runs hold: no other file, no network, no extension"
_READS = "a question reads, and changes nothing"
_ASK = "begin with SELECT, FROM, WITH, VALUES, TABLE, PIVOT, UNPIVOT, DESCRIBE, SHOW or SUMMARIZE, or a parenthesis"
_NUMBER = re.compile(r"LINE \d+: ")
_SHOWN = 100
"""Characters of a statement that are told."""
_BRING = "write other data as VALUES; what --json prints can be written to a file, and read by another program"


def _list_settings(kept: Path) -> dict[str, str | bool | int | float | list[str]]:
    """How a database fetches nothing by itself, takes no variable of ours for a table, and puts what it has no room for
    in the cache, not where it was started."""
    return {
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "python_enable_replacements": False,
        "temp_directory": str(kept / ".spilled"),
    }


def _prepare(database: "Database", kept: Sequence[Path], file: Path) -> list[str]:
    """Make the tables and close the database to all but them and `file`. Returns each table with its columns."""
    # `created` is by UTC: what it is compared with has to be, wherever this is asked.
    database.execute("SET TimeZone = 'UTC'")
    files = _make_tables(database, kept)
    tables = [f"{name}({', '.join(database.table(name).columns)})" for name in _TABLES]
    _close(database, [*files, str(file)])
    return tables


def _close(database: "Database", files: Sequence[str]) -> None:
    """From now on nothing but these files can be reached, and no question can change that."""
    quoted = (file.replace("'", "''") for file in files)
    listed = ", ".join(f"'{file}'" for file in quoted)
    database.execute(f"SET allowed_paths = [{listed}]")
    database.execute("SET enable_external_access = false")
    database.execute("SET lock_configuration = true")


def _refuse_what_is_no_question(sql: str) -> None:
    """All but one statement that reads. What else there is could write over the files that are left to it, try another
    first, or change what is asked. BadInput, or duckdb's own errors."""
    import duckdb

    kinds = duckdb.StatementType
    words = {kinds.COPY: "COPY", kinds.EXPORT: "EXPORT", kinds.ATTACH: "ATTACH", kinds.LOAD: "INSTALL or LOAD"}
    statements = duckdb.extract_statements(sql)
    for statement in statements:
        if statement.type in words:
            raise BadInput(f"{_ALONE}; this would {words[statement.type]}", "", _BRING)
        if statement.type == kinds.SET:
            raise BadInput("a question changes no setting", _shorten_statement(statement), "leave that out")
        if not _is_reading(statement):
            raise BadInput(_READS, _shorten_statement(statement), _ASK)
    if not statements:
        raise BadInput("this asks for nothing", "", "begin with SELECT, or FROM")
    if len(statements) > 1:
        what = f"these are {len(statements)} statements, and one can be answered"
        raise BadInput(what, "", "ask one after the other, or put what one needs of another before it: WITH … AS (…)")


def _shorten_statement(statement: "Statement") -> str:
    """As much of it as tells it from others, on one line."""
    return "".join(filter(str.isprintable, textwrap.shorten(statement.query, _SHOWN, placeholder=" …")))


def _is_reading(statement: "Statement") -> bool:
    """Whether it does no more. A PIVOT becomes several statements, as does whatever has one in it: those that can stand
    in place of a table read."""
    import duckdb

    kinds = duckdb.StatementType
    if statement.type != kinds.MULTI:
        return bool(statement.type == kinds.SELECT)
    try:
        duckdb.extract_statements(f"FROM ({statement.query.strip().rstrip(';')}\n)")
    except duckdb.ParserException:
        return False
    return True


def _fetch_answer(database: "Database", sql: str, most: int | None) -> QueryResult:
    asked = database.sql(sql)
    columns = tuple(zip(asked.columns, map(str, asked.types), strict=True))
    rows = _fetch_rows(asked, None if most is None else most + 1)
    is_cut = most is not None and len(rows) > most
    total = asked.aggregate("count(*)").fetchall()[0][0] if is_cut else len(rows)
    return QueryResult(columns, rows[:most], total)


def _fetch_rows(asked: "Relation", most: int | None) -> tuple[tuple[Any, ...], ...]:
    """Moments with a time zone as texts: DuckDB hands them over by a library, pytz, that it does not bring."""
    if any(_ZONED in str(kind) for kind in asked.types):
        places = enumerate(map(str, asked.types), start=1)
        asked = asked.project(
            ", ".join(f"#{place}::VARCHAR" if _ZONED in kind else f"#{place}" for place, kind in places)
        )
    return tuple((asked if most is None else asked.limit(most)).fetchall())


def _in_one_line(error: Exception) -> str:
    """Lines of a question are quoted without their numbers, which count what we put around it."""
    lines = (_NUMBER.sub("in: ", line.strip()) for line in str(error).splitlines() if "^" not in line)
    return " ".join(filter(None, lines))


def _find_remedy(error: Exception, tables: Sequence[str]) -> str:
    """The tables with their columns, if a table or a column is unknown."""
    if re.search(r"(column|table) .*(not found|does not exist)", str(error), re.IGNORECASE):
        return "\n    ".join(["the tables are:", *tables])
    return "write SQL, as in SELECT * FROM runs; `nearmetal query` alone lists tables and columns"


@contextmanager
def _open_plain_path(path: Path) -> Iterator[Path]:
    """A path to the file or folder in which DuckDB takes nothing for a pattern. OSError.

    Of a name with `*`, `?` or `[` it would read whatever matches.
    """
    with closing_descriptor(os.open(path, os.O_RDONLY | os.O_CLOEXEC)) as descriptor:
        yield Path(f"/proc/self/fd/{descriptor}")


def _make_tables(database: "Database", kept: Sequence[Path]) -> list[str]:
    """The files that they are read from."""
    read: list[str] = []
    if not kept:
        _let_in(database, "", None)
    for name, select in _TABLES.items():
        if kept:
            files = [str(one / f"{name}.parquet") for one in kept]
            database.read_parquet(files, union_by_name=True).create_view(name)
            read += files
        else:
            database.execute(f"CREATE TABLE {name} AS {select}")
    if not kept:
        database.execute("DROP TABLE line; DROP TABLE manifest")
    return read


def _kept_of(runs: Sequence[Path], folder: Path, say: Callable[[str], None]) -> list[Path]:
    kept: list[Path] = []
    unread: list[BadInput | OSError] = []
    for path in runs:
        try:
            kept.append(_convert_if_stale(RunFolder.open(path), folder, say))
        except (BadInput, OSError) as error:
            unread.append(error)
    if unread and not kept:  # no rows would pass for an answer
        raise unread[0]
    for one in unread:
        why = f"{one.filename}: {one.strerror}" if isinstance(one, OSError) else f"{one.where}: {one.what}"
        say(f"left out: {why}")
    return kept


def _convert_if_stale(run: RunFolder, folder: Path, say: Callable[[str], None]) -> Path:
    """The folder with a run's tables, made if they are not there as its journal is now."""
    place = str(run.path.resolve())
    try:
        key = hashlib.sha256(place.encode()).hexdigest()[:16]
    except UnicodeEncodeError:
        raise BadInput(
            "this path is not UTF-8, and duckdb takes no other", place, "give the folder another name"
        ) from None
    try:
        status = run.journal.stat()
    except FileNotFoundError:
        run.read_manifest()  # refuses one of which there was more
        raise BadInput("nothing is recorded of this run yet", place, "ask again when it has measured") from None
    kept = folder / f"{key}-{status.st_size}-{status.st_mtime_ns}-{_shape()}"
    if not all((kept / f"{name}.parquet").exists() for name in _TABLES):
        say(f"reading {run.path.name}")
        unfinished = folder / f".{kept.name}.{os.getpid()}"
        unfinished.mkdir()
        try:
            _convert_journal(run, place, unfinished)
            shutil.rmtree(kept, ignore_errors=True)
            unfinished.replace(kept)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
        for old in folder.glob(f"{key}-*"):
            if old != kept:
                shutil.rmtree(old, ignore_errors=True)
    return kept


def _shape() -> str:
    """Tables of another version of nearmetal are not taken for these."""
    return hashlib.sha256(repr((_LINE, _MANIFEST, _TABLES, _UNREAD, _DOUBTFUL)).encode()).hexdigest()[:8]


def _convert_journal(run: RunFolder, place: str, to: Path) -> None:
    import duckdb

    manifest = run.read_manifest()  # refuses a journal that is no file, before it is opened
    with duckdb.connect() as database, _open_plain_path(run.journal) as file:
        run_interruptibly(database, lambda: _write_tables(database, file, run, manifest, place, to))


def _write_tables(database: "Database", file: Path, run: RunFolder, manifest: Manifest, place: str, to: Path) -> None:
    created = datetime.datetime.fromisoformat(manifest.created).astimezone(datetime.UTC).replace(tzinfo=None)
    study = manifest.study
    lines = database.read_json(
        str(file), columns=_LINE, format="newline_delimited", ignore_errors=True, maximum_object_size=2**28
    )
    lines.create_view("lines")
    unread = database.sql(_UNREAD).fetchall()[0][0]
    row = [place, run.path.name, study.name, study.question, created, manifest.plan.blocks]
    _let_in(database, "SELECT * FROM lines WHERE schema IN ('record.v1', 'record.v2')", row)
    if unread or database.sql(_DOUBTFUL).fetchall()[0][0] or journal.is_changed(run.journal):
        # A torn last line never counted. If it was another one, the journal's own reader says which, and why.
        for _ in journal.read_records(run.journal):
            pass
    for name, select in _TABLES.items():
        database.sql(select).write_parquet(str(to / f"{name}.parquet"), compression="zstd")


def _let_in(database: "Database", lines: str, row: list[object] | None) -> None:
    """What tables are made of: trials' lines of a journal, and one row of its manifest."""
    columns = ", ".join(f'"{column}" {kind}' for column, kind in _LINE.items())
    database.execute(f"CREATE TABLE line ({columns})")
    database.execute(f"CREATE TABLE manifest ({', '.join(_MANIFEST)})")
    if row is not None:
        database.execute(f"INSERT INTO line {lines}")
        database.execute(f"INSERT INTO manifest VALUES ({', '.join('?' * len(row))})", row)
