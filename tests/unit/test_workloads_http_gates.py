"""Whether the generator of HTTP load can be believed: what makes a trial invalid, and what warns."""

from typing import Any

import pytest

from nearmetal.errors import ToolFailed
from tests.unit.http_load import (
    CLOSED,
    OPEN,
    OPEN_LOOP,
    RAMP,
    RAMPS,
    Document,
    answered,
    changed,
    measured,
    value,
    workload,
)


async def test_an_open_loop_that_kept_its_rate_counts() -> None:
    found = await measured(workload(**OPEN_LOOP), OPEN)
    assert (found.invalid, found.warnings) == (None, ())
    later = await measured(workload(**OPEN_LOOP), changed(OPEN, lateness_ns={"p99": 1_600_000}))
    assert later.invalid is None
    assert [warning.code for warning in later.warnings] == ["generator-late"]


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"lateness_ns": {"p99": 6_000_000}}, "the generator was late"),
        ({"requests": {"completed": 1900}, "status": {"2xx": 1900}}, "the rate was not reached"),
        ({"errors": {"fd_unavailable": 100}}, "never left the client"),
        ({"errors": {"address_unavailable": 100}}, "never left the client"),
        ({"errors": {"unbegun": 100}}, "100 of 2100 requests were never begun"),
    ],
)
async def test_a_generator_that_did_not_do_as_told_makes_the_trial_invalid(parts: Document, reason: str) -> None:
    found = await measured(workload(**OPEN_LOOP), changed(OPEN, **parts))
    assert reason in (found.invalid or "")
    assert found.responses  # kept, and never counted
    second = await measured(workload(**OPEN_LOOP), OPEN, changed(OPEN, **parts))
    assert (second.invalid or "").startswith("client 1: ")


@pytest.mark.parametrize("failed", ["client_timeout", "refused", "reset"])
async def test_a_server_that_fell_silent_has_failed(failed: str) -> None:
    """Of 2 s the last reply came 0.6 s after the first request."""
    silent: dict[str, Any] = {"requests": {"completed": 600}, "status": {"2xx": 600}, "status_in_window": {"2xx": 600}}
    silent |= {"silence_ns": 1_400_000_000, "errors": {failed: 64}}
    for parameters, document in (({}, CLOSED), (OPEN_LOOP, OPEN)):
        gone = changed(document, elapsed_ns=2_000_000_000, **silent)
        with pytest.raises(ToolFailed, match="the server fell silent: the last reply came 600 ms after") as told:
            await measured(workload(**parameters), gone)
        assert (told.value.cause, list(told.value.said)) == ("service-silent", ["load-0.json"])


async def test_a_request_that_is_lost_alone_is_no_silence() -> None:
    lost = changed(CLOSED, silence_ns=1_000_000, errors={"client_timeout": 1})
    assert (await measured(workload(), lost)).invalid is None
    late = changed(CLOSED, silence_ns=CLOSED["elapsed_ns"])  # the last came after the window, and none failed
    assert (await measured(workload(), late)).invalid is None
    full = changed(CLOSED, silence_ns=CLOSED["elapsed_ns"], errors={"fd_unavailable": 1})
    assert (await measured(workload(), full)).invalid is None


@pytest.mark.parametrize(("count", "invalid"), [(99, False), (100, True)])
async def test_one_late_request_of_a_few_is_bad_luck(count: int, invalid: bool) -> None:
    late = {"p50": 50_000, "p90": 80_000, "p99": 6_000_000, "count": count}
    found = await measured(workload(**OPEN_LOOP), changed(OPEN, lateness_ns=late))
    assert (found.invalid is not None, bool(found.warnings)) == (invalid, invalid)
    few = changed(OPEN, lateness_ns={**late, "p90": 6_000_000})
    share = "1 %" if invalid else "10 %"
    assert f"{share} of the requests began 6 ms" in ((await measured(workload(**OPEN_LOOP), few)).invalid or "")


async def test_a_slow_server_is_not_the_generators_fault() -> None:
    late_replies = changed(OPEN, status_in_window={"2xx": 600}, latency_ns={"p50": 2_000_000_000})
    timeouts = changed(OPEN, requests={"completed": 1000}, status={"2xx": 1000}, errors={"client_timeout": 1000})
    for document in (late_replies, timeouts):
        assert (await measured(workload(**OPEN_LOOP), document)).invalid is None


async def test_poisson_arrivals_may_scatter() -> None:
    fewer = changed(OPEN, requests={"completed": 1900}, status={"2xx": 1900}, arrivals="poisson")
    assert (await measured(workload(**OPEN_LOOP, arrivals="poisson"), fewer)).invalid is None


async def test_ramps_of_which_some_are_too_low_and_others_too_high_are_at_least_the_first() -> None:
    found = await measured(workload(**RAMP), RAMPS["-above"], RAMPS["-below"])
    assert found.invalid is None
    assert (value(found, "saturation"), found.responses["saturation"].censored) == (20.0, "right")


async def test_a_ramp_counts_though_its_generator_gave_out_and_is_a_bound() -> None:
    """Whether it does depends on how much the server can: to drop such trials would be to drop the best servers."""
    found = await measured(workload(**RAMP), RAMPS["-generator-gave-out"])
    assert (found.invalid, [warning.code for warning in found.warnings]) == (None, ["generator-gave-out"])
    assert "at 250/s" in found.warnings[0].text
    assert (value(found, "saturation"), found.responses["saturation"].censored) == (200.0, "right")


