"""The manual of `query` names each word that a question may begin with, and says what the columns are."""

import re
from pathlib import Path

import pytest

from nearmetal.errors import BadInput
from nearmetal.store import query

ROOT = Path(__file__).parents[2]
MANUAL = " ".join((ROOT / "docs" / "query.md").read_text().split())
GOLDEN = ROOT / "tests" / "golden" / "run"
QUESTIONS = {
    "SELECT": "SELECT 1",
    "FROM": "FROM runs",
    "WITH": "WITH t AS (FROM runs) FROM t",
    "VALUES": "VALUES (1)",
    "TABLE": "TABLE runs",
    "PIVOT": "PIVOT trials ON status",
    "UNPIVOT": "UNPIVOT (SELECT 1 AS a, 2 AS b) ON a, b",
    "DESCRIBE": "DESCRIBE runs",
    "SHOW": "SHOW TABLES",
    "SUMMARIZE": "SUMMARIZE runs",
}


def test_each_beginning_is_named() -> None:
    told = MANUAL.split("it begins with", 1)[1].split(". ", 1)[0]
    assert set(re.findall(r"`([A-Z]+)`", told)) == QUESTIONS.keys()
    assert "parenthesis" in told


def test_each_beginning_is_told_to_whoever_began_otherwise(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as refused:
        query.answer_query("DROP VIEW runs", (GOLDEN,), tmp_path, lambda text: None)
    told = refused.value.remedy or ""
    assert set(re.findall(r"[A-Z]+", told)) == QUESTIONS.keys()
    assert "parenthesis" in told


@pytest.mark.parametrize("question", [*QUESTIONS.values(), "(FROM runs)"])
def test_a_question_may_begin_so(question: str, tmp_path: Path) -> None:
    assert list(query.answer_query(question, (GOLDEN,), tmp_path, lambda text: None).rows)


@pytest.mark.parametrize("column", ["position", "attempt", "repeat", "site"])
def test_what_a_column_is_stands_below_the_table(column: str) -> None:
    assert re.search(rf"`{column}`:? ", MANUAL.split("`censored` |", 1)[1])
