"""The HTTP workload: what it asks of the machines, and what it makes of the generator's documents."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearmetal.errors import ToolFailed
from nearmetal.model import Completed, LinkSpec, Measurement, Workload
from nearmetal.workloads import _load_document as load_document
from nearmetal.workloads import _server, http
from nearmetal.workloads._http_parameters import HttpParameters
from tests.unit.workloads_stage import ScriptedMachine, ScriptedStage, golden

CLOSED = json.loads(golden("load/closed.json"))
OPEN = json.loads(golden("load/open-1000.json"))
RAMPS = {name: json.loads(golden(f"load/ramp{name}.json")) for name in ("", "-above", "-below", "-generator-gave-out")}
REFUSED = json.loads(golden("load/refused.json"))

Document = dict[str, Any]


def workload(**parameters: Any) -> http.Http:
    return http.Http(HttpParameters.model_validate(parameters))


def printed(document: Document) -> Completed:
    """What a generator leaves behind: the document, and status 1 when not one reply came."""
    return Completed(status=int(document["requests"]["completed"] == 0), stdout=json.dumps(document).encode())


def changed(document: Document, **parts: Any) -> Document:
    """A document with some parts replaced, and within them some keys."""
    merged = dict(document)
    for name, value in parts.items():
        merged[name] = {**merged[name], **value} if isinstance(value, dict) and name in merged else value
    return merged


def statuses(status: dict[str, int], in_window: dict[str, int] | None = None) -> Document:
    return {"status": status, "status_in_window": status if in_window is None else in_window}


def is_first_request(argv: list[str]) -> bool:
    return "--mode" not in argv


def one_reply(argv: list[str]) -> Document:
    count = int(argv[argv.index("--requests") + 1])
    return changed(CLOSED, requests={"completed": count, "attempted": count}, **statuses({"2xx": count}))


def client(measured: Document, name: str = "client0") -> ScriptedMachine:
    """A client whose first request is answered, and whose load gives the document."""

    def answer(argv: list[str]) -> Completed:
        return printed(one_reply(argv) if is_first_request(argv) else measured)

    return ScriptedMachine(name, "10.0.0.2", answer)


def server(name: str = "server0", address: str = "10.0.0.1", ended: Completed | None = None) -> ScriptedMachine:
    def answer(argv: list[str]) -> Completed:
        raise AssertionError(f"a server was told to run {argv}")

    return ScriptedMachine(name, address, answer, ended)


async def measured(one: http.Http, *documents: Document) -> Measurement:
    clients = [client(document, f"client{index}") for index, document in enumerate(documents)]
    return await one.run(ScriptedStage([server()], clients))


def value(measurement: Measurement, response: str) -> float:
    return measurement.responses[response].value


# ── What it asks of the machines ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("paths", "configuration"),
    [
        (["/", "/1k"], "lighttpd.conf"),
        (["/", "/heavy.php"], "lighttpd-php.conf"),
        (["/heavy.php?numbers=10"], "lighttpd-php.conf"),
        (["/?page=a.php"], "lighttpd.conf"),
    ],
)
async def test_php_is_started_for_pages_of_its_own_only(paths: list[str], configuration: str) -> None:
    machine = server()
    await workload(paths=paths).prepare(ScriptedStage([machine], [client(CLOSED)]))
    assert machine.ran == [["lighttpd", "-D", "-f", f"/etc/nearmetal/{configuration}"]]


async def test_a_trial_starts_the_server_asks_once_warms_measures_and_stops() -> None:
    machine, loader = server(), client(CLOSED)
    stage = ScriptedStage([machine], [loader])
    one: Workload = workload(workers=4, duration="3s", timeout="2s", path="/1k")
    await one.prepare(stage)
    assert machine.ran == [["lighttpd", "-D", "-f", "/etc/nearmetal/lighttpd.conf"]]
    assert [is_first_request(argv) for argv in loader.ran] == [True, False]
    assert loader.ran[1][loader.ran[1].index("--duration") + 1] == "1s"
    await one.run(stage)
    assert loader.ran[2] == [
        *(loader.probe, "load", "http://10.0.0.1/1k", "--json", "--mode", "closed", "--duration", "3s"),
        *("--workers", "4", "--threads", "1", "--timeout", "2s"),
    ]
    assert stage.limits[-1] == 3.0 + 2.0 + http.SLACK
    assert machine.started[0].stopped == 0
    await one.finish(stage)
    assert machine.started[0].stopped == 1


async def test_each_mode_becomes_the_generators_options() -> None:
    async def command(**parameters: Any) -> str:
        loader = client(RAMPS[""] if parameters.get("mode") == "ramp" else OPEN)
        await workload(**parameters).run(ScriptedStage([server()], [loader]))
        return " ".join(loader.ran[0])

    assert "--mode open --rate 1000 --duration 2s" in await command(mode="open", rate=1000, duration="2s")
    assert "--rate 0.5 --requests 2000" in await command(mode="open", rate=0.5, requests=2000)
    assert "--arrivals poisson --spin" in await command(mode="open", rate=1000, arrivals="poisson", spin=True)
    ramp = await command(mode="ramp", **{"from": 1, "step": 0.1, "to": 20, "per_step": "20x"})
    assert "--mode ramp --from 1 --step 0.1 --to 20 --per-step 20x" in ramp
    assert "--duration" not in ramp
    assert "--new-connections" in await command(new_connections=True)
    several = await command(paths=["/a", "/b", "/c"])
    assert "http://10.0.0.1/a --path /b --path /c" in several
    assert "load http://10.0.0.1:8080/x" in await command(url="http://$server:8080/x")
    assert "load http://198.51.100.7/x" in await command(url="http://198.51.100.7/x")


async def test_the_probe_serves_on_its_own_address() -> None:
    machine = server()
    await workload(server="probe", body="1KiB", warmup="0s").prepare(ScriptedStage([machine], [client(CLOSED)]))
    assert machine.ran == [[machine.probe, "serve", "--listen", "10.0.0.1:9001", "--body", "1024"]]


async def test_the_probe_waits_before_each_reply_where_it_is_told_to() -> None:
    for delay, words in (("0s", []), ("20500us", ["--delay", "0.0205s"])):
        machine = server()
        await workload(server="probe", delay=delay, warmup="0s").prepare(ScriptedStage([machine], [client(CLOSED)]))
        assert machine.ran == [[machine.probe, "serve", "--listen", "10.0.0.1:9001", "--body", "402", *words]]


async def test_in_pairs_each_client_loads_its_own_server() -> None:
    servers = [server("server0", "10.0.0.1"), server("server1", "10.0.0.3")]
    clients = [client(CLOSED, "client0"), client(CLOSED, "client1")]
    stage = ScriptedStage(servers, clients, connect="pairs")
    one = workload(duration="1s")
    await one.prepare(stage)
    await one.run(stage)
    assert [len(machine.ran) for machine in servers] == [1, 1]
    for machine, address in zip(clients, ("10.0.0.1", "10.0.0.3"), strict=True):
        assert {argv[2] for argv in machine.ran} == {f"http://{address}/"}
    await one.finish(stage)
    assert [machine.started[0].stopped for machine in servers] == [1, 1]


async def test_finish_stops_all_servers_even_when_a_machine_is_gone() -> None:
    servers = [server("server0", "10.0.0.1"), server("server1", "10.0.0.3")]
    stage = ScriptedStage(servers, [client(CLOSED), client(CLOSED)], connect="pairs")
    one = workload()
    await one.prepare(stage)
    servers[1].lost = True
    await one.finish(stage)
    assert [machine.started[0].stopped for machine in servers] == [1, 1]


# ── Waiting for the server ────────────────────────────────────────────────────────────────────────────────────────


def answering(*documents: Callable[[list[str]], Document]) -> ScriptedMachine:
    """A client whose requests are answered one way after the other; the last way stays."""
    ways = list(documents)

    def answer(argv: list[str]) -> Completed:
        return printed((ways.pop(0) if len(ways) > 1 else ways[0])(argv))

    return ScriptedMachine("client0", "10.0.0.2", answer)


async def test_over_a_link_that_loses_all_no_connection_is_waited_for() -> None:
    """But for a service elsewhere, to which the link does not lead."""
    machine, loader = server(), client(CLOSED)
    lost = ScriptedStage([machine], [loader], link=LinkSpec(loss=1.0))
    with pytest.raises(ToolFailed, match="HTTP needs a TCP connection, and none comes about; the link is told to lose"):
        await workload().prepare(lost)
    assert (machine.ran, loader.ran) == ([], [])
    await workload(url="http://10.9.9.9/").prepare(lost)


async def test_a_server_that_starts_slowly_is_waited_for() -> None:
    loader = answering(lambda argv: REFUSED, lambda argv: REFUSED, one_reply)
    await workload(warmup="0s").prepare(ScriptedStage([server()], [loader]))
    assert len(loader.ran) == 3


async def test_a_server_that_ends_at_once_is_reported_with_its_words() -> None:
    ended = Completed(status=255, stderr=b"(network.c.604) bind() 0.0.0.0:80: Address already in use")
    stage = ScriptedStage([server(ended=ended)], [answering(lambda argv: REFUSED)])
    with pytest.raises(ToolFailed, match=r"server0: lighttpd ended with status 255.*Address already in use"):
        await workload().prepare(stage)


async def test_a_server_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_server, "READY", 0.0)
    machine = server()
    stage = ScriptedStage([machine], [answering(lambda argv: REFUSED)])
    with pytest.raises(ToolFailed, match=r"did not answer with 200.*1 refused; lighttpd said: stopped in its prime"):
        await workload().prepare(stage)


async def test_a_page_that_is_not_there_is_not_waited_for() -> None:
    loader = answering(lambda argv: changed(one_reply(argv), status={"2xx": 0, "4xx": 1}, status_codes={"404": 1}))
    with pytest.raises(ToolFailed, match=r"/nope answers 404 instead of 200") as refused:
        await workload(path="/nope").prepare(ScriptedStage([server()], [loader]))
    assert len(loader.ran) == 1
    assert refused.value.remedy.endswith("has /, /1k, /100k, /1m and /heavy.php")


async def test_of_several_pages_it_is_told_that_one_is_not_there() -> None:
    replies = {"status": {"2xx": 1, "4xx": 2}, "status_codes": {"200": 1, "404": 2}}
    loader = answering(lambda argv: changed(one_reply(argv), **replies))
    with pytest.raises(ToolFailed, match=r"one of http://10.0.0.1/a and /b, /c answers 2 times 404 instead of 200"):
        await workload(paths=["/a", "/b", "/c"]).prepare(ScriptedStage([server()], [loader]))


# ── From documents to responses ───────────────────────────────────────────────────────────────────────────────────


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
    assert found.responses.keys() == workload().responses.keys()
    assert all(response.by_client is None for response in found.responses.values())
    assert json.loads(found.artifacts["load-0.json"]) == CLOSED
    assert (found.invalid, found.warnings) == (None, ())


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
        expected = CLOSED["latency_ns"][percentile] / 1e9
        # Where a rank lies between two requests, the one library takes the lower and the other the upper.
        assert value(same, f"latency_{percentile}") == pytest.approx(expected, rel=0.005)
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


async def test_requests_without_a_reply_are_errors() -> None:
    found = await measured(workload(), changed(CLOSED, errors={"client_timeout": CLOSED["requests"]["completed"]}))
    assert value(found, "errors") == pytest.approx(0.5)
    assert found.responses["errors"].scale == "difference"


async def test_a_load_of_which_nothing_was_served_is_a_failure_and_no_zero() -> None:
    with pytest.raises(ToolFailed, match=r"not one request was served \(1 refused\)"):
        await measured(workload(), REFUSED)


async def test_a_time_that_was_not_observed_is_left_out() -> None:
    none = {"p50": None, "p99": None, "count": 0}
    found = await measured(workload(), changed(CLOSED, connect_ns=none))
    assert "connect_p50" not in found.responses


RAMP = {"mode": "ramp", "from": 1, "step": 1, "to": 20}


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


# ── Whether the instrument can be believed ────────────────────────────────────────────────────────────────────────

OPEN_LOOP = {"mode": "open", "rate": 1000, "duration": "2s"}


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


# ── What is not a document ────────────────────────────────────────────────────────────────────────────────────────


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
    with pytest.raises(ToolFailed, match=r"no load\.v1"):
        load_document.parse(text, "client0")


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