async def test_a_generator_that_gave_out_after_the_server_did_leaves_the_place_between_two_rates() -> None:
    between = {"rate": 200.0, "interval": [200.0, 300.0], "censored": "above"}
    found = await measured(workload(**RAMP), changed(RAMPS["-generator-gave-out"], saturation=between))
    assert "before its saturation point was narrowed down" in found.warnings[0].text
    assert "below 300/s" in found.warnings[0].text
    assert (value(found, "saturation"), found.responses["saturation"].censored) == (200.0, "right")


async def test_a_generator_that_gave_out_once_and_did_as_told_after_it_is_nothing() -> None:
    steps = RAMPS[""]["steps"]
    hiccup = {**steps[1], "kept_up": False, "generator_failed": True}
    found = await measured(workload(**RAMP), {**RAMPS[""], "steps": [steps[0], hiccup, *steps[1:]]})
    assert (found.invalid, found.warnings) == (None, ())
    assert found.responses["saturation"].censored is None


async def test_a_generator_that_gave_out_at_the_first_rate_saw_nothing_of_the_server() -> None:
    nothing = {"rate": None, "interval": [None, None], "censored": "above"}
    found = await measured(workload(**RAMP), changed(RAMPS["-generator-gave-out"], saturation=nothing))
    assert "gave out at the first rate" in (found.invalid or "")
    assert found.responses.keys() == {"errors"}


async def test_a_ramp_counts_though_requests_at_its_last_rate_were_never_begun_but_not_at_its_first() -> None:
    some = changed(RAMPS["-generator-gave-out"], errors={"unbegun": 500})
    assert (await measured(workload(**RAMP), some)).invalid is None
    nothing = changed(some, saturation={"rate": None, "interval": [None, None], "censored": "above"})
    assert "gave out at the first rate" in ((await measured(workload(**RAMP), nothing)).invalid or "")


async def test_a_closed_loop_whose_client_is_at_its_limit_warns() -> None:
    busy = changed(CLOSED, cpu_ns={"user": 100_000_000, "system": 880_000_000})
    found = await measured(workload(), busy)
    assert [warning.code for warning in found.warnings] == ["client-limited"]
    assert (await measured(workload(threads=2), busy)).warnings == ()
    longer = changed(busy, cpu_ns={"lasted": 2 * busy["cpu_ns"]["lasted"]})
    assert (await measured(workload(), longer)).warnings == ()


async def test_requests_that_were_sent_again_are_told() -> None:
    found = await measured(workload(), changed(CLOSED, requests={"resent": 3}))
    assert [warning.code for warning in found.warnings] == ["requests-resent"]


@pytest.mark.parametrize("mode", [OPEN_LOOP, {}])
async def test_requests_that_failed_and_replies_that_are_no_pages_are_told(mode: Document) -> None:
    found = await measured(workload(**mode), answered({20_000_000: 1000}, {1_000_000: 990}, timed_out=10))
    assert [warning.code for warning in found.warnings] == ["requests-failed", "error-pages"]
    failed, pages = (warning.text for warning in found.warnings)
    assert failed.startswith("10 of client 0's 2000 requests (0.5 %) got no reply (10 client_timeout)")
    assert pages.startswith("990 of the 1990 replies to client 0 (49.7 %) were errors (990 times 503)")


async def test_a_ramp_fails_requests_at_its_end_and_is_told_of_error_pages_alone() -> None:
    completed = RAMPS[""]["requests"]["completed"]
    status = {"status": {"2xx": completed - 5, "5xx": 5}, "status_codes": {"200": completed - 5, "503": 5}}
    found = await measured(workload(**RAMP), changed(RAMPS[""], errors={"client_timeout": 3}, **status))
    assert [warning.code for warning in found.warnings] == ["error-pages"]


URING = {"engine": {"name": "io_uring", "reason": "a new connection for each request"}, "new_connections": True}
REFUSED_URING = {"engine": {"name": "epoll", "reason": "io_uring is disabled"}, "new_connections": True}


async def test_clients_whose_times_are_not_taken_alike_are_told() -> None:
    one, other = changed(CLOSED, **URING), changed(CLOSED, **REFUSED_URING)
    found = await measured(workload(new_connections=True), one, other, one)
    assert [warning.code for warning in found.warnings] == ["without-io-uring", "engines-differ"]
    assert found.warnings[1].text.startswith("clients 0, 2 used io_uring and client 1 epoll:")
    assert (await measured(workload(new_connections=True), one, one)).warnings == ()


async def test_a_client_that_may_not_use_io_uring_is_told_of_where_it_would_have() -> None:
    found = await measured(workload(new_connections=True), changed(CLOSED, **REFUSED_URING))
    assert [warning.code for warning in found.warnings] == ["without-io-uring"]
    assert "(io_uring is disabled)" in found.warnings[0].text
    kept = changed(CLOSED, engine={"name": "epoll", "reason": "connections are kept"})
    assert (await measured(workload(), kept)).warnings == ()
