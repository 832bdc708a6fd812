"""Hundreds of bad study files by a generator: each is a study or one error that names the place and the remedy."""

import copy
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nearmetal import studies
from nearmetal.errors import BadInput
from nearmetal.model import Study
from nearmetal.planning import plan
from nearmetal.run.estimate import estimate_plan
from nearmetal.study import factors, study_file
from nearmetal.study.error_messages import MOST_TRIALS
from tests.unit.study_text import GOOD

NESTED = tomllib.loads(GOOD)
QUICKSTART = tomllib.loads(studies.read_study_file("quickstart"))
PLACE = re.compile(r"s\.toml(:[0-9]+|, --set .*)", re.DOTALL)

THOROUGH = settings(suppress_health_check=list(HealthCheck))


def answered(text: str, *overrides: str) -> Study | None:
    """Read it, and hold what is promised. A study that was read can also be planned and estimated."""
    try:
        found = study_file.read(text, "s.toml", overrides)
    except BadInput as error:
        if not error.where and overrides:
            raise
        assert PLACE.fullmatch(error.where), error.where
        assert error.what and error.remedy
        assert "\n" not in error.where + error.what + error.remedy
        assert all(character.isprintable() for character in error.what + error.remedy), error.what
        assert len(str(error)) < 3000
        return None
    assert factors.number_of_treatments(found, MOST_TRIALS) <= MOST_TRIALS
    if (
        factors.number_of_treatments(found, 200) <= 200
        and found.design.most_blocks <= 50
        and found.design.repeats <= 50
    ):
        made = plan.make_plan(found)
        assert made.treatments
        assert estimate_plan(made) > 0
        assert Study.from_json(json.loads(found.model_dump_json())) == found
    return found


# ── Mutations of studies that are right ───────────────────────────────────────────────────────────────────────────

WORDS = [
    *("", "1B", "-1%", "0s", "9" * 400 + "s", "1e9", "512", "0-99999999999", "*" * 5000),
    *("{nic}", "{environment}", "{", "${x}", "%s%n", "host", "qemu", "-o", "é"),
    *("\x1b[2J", "a\x00b", "\u202e", "../../etc", "$(id)", "; rm -rf /"),
]
SMALL = st.one_of(st.integers(-3, 3), st.booleans(), st.text(max_size=3), st.lists(st.integers(), max_size=2))
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.sampled_from([0, -1, 10**9, 10**4000]),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(WORDS),
    st.lists(SMALL, max_size=5),
    st.dictionaries(st.text(max_size=5), st.integers(), max_size=3),
    st.sampled_from([[], {}, [[]], [{}], {"": ""}, [{"name": "x"}], {"min": 0}, {"levels": []}, {"kind": "mock"}]),
)


def places(table: Any) -> Iterator[tuple[Any, Any]]:
    """Every container with a key or index in it."""
    for key, value in table.items() if isinstance(table, dict) else enumerate(table):
        yield table, key
        if isinstance(value, dict | list):
            yield from places(value)


@st.composite
def mutated(draw: st.DrawFn) -> dict[str, Any]:
    whole: dict[str, Any] = copy.deepcopy(draw(st.sampled_from([NESTED, QUICKSTART])))
    for _ in range(draw(st.integers(1, 3))):
        found = list(places(whole))
        container, key = found[draw(st.integers(0, len(found) - 1))]
        match draw(st.sampled_from(["replace", "remove", "rename", "add", "double", "swap"])):
            case "replace":
                container[key] = copy.deepcopy(draw(ODD))  # else a list that is drawn twice could hold itself
            case "remove":
                del container[key]
            case "rename" if isinstance(container, dict):
                container[draw(st.text(max_size=12) | st.sampled_from([f"{key}s", str(key)[1:]]))] = container.pop(key)
            case "add" if isinstance(container, dict):
                container[draw(st.text(max_size=8) | st.sampled_from(["when", "sets", "levels", "kind", "host"]))] = (
                    copy.deepcopy(draw(ODD))
                )
            case "double" if isinstance(container, list):
                container.append(copy.deepcopy(container[key]))
            case "swap":
                other, other_key = found[draw(st.integers(0, len(found) - 1))]
                container[key] = copy.deepcopy(other.get(other_key) if isinstance(other, dict) else other[other_key])
    return whole


def written(value: Any) -> str:
    """TOML, tables inline. What TOML has no word for is written so that it is wrong."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {written(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(written, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value)
    return "null" if value is None else repr(value)


def as_toml(whole: dict[str, Any]) -> str:
    return "".join(f"{json.dumps(key)} = {written(value)}\n" for key, value in whole.items())


@THOROUGH
@given(mutated())
def test_a_study_with_a_few_things_changed(whole: dict[str, Any]) -> None:
    try:
        text = as_toml(whole)
    except ValueError:  # a number of more digits than Python writes
        return
    answered(text)


@THOROUGH
@given(st.data())
def test_a_file_with_a_few_characters_changed(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from([GOOD, studies.read_study_file("quickstart")]))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        until = at + data.draw(st.integers(0, 6))
        text = (
            text[:at]
            + data.draw(st.text(max_size=4) | st.sampled_from(list("[]{}\"'=.,#\n0123456789%")))
            + text[until:]
        )
    answered(text)


@THOROUGH
@given(st.binary(max_size=300) | st.text(max_size=300).map(lambda text: text.encode("utf-8", "replace")))
def test_bytes_of_any_kind(content: bytes) -> None:
    answered(content.decode("utf-8", "replace"))


@THOROUGH
@given(
    st.text(max_size=60)
    | st.tuples(
        st.sampled_from(["machine.nic", "design.blocks", "factors.x", "a.b", "workloads"]), st.text(max_size=30)
    ).map("=".join)
)
def test_anything_set_on_the_command_line(override: str) -> None:
    try:
        answered(GOOD, override)
    except BadInput as error:
        assert "is not KEY=VALUE" in error.what


@pytest.mark.parametrize("depth", [10, 31, 32, 33, 100, 400, 3000])
@pytest.mark.parametrize("table", ["machine", "observe", "environments.base", "quick", "workloads", "link"])
def test_tables_within_tables(depth: int, table: str) -> None:
    deep = ".".join(["a"] * depth)
    answered(f"{GOOD}\n[{table}.{deep}]\nx = 1\n")
    answered(GOOD, f"{table}.{deep}=1")
    answered(GOOD.replace('duration = "1s"', f"path = {'[' * depth}{']' * depth}"))


def test_reading_touches_nothing(home: Path) -> None:
    """Not even a folder of its own: a study can be checked where nothing may be written."""
    before = sorted(home.iterdir())
    answered(GOOD)
    answered(GOOD.replace("blocks = 6", "blocks = 0"))
    assert sorted(home.iterdir()) == before
