"""Any program of the user's, and one number out of what it prints."""

import contextlib
import json
import math
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from nearmetal.errors import ToolFailed
from nearmetal.model import Completed, Workload
from nearmetal.units import AS_WRITTEN
from nearmetal.workloads import command
from nearmetal.workloads.command import Command, CommandParameters, ResponsePattern
from tests.unit.workloads_stage import ScriptedMachine, ScriptedStage, golden

BASE: dict[str, Any] = {"argv": ["bench"], "response": "rate", "unit": "1/s", "better": "higher"}


def workload(**parameters: Any) -> Command:
    return Command(CommandParameters.model_validate({**BASE, **parameters}, context=AS_WRITTEN))


def machine(name: str, address: str, *outputs: str, status: int = 0) -> ScriptedMachine:
    remaining = list(outputs)
    return ScriptedMachine(
        name, address, lambda argv: Completed(status=status, stdout=remaining.pop(0).encode(), stderr=b"a word")
    )


def printed(text: str | bytes) -> Completed:
    return Completed(status=0, stdout=text if isinstance(text, bytes) else text.encode())


async def read(ended: Completed, **where: Any) -> float:
    reading = ResponsePattern.model_validate({"better": "higher", **where})
    return await command.read_value(reading, ended, "server0")


async def test_a_command_on_the_server() -> None:
    server = machine("server0", "10.0.0.1", "warming up\nrate: 12.5 per second\n")
    stage = ScriptedStage([server], [])
    one: Workload = workload(match=r"^rate: ([0-9.]+)", duration="3s")
    await one.prepare(stage)
    found = await one.run(stage)
    await one.finish(stage)
    (response,) = found.responses.values()
    assert (response.value, response.unit, response.better, response.scale) == (12.5, "1/s", "higher", "ratio")
    assert response.by_client is None
    assert found.events == 1
    assert found.artifacts == {"command-0.out": b"warming up\nrate: 12.5 per second\n", "command-0.err": b"a word"}
    assert one.primary == "rate"
    assert one.responses.keys() == found.responses.keys()
    assert stage.limits == [63.0]


async def test_every_client_runs_it_against_the_server_it_faces() -> None:
    servers = [machine("server0", "10.0.0.1"), machine("server1", "10.0.0.3")]
    clients = [machine("client0", "10.0.0.2", '{"a": [{"b": 1}]}'), machine("client1", "10.0.0.4", '{"a": [{"b": 4}]}')]
    one = workload(
        argv=["bench", "-c", "$server", "http://$server/", "$HOME"], on="client", json="a.0.b", timeout="20s"
    )
    stage = ScriptedStage(servers, clients, connect="pairs")
    found = await one.run(stage)
    assert clients[1].ran == [["bench", "-c", "10.0.0.3", "http://10.0.0.3/", "$HOME"]]
    assert (found.responses["rate"].value, found.responses["rate"].by_client) == (2.5, (1.0, 4.0))
    assert stage.limits == [20.0]


async def test_what_a_command_leaves_running_is_warned_of() -> None:
    left = Completed(status=0, stdout=b"rate: 5\n", left=("sleep", "nginx"))
    one = ScriptedMachine("server0", "10.0.0.1", lambda argv: left)
    found = await workload(match=r"rate: (\S+)").run(ScriptedStage([one], []))
    (warned,) = found.warnings
    assert (warned.code, "server0: sleep, nginx" in warned.text) == ("left-running", True)


async def test_a_command_that_fails_is_told_with_its_words() -> None:
    server = machine("server0", "10.0.0.1", "", status=3)
    with pytest.raises(ToolFailed, match=r"server0: `bench` ended with status 3: a word"):
        await workload(match="(.)").run(ScriptedStage([server], []))


def test_levels_in_the_place_of_words_become_words() -> None:
    found = CommandParameters.model_validate({**BASE, "argv": ["bench", 4, True, 0.5, "x"], "match": "(.)"})
    assert found.argv == ("bench", "4", "true", "0.5", "x")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nothing", "matches nothing"),
        ("rate: fast", "'fast', which is no number"),
        ("rate: nan", "no measurement"),
        ("rate: -inf", "no measurement"),
        ("rate: 1e999", "no measurement"),
        ("rate: ", "matches nothing"),
    ],
)
async def test_a_match_without_a_number_is_a_failure(text: str, message: str) -> None:
    with pytest.raises(ToolFailed, match=message):
        await read(printed(text), match=r"rate: (\S+)")


