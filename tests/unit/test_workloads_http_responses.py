"""What the HTTP workload makes of the generator's documents."""

import json
import statistics

import pytest

from nearmetal.errors import ToolFailed
from tests.unit.http_load import (
    CLOSED,
    OPEN,
    OPEN_LOOP,
    RAMP,
    RAMPS,
    REFUSED,
    Document,
    answered,
    changed,
    histogram,
    measured,
    statuses,
    value,
    workload,
)


async def test_one_clients_figures_are_the_documents_own() -> None:
    found = await measured(workload(), CLOSED)
    assert value(found, "throughput") == CLOSED["rate"]["achieved"]
    assert value(found, "transactions") == CLOSED["status_in_window"]["2xx"]
    assert found.events == CLOSED["requests"]["completed"]
    assert value(found, "latency_p50") == pytest.approx(CLOSED["latency_ns"]["p50"] / 1e9)
    assert value(found, "latency_p99") == pytest.approx(CLOSED["latency_ns"]["p99"] / 1e9)
    assert value(found, "connect_p50") == pytest.approx(CLOSED["connect_ns"]["p50"] / 1e9)
    assert value(found, "first_byte_p50") == pytest.approx(CLOSED["first_byte_ns"]["p50"] / 1e9)
    assert value(found, "errors") == 0.0
    # Its connections were kept, and its two seconds sampled by the 5 s.
    assert workload().responses.keys() - found.responses.keys() == {"connection_stddev", "reply_rate_stddev"}
    assert all(response.by_client is None for response in found.responses.values())
    assert json.loads(found.artifacts["load-0.json"]) == CLOSED
    assert (found.invalid, found.warnings) == (None, ())


async def test_evenness_is_the_spread_of_samples_and_of_all_connections_together() -> None:
    even = changed(
        OPEN,
        new_connections=True,
        reply_rate={"stddev": 1.0, "samples": 10},
        connection_ns={"mean": 1e6, "stddev": 0.0, "count": 10},
    )
    uneven = changed(even, reply_rate={"stddev": 3.0}, connection_ns={"mean": 3e6, "stddev": 1e5})
    found = await measured(workload(**OPEN_LOOP), uneven)
    assert value(found, "reply_rate_stddev") == 3.0
    assert value(found, "connection_stddev") == pytest.approx(1e-4)
    steady = await measured(workload(**OPEN_LOOP), changed(uneven, reply_rate={"stddev": 0.0}))
    assert value(steady, "reply_rate_stddev") == 0.0
    both = await measured(workload(**OPEN_LOOP), uneven, changed(uneven, connection_ns={"mean": 1e6}))
    lives = [3e-3 + 1e-4 * side for side in (-1, 1) * 5] + [1e-3 + 1e-4 * side for side in (-1, 1) * 5]
    # Ten values of one above and below their mean have the standard deviation of 1e-4 times the root of 10/9.
    assert value(both, "connection_stddev") == pytest.approx(statistics.stdev(lives), rel=1e-3)
    few = await measured(workload(**OPEN_LOOP), changed(uneven, reply_rate={"samples": 8}, connection_ns={"count": 8}))
    assert not {"reply_rate_stddev", "connection_stddev"} & few.responses.keys()
    equal = await measured(workload(**OPEN_LOOP), even)
    assert "connection_stddev" not in equal.responses  # of 0 s there is no ratio


async def test_several_clients_add_up_and_share_one_distribution() -> None:
    slow = changed(OPEN, connect_ns={"p50": 5_000_000})
    found = await measured(workload(), CLOSED, slow)
    assert value(found, "throughput") == CLOSED["rate"]["achieved"] + 1000.0
    assert found.responses["throughput"].by_client == (CLOSED["rate"]["achieved"], 1000.0)
    assert value(found, "connect_p50") == 0.005
    # 55,884 requests of the one outweigh 2,000 of the other.
    assert value(found, "latency_p50") == pytest.approx(CLOSED["latency_ns"]["p50"] / 1e9, rel=0.02)
    same = await measured(workload(), CLOSED, CLOSED, CLOSED)
    for percentile in ("p50", "p99"):
        assert value(same, f"latency_{percentile}") == CLOSED["latency_ns"][percentile] / 1e9
    assert sorted(same.artifacts) == ["load-0.json", "load-1.json", "load-2.json"]


