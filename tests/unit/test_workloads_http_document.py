"""A generator of HTTP load that fails, and what is not its document."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearmetal.errors import ToolFailed
from nearmetal.model import Completed, find_blame
from nearmetal.workloads._load import document as load_document
from tests.unit.http_load import CLOSED, REFUSED, changed, measured, server, value, workload
from tests.unit.workloads_stage import ScriptedMachine, ScriptedStage, golden


async def test_a_generator_that_fails_is_told_with_its_words() -> None:
    loader = ScriptedMachine("client0", "10.0.0.2", lambda argv: Completed(status=2, stderr=b"no such host"))
    with pytest.raises(ToolFailed, match=r"client0: the load generator ended with status 2: no such host"):
        await workload().run(ScriptedStage([server()], [loader]))


async def test_a_client_without_a_single_reply_counts_with_its_errors() -> None:
    found = await measured(workload(), CLOSED, REFUSED)
    refused = sum(REFUSED["errors"][name] for name in REFUSED["errors"] if name != "other_reasons")
    attempted = CLOSED["requests"]["completed"] + refused
    assert value(found, "errors") == pytest.approx(refused / attempted)
    assert "load-1.json" in found.artifacts


async def test_the_status_of_no_reply_without_a_document_is_a_failure() -> None:
    loader = ScriptedMachine("client0", "10.0.0.2", lambda argv: Completed(status=1, stderr=b"no memory"))
    with pytest.raises(ToolFailed, match=r"client0: the load generator ended with status 1: no memory"):
        await workload().run(ScriptedStage([server()], [loader]))


@given(st.binary(max_size=200))
def test_rubbish_is_a_tool_that_failed(text: bytes) -> None:
    """Of the instrument: it says nothing of what serves."""
    with pytest.raises(ToolFailed, match=r"no load\.v1") as failed:
        load_document.parse(text, "client0")
    assert find_blame(failed.value.cause) == "instrument"


_VALUES = st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.floats(), st.text(max_size=5), st.just({}))


@given(st.sampled_from(sorted(CLOSED)), _VALUES)
def test_a_document_with_a_wrong_part_is_refused_or_read(part: str, wrong: object) -> None:
    text = json.dumps({**CLOSED, part: wrong}).encode()
    try:
        found = load_document.parse(text, "client0")
    except ToolFailed:
        return
    assert 0 <= found.served <= found.attempted
    assert found.failed >= 0


@given(st.integers(0, len(golden("load/closed.json")) - 2))
def test_a_document_that_was_cut_off_is_refused(length: int) -> None:
    with pytest.raises(ToolFailed):
        load_document.parse(golden("load/closed.json")[:length].rstrip(b"\n"), "client0")


async def test_a_broken_histogram_is_a_tool_that_failed() -> None:
    with pytest.raises(ToolFailed, match="histogram cannot be read"):
        await measured(workload(), CLOSED, changed(CLOSED, histogram="HISTFAAA"))