async def test_a_group_that_took_no_part_is_no_number() -> None:
    with pytest.raises(ToolFailed, match="None, which is no number"):
        await read(printed("a"), match=r"a|(b)")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no JSON document"),
        ("[" * 100_000, "no JSON document"),
        ("{}", "'end' is not there"),
        ('{"end": []}', "'rate' is not there"),
        ('{"end": 5}', "'rate' is not there"),
        ('{"end": {"rate": null}}', "null and no number"),
        ('{"end": {"rate": true}}', "true and no number"),
        ('{"end": {"rate": "5"}}', "no number"),
        ('{"end": {"rate": NaN}}', "no measurement"),
        ('{"end": {"rate": 1' + "0" * 400 + "}}", "too large"),
    ],
)
async def test_a_document_without_the_number_is_a_failure(text: str, message: str) -> None:
    with pytest.raises(ToolFailed, match=message):
        await read(printed(text), json="end.rate")


async def test_a_pattern_that_backtracks_without_end_is_ended_by_a_limit() -> None:
    pattern = "(a*)*b"
    with pytest.raises(ToolFailed, match=r"server0: '\(a\*\)\*b' was still being looked for after 0.5 s"):
        await command.search_pattern(pattern, "a" * 60, "server0", limit=0.5)


@settings(deadline=None, max_examples=20)
@given(st.binary(max_size=100))
async def test_anything_at_all_is_read_or_refused(text: bytes) -> None:
    for one in (ResponsePattern(better="lower", json_="a"), ResponsePattern(better="lower", match="([0-9]+)")):
        with contextlib.suppress(ToolFailed):
            assert math.isfinite(await command.read_value(one, printed(text), "server0"))


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab0"), inner, max_size=3),
)


@given(_JSON, st.sampled_from(["a", "a.b", "0", "a.0.b", "-1"]))
async def test_any_document_is_read_or_refused(document: object, path: str) -> None:
    try:
        found = await read(printed(json.dumps(document)), json=path)
    except ToolFailed:
        return
    assert isinstance(found, float)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "give either `match`"),
        ({"match": "(a)", "json": "a"}, "give either `match`"),
        ({"match": "a"}, "has 0 groups and needs one"),
        ({"match": "(a)(b)"}, "has 2 groups and needs one"),
        ({"match": "(a"}, "is no regular expression"),
        ({"json": ""}, "at least 1 character"),
        ({"argv": [], "match": "(a)"}, "at least 1 item"),
        ({"argv": [""], "match": "(a)"}, "the first word names the program"),
        ({"argv": ["a\0b"], "match": "(a)"}, "holds a NUL"),
        ({"argv": "sh -c x", "match": "(a)"}, "valid tuple"),
        ({"response": "ready", "match": "(a)"}, "has a response 'ready' already"),
        ({"response": "a b", "match": "(a)"}, "should match pattern"),
        ({"better": "more", "match": "(a)"}, "'higher' or 'lower'"),
        ({"on": "both", "match": "(a)"}, "'server' or 'client'"),
        ({"match": "(a)", "duration": "30s", "timeout": "20s"}, "timeout = 20s ends the command before duration = 30s"),
        ({"match": "(a)", "shell": True}, "Extra inputs"),
    ],
)
def test_bad_parameters_are_refused_with_what_would_be_right(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        workload(**given)
    assert message in caught.value.errors()[0]["msg"]


@pytest.mark.parametrize(
    ("title", "printed_by", "values"),
    [
        ("random-reads", "fio-3.33.json", ("iops", "mean")),
        ("redis", "redis-benchmark-7.0.15.csv", ("get", "set")),
    ],
)
async def test_the_examples_of_the_manual_read_what_these_programs_print(
    title: str, printed_by: str, values: tuple[str, ...]
) -> None:
    """What fio (its "read" part) and redis-benchmark of Debian 12 printed in a run of the manual's examples."""
    manual = (Path(__file__).parents[2] / "docs" / "workloads.md").read_text()
    (text,) = [one for one in re.findall(r"```toml\n(.*?)```", manual, re.DOTALL) if f'"{title}"\n' in one]
    (given,) = tomllib.loads(text)["workloads"]
    parameters = {name: value for name, value in given.items() if name not in ("name", "kind")}
    one = Command(CommandParameters.model_validate(parameters, context=AS_WRITTEN))
    output = printed(golden(f"command/{printed_by}"))
    server, client = (
        ScriptedMachine("s", "10.0.0.1", lambda argv: output),
        ScriptedMachine("c", "10.0.0.2", lambda argv: output),
    )
    found = await one.run(ScriptedStage([server], [client]))
    assert tuple(found.responses) == values
    assert all(response.value > 1000 for response in found.responses.values())