async def test_replies_that_are_errors_do_not_count_as_served() -> None:
    half = CLOSED["requests"]["completed"] // 2
    found = await measured(workload(), changed(CLOSED, **statuses({"2xx": half, "5xx": half})))
    assert value(found, "throughput") * CLOSED["elapsed_ns"] / 1e9 == value(found, "transactions") == half
    assert value(found, "errors") == pytest.approx(0.5, rel=1e-3)


@pytest.mark.parametrize("clients", [1, 3])
async def test_a_request_under_way_at_the_windows_end_is_answered_and_no_transaction(clients: int) -> None:
    seconds, workers = 2.0, 16
    requests = {"attempted": 145, "completed": 145}
    late = changed(
        {**CLOSED, "elapsed_ns": int(seconds * 1e9)},
        requests=requests,
        **statuses({"2xx": 140, "5xx": 5}, {"2xx": 140 - workers, "5xx": 5}),
    )
    found = await measured(workload(), *[late] * clients)
    assert value(found, "transactions") == clients * (140 - workers)
    assert value(found, "throughput") == value(found, "transactions") / seconds
    assert found.responses["transactions"].by_client == ((124.0,) * clients if clients > 1 else None)
    assert value(found, "errors") == pytest.approx(5 / 145)
    assert found.events == clients * 145


async def test_a_closed_loop_without_a_reply_in_its_window_is_a_failure_and_no_zero() -> None:
    completed = CLOSED["requests"]["completed"]
    with pytest.raises(ToolFailed, match=rf"not one request was served within 1 s, and {completed} after that"):
        await measured(workload(), changed(CLOSED, status_in_window={"2xx": 0}))
    found = await measured(workload(**OPEN_LOOP), changed(OPEN, status_in_window={"2xx": 0}))
    assert value(found, "throughput") == 0.0
    assert value(found, "latency_p50") > 0.0


async def test_an_open_loops_replies_are_no_fewer_because_each_takes_long() -> None:
    late = changed(OPEN, rate={"achieved": 600.0, "answered": 1000.0}, status_in_window={"2xx": 1200})
    found = await measured(workload(**OPEN_LOOP), late)
    assert (value(found, "throughput"), value(found, "transactions")) == (1000.0, 2000.0)
    errors = {"2xx": 1500, "5xx": 500}
    half = changed(late, **statuses(errors, errors))
    found = await measured(workload(**OPEN_LOOP), half, late)
    assert (value(found, "throughput"), value(found, "transactions")) == (1750.0, 3500.0)
    assert found.responses["throughput"].by_client == (750.0, 1000.0)


async def test_requests_without_a_reply_are_errors() -> None:
    found = await measured(workload(), changed(CLOSED, errors={"client_timeout": CLOSED["requests"]["completed"]}))
    assert value(found, "errors") == pytest.approx(0.5)
    assert found.responses["errors"].scale == "difference"


MS = 1_000_000


@pytest.mark.parametrize(
    ("document", "p50", "p99"),
    [
        (answered({20 * MS: 1000}, {}, timed_out=1000), (0.02, None), (5.0, "right")),
        (answered({20 * MS: 999}, {}, timed_out=1001), (5.0, "right"), (5.0, "right")),
        (answered({20 * MS: 1000, 40 * MS: 980}, {}, timed_out=20), (0.02, None), (0.04, None)),
        # An error page that came at once is no quick answer.
        (answered({20 * MS: 800}, {1 * MS: 1200}), (5.0, "right"), (5.0, "right")),
        (answered({20 * MS: 1200}, {1 * MS: 800}), (0.02, None), (5.0, "right")),
        # Nor does a slow one make the pages slow.
        (answered({20 * MS: 1990}, {40 * MS: 10}), (0.02, None), (0.02, None)),
        (answered({20 * MS: 1000, 6000 * MS: 300}, {}, timed_out=700), (0.02, None), (6.0, "right")),
    ],
)
async def test_requests_that_failed_rank_above_all_latencies(
    document: Document, p50: tuple[float, str | None], p99: tuple[float, str | None]
) -> None:
    for name, (expected, censored) in (("latency_p50", p50), ("latency_p99", p99)):
        found = (await measured(workload(**OPEN_LOOP), document)).responses[name]
        assert found.value == pytest.approx(expected, rel=1e-3)
        assert found.censored == censored


