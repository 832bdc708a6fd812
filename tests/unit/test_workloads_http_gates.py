"""Whether the generator of HTTP load can be believed: what makes a trial invalid, and what warns."""

import pytest

from tests.unit.http_load import CLOSED, OPEN, OPEN_LOOP, RAMP, RAMPS, Document, changed, measured, value, workload


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
        ({"steps": [{"offered": 500.0, "generator_failed": True}]}, "at 500/s the generator gave out"),
    ],
)
async def test_a_generator_that_did_not_do_as_told_makes_the_trial_invalid(parts: Document, reason: str) -> None:
    found = await measured(workload(**OPEN_LOOP), changed(OPEN, **parts))
    assert reason in (found.invalid or "")
    assert found.responses  # kept, and never counted
    second = await measured(workload(**OPEN_LOOP), OPEN, changed(OPEN, **parts))
    assert (second.invalid or "").startswith("client 1: ")


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


async def test_ramps_that_bound_nothing_together_are_invalid() -> None:
    found = await measured(workload(**RAMP), RAMPS["-above"], RAMPS["-below"])
    assert "bounds nothing" in (found.invalid or "")


async def test_a_generator_that_gave_out_says_nothing_of_the_server() -> None:
    found = await measured(workload(**RAMP), RAMPS["-generator-gave-out"])
    assert found.invalid == "at 250/s the generator gave out before the server did"
    assert value(found, "saturation") == 200.0
    nothing = {"rate": None, "interval": [None, None], "censored": "above"}
    found = await measured(workload(**RAMP), changed(RAMPS["-generator-gave-out"], saturation=nothing))
    assert found.invalid is not None
    assert found.responses.keys() == {"errors"}


async def test_a_closed_loop_whose_client_is_at_its_limit_warns() -> None:
    busy = changed(CLOSED, cpu_ns={"user": 100_000_000, "system": 880_000_000})
    found = await measured(workload(), busy)
    assert [warning.code for warning in found.warnings] == ["client-limited"]
    assert (await measured(workload(threads=2), busy)).warnings == ()


async def test_requests_that_were_sent_again_are_told() -> None:
    found = await measured(workload(), changed(CLOSED, requests={"resent": 3}))
    assert [warning.code for warning in found.warnings] == ["requests-resent"]