async def test_requests_of_one_client_that_failed_rank_above_those_of_all() -> None:
    good, bad = answered({20 * MS: 2000}, {}), answered({20 * MS: 500}, {1 * MS: 1500})
    found = (await measured(workload(**OPEN_LOOP), good, bad)).responses
    assert found["latency_p50"].value == pytest.approx(0.02, rel=1e-3)
    assert found["latency_p50"].censored is None
    assert list(found["latency_p50"].by_client or ()) == pytest.approx([good["latency_ns"]["p50"] / 1e9, 5.0])
    assert found["latency_p99"].censored == "right"


async def test_a_percentile_of_several_clients_has_the_rank_that_each_clients_own_has() -> None:
    """1.6 of 160 requests lie above the 99th percentile, so that the 159th is it, as the 80th is each client's."""
    one = answered({10 * MS: 79, 2000 * MS: 1}, {})
    one = changed(one, latency_ns={"p50": 10 * MS, "p99": 2000 * MS, "count": 80})
    found = (await measured(workload(**OPEN_LOOP), one, one)).responses["latency_p99"]
    assert found.value == pytest.approx(2.0, rel=1e-3)
    assert found.by_client == (2.0, 2.0)


async def test_histograms_that_hold_nothing_are_a_tool_that_failed() -> None:
    with pytest.raises(ToolFailed, match="latency histograms are empty"):
        await measured(workload(), *[changed(CLOSED, histogram=histogram({}))] * 2)


async def test_a_load_of_which_nothing_was_served_is_a_failure_and_no_zero() -> None:
    with pytest.raises(ToolFailed, match=r"not one request was served \(1 refused\)"):
        await measured(workload(), REFUSED)


async def test_a_time_that_was_not_observed_is_left_out() -> None:
    none = {"p50": None, "p99": None, "count": 0}
    found = await measured(workload(), changed(CLOSED, connect_ns=none))
    assert "connect_p50" not in found.responses


@pytest.mark.parametrize(
    ("name", "expected", "censored"), [("", 220, None), ("-above", 20, "right"), ("-below", 300, "left")]
)
async def test_a_ramp_gives_the_saturation_and_whether_it_is_a_bound(
    name: str, expected: float, censored: str | None
) -> None:
    one = workload(**RAMP)
    found = await measured(one, RAMPS[name])
    assert found.responses.keys() == one.responses.keys()
    assert (value(found, "saturation"), found.responses["saturation"].censored) == (expected, censored)
    assert found.invalid is None


async def test_a_first_rate_that_was_kept_up_once_and_failed_twice_is_a_bound_too() -> None:
    saturation = {**RAMPS["-below"]["saturation"], "interval": [None, None]}
    found = await measured(workload(**RAMP), {**RAMPS["-below"], "saturation": saturation})
    assert (value(found, "saturation"), found.responses["saturation"].censored) == (300, "left")


async def test_ramps_of_several_clients_add_up_to_a_bound_if_one_is_a_bound() -> None:
    found = await measured(workload(**RAMP), RAMPS[""], RAMPS["-above"])
    assert (value(found, "saturation"), found.responses["saturation"].censored) == (240.0, "right")
    assert found.responses["saturation"].by_client == (220.0, 20.0)


async def test_a_ramp_without_a_saturation_is_a_tool_that_failed() -> None:
    with pytest.raises(ToolFailed, match="told no saturation"):
        await measured(workload(**RAMP), OPEN)
