"""httperf: its options, and what is read out of what the real program printed."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from nearmetal.errors import ToolFailed
from nearmetal.model import Completed, Measurement, Workload
from nearmetal.units import AS_WRITTEN
from nearmetal.workloads.httperf import SLACK, Httperf, output
from nearmetal.workloads.httperf.parameters import HttperfParameters
from tests.unit.workloads_stage import ScriptedMachine, ScriptedStage, golden, said

NORMAL = golden("httperf/normal.out").decode()
SUMMARIES = ("normal", "several-calls", "stalls", "all-timeouts", "errors", "refused", "descriptors", "one")


def workload(**parameters: Any) -> Httperf:
    return Httperf(HttperfParameters.model_validate({"rate": 100, **parameters}, context=AS_WRITTEN))


def measured(*files: str, **parameters: Any) -> Measurement:
    return workload(**parameters).make_measurement([said(f"httperf/{file}.out") for file in files])


def values(measurement: Measurement) -> dict[str, float]:
    return {name: response.value for name, response in measurement.responses.items()}


def read(file: str) -> output.Figures:
    return output.parse_figures(golden(f"httperf/{file}.out").decode())


# ── What it reads ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_figure_is_read() -> None:
    assert read("normal") == {
        "connections.burst_max": 2,
        "connections.opened": 1200,
        "connections.rate": 99.9,
        "connections.period_ms": 10.0,
        "connections.concurrent_max": 6,
        "connections.replies_each": 1.0,
        "requests.sent": 1200,
        "requests.rate": 99.9,
        "requests.period_ms": 10.0,
        "requests.bytes_each": 63.0,
        "replies.count": 1200,
        "duration_s": 12.014,
        "connection_ms.min": 18.5,
        "connection_ms.mean": 21.0,
        "connection_ms.max": 52.7,
        "connection_ms.median": 20.5,
        "connection_ms.stddev": 2.0,
        "connect_ms.mean": 0.0,
        "reply_rate.min": 99.6,
        "reply_rate.mean": 99.8,
        "reply_rate.max": 100.0,
        "reply_rate.stddev": 0.3,
        "reply_rate.samples": 2,
        "first_byte_ms.mean": 21.0,
        "transfer_ms.mean": 0.0,
        "reply_bytes.header": 109,
        "reply_bytes.content": 402,
        "reply_bytes.footer": 0,
        "reply_bytes.total": 511,
        "status.1xx": 0,
        "status.2xx": 1200,
        "status.3xx": 0,
        "status.4xx": 0,
        "status.5xx": 0,
        "cpu_s.user": 1.31,
        "cpu_s.system": 9.87,
        "cpu_percent.user": 10.9,
        "cpu_percent.system": 82.2,
        "cpu_percent.total": 93.1,
        "net.kibibytes_per_s": 56.0,
        "net.megabits_per_s": 0.5,
        "errors.total": 0,
        "errors.client-timo": 0,
        "errors.socket-timo": 0,
        "errors.connrefused": 0,
        "errors.connreset": 0,
        "errors.fd-unavail": 0,
        "errors.addrunavail": 0,
        "errors.ftab-full": 0,
        "errors.other": 0,
    }


@pytest.mark.parametrize("file", SUMMARIES)
def test_every_number_of_a_summary_is_a_figure(file: str) -> None:
    summary = golden(f"httperf/{file}.out").decode().split("\n", 1)[1].replace("*10^6", "")
    printed = [float(number) for number in re.findall(r"(?<![\d.])\d+(?:\.\d+)?(?![\dx.])", summary)]
    assert len(printed) == len(read(file)) == 50
    observed = [value for value in read(file).values() if value is not None]
    assert sorted(printed)[-len(observed) :] == sorted(observed)  # what was not observed was printed as 0.0


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("normal", {"2xx": 1200}),
        ("errors", {"2xx": 60, "3xx": 40, "4xx": 40, "5xx": 40, "connreset": 20}),
        ("stalls", {"2xx": 239, "client-timo": 61}),
        ("all-timeouts", {"client-timo": 20}),
        ("refused", {"connrefused": 20}),
        ("descriptors", {"client-timo": 35, "fd-unavail": 25}),
    ],
)
def test_replies_and_failures_are_counted_by_class(file: str, expected: dict[str, int]) -> None:
    assert output.count_classes(read(file)) == expected


@pytest.mark.parametrize("file", ["all-timeouts", "refused", "descriptors"])
def test_a_mean_of_nothing_is_no_zero(file: str) -> None:
    found = read(file)
    unobserved = {name for name, value in found.items() if value is None}
    assert {"connection_ms.median", "connect_ms.mean", "first_byte_ms.mean", "reply_bytes.total"} < unobserved
    assert {"reply_rate.min", "reply_rate.stddev"} < unobserved
    with pytest.raises(ToolFailed, match=r"observed nothing for 'connection_ms\.mean'"):
        output.require_figure(found, "connection_ms.mean")


def test_a_run_shorter_than_a_sample_has_no_reply_rate() -> None:
    assert read("several-calls")["reply_rate.mean"] is None
    assert read("several-calls")["reply_rate.samples"] == 0


# ── From figures to responses ─────────────────────────────────────────────────────────────────────────────────────


def test_one_clients_responses() -> None:
    found = measured("normal", connections=1200)
    assert values(found) == {
        "throughput": pytest.approx(1200 / 12.014),
        "transactions": 1200,
        "latency_mean": pytest.approx(0.0210),
        "first_byte_mean": pytest.approx(0.0210),
        "connection_stddev": pytest.approx(0.0020),
        "errors": 0,
    }
    assert found.responses.keys() <= workload().responses.keys()
    assert workload().primary in found.responses
    assert (found.events, found.invalid) == (1200, None)
    assert found.artifacts["httperf-0.txt"] == golden("httperf/normal.out")
    assert json.loads(found.artifacts["httperf-0.json"]) == read("normal")


def test_a_request_among_several_of_a_connection_has_its_share_of_the_connections_life() -> None:
    found = values(measured("several-calls", rate=250, calls=5, connections=100))
    assert found["latency_mean"] == pytest.approx(0.1084 / 5)
    assert found["connect_mean"] == pytest.approx(0.0004)
    assert found["transactions"] == 500


def test_the_spread_of_the_reply_rate_is_told_of_as_many_samples_as_were_published() -> None:
    nine = golden("httperf/normal.out").replace(b"stddev 0.3 (2 samples)", b"stddev 0.3 (9 samples)")
    found = workload(connections=1200).make_measurement([Completed(status=0, stdout=nine)])
    assert found.responses["reply_rate_stddev"].value == 0.3
    assert "reply_rate_stddev" not in values(measured("normal", connections=1200))


def test_errors_are_the_share_of_all_that_should_have_been_served() -> None:
    assert values(measured("errors", connections=200))["errors"] == pytest.approx(0.5)
    assert values(measured("stalls", connections=300, timeout="200ms"))["errors"] == pytest.approx(61 / 300)


def test_several_clients_add_up_and_their_times_are_means_of_all_replies() -> None:
    found = measured("normal", "stalls", connections=1200)
    assert values(found)["throughput"] == pytest.approx(1200 / 12.014 + 239 / 3.192)
    assert values(found)["transactions"] == 1439
    assert values(found)["latency_mean"] == pytest.approx((1200 * 0.0210 + 239 * 0.0261) / 1439)
    assert found.responses["latency_mean"].by_client == pytest.approx((0.0210, 0.0261))
    assert values(found)["errors"] == pytest.approx(1 - 1439 / 2400)
    assert sorted(found.artifacts) == ["httperf-0.json", "httperf-0.txt", "httperf-1.json", "httperf-1.txt"]


def test_a_client_without_a_reply_has_no_latency() -> None:
    found = measured("normal", "refused", connections=1200)
    assert values(found)["latency_mean"] == pytest.approx(0.0210)
    assert found.responses["throughput"].by_client == pytest.approx((1200 / 12.014, 0.0))


@pytest.mark.parametrize(
    ("file", "seen"), [("refused", "20 connrefused"), ("descriptors", "35 client-timo, 25 fd-unavail")]
)
def test_a_load_of_which_nothing_was_served_is_a_failure_and_no_zero(file: str, seen: str) -> None:
    with pytest.raises(ToolFailed, match=rf"not one request was served \({seen}\)"):
        measured(file)


def test_a_connection_too_short_for_httperf_is_a_failure_and_no_zero() -> None:
    fast = NORMAL.replace("avg 21.0", "avg 0.0")
    with pytest.raises(ToolFailed, match=r"(?s)too short for it.*kind = \"http\""):
        workload().make_measurement([Completed(status=0, stdout=fast.encode())])


# ── Whether httperf can be believed ───────────────────────────────────────────────────────────────────────────────


def codes(measurement: Measurement) -> list[str]:
    return [warning.code for warning in measurement.warnings]


def test_a_burst_and_a_coarse_clock_are_told() -> None:
    assert codes(measured("normal", connections=1200)) == ["generator-late"]
    assert codes(measured("several-calls", rate=250, calls=5, connections=100)) == []
    late, coarse, *_ = measured("errors", connections=200).warnings
    assert "opened 2 connections in one go" in late.text
    assert (coarse.code, "4.2 ms are rounded by up to 1.2 %" in coarse.text) == ("coarse-clock", True)


def test_requests_without_a_page_are_told() -> None:
    *_, failed, pages = measured("errors", connections=200).warnings
    assert (failed.code, pages.code) == ("requests-failed", "error-pages")
    assert "20 of client 0's 200 connections failed (20 connreset)" in failed.text
    assert "80 of the 180 replies to client 0 were errors (40 4xx, 40 5xx)" in pages.text


def test_httperf_without_descriptors_makes_the_trial_invalid() -> None:
    short = NORMAL.replace("total 0 ", "total 25 ").replace("fd-unavail 0", "fd-unavail 25")
    found = workload(connections=1225).make_measurement([Completed(status=0, stdout=short.encode())])
    assert "25 of 1225 connections never left the client" in (found.invalid or "")


def test_httperf_that_was_too_slow_makes_the_trial_invalid() -> None:
    assert "the rate was not reached" in (measured("normal", rate=200, connections=1200).invalid or "")
    assert "opened 1200 of 1300" in (measured("normal", connections=1300).invalid or "")
    second = measured("normal", "several-calls", connections=1200).invalid
    assert (second or "").startswith("client 1: ")


def test_a_slow_server_is_not_httperfs_fault() -> None:
    for file, connections in (("stalls", 300), ("errors", 200), ("one", 1)):
        assert measured(file, connections=connections, timeout="200ms").invalid is None


# ── What it does not read ─────────────────────────────────────────────────────────────────────────────────────────


@given(st.integers(1, len(NORMAL.splitlines()) - 1))
def test_a_line_that_is_missing_is_noticed(index: int) -> None:
    lines = NORMAL.splitlines()
    without = "\n".join(lines[:index] + lines[index + 1 :])
    if lines[index]:
        with pytest.raises(ToolFailed, match="printed no figure"):
            output.parse_figures(without)
    else:
        assert output.parse_figures(without) == read("normal")


@given(st.integers(0, len(NORMAL) - 2), st.sampled_from(SUMMARIES))
def test_output_that_was_cut_off_is_refused(length: int, file: str) -> None:
    text = golden(f"httperf/{file}.out").decode()
    with pytest.raises(ToolFailed):
        output.parse_figures(text[: min(length, len(text.rstrip()) - 1)])


@given(st.text(alphabet=st.sampled_from("0123456789.-/: \nsnaeinf()%"), max_size=30))
def test_rubbish_in_the_place_of_a_number_is_refused_or_is_a_number(rubbish: str) -> None:
    for number in (" 12.014 ", " 21.0 ", " 99.9 ", "=1200 ", " 402.0 "):
        damaged = NORMAL.replace(number, f"{number[0]}{rubbish} ")
        try:
            found = workload(connections=1200).make_measurement([Completed(status=0, stdout=damaged.encode())])
        except ToolFailed:
            continue
        assert float(rubbish.split()[0]) >= 0
        assert values(found)["latency_mean"] > 0


@given(st.binary(max_size=300))
def test_anything_at_all_is_refused(text: bytes) -> None:
    with pytest.raises(ToolFailed):
        workload().make_measurement([Completed(status=0, stdout=text)])


def test_a_summary_that_contradicts_itself_is_refused() -> None:
    for wrong in (NORMAL.replace("Errors: total 0", "Errors: total 3"), NORMAL.replace("2xx=1200", "2xx=1201")):
        with pytest.raises(ToolFailed, match="httperf printed"):
            output.parse_figures(wrong)
    with pytest.raises(ToolFailed, match="more than once"):
        output.parse_figures(NORMAL + NORMAL)


# ── What it runs ──────────────────────────────────────────────────────────────────────────────────────────────────

FIRST_REPLY = json.loads(golden("load/closed.json"))
FIRST_REPLY["requests"] |= {"completed": 1, "attempted": 1}
FIRST_REPLY["status"] = {"2xx": 1}


def client(printed: Completed) -> ScriptedMachine:
    """A client whose first request is answered, and whose httperf prints the same each time."""

    def answer(argv: list[str]) -> Completed:
        return printed if argv[0] == "httperf" else Completed(status=0, stdout=json.dumps(FIRST_REPLY).encode())

    return ScriptedMachine("client0", "10.0.0.2", answer)


def server() -> ScriptedMachine:
    def answer(argv: list[str]) -> Completed:
        raise AssertionError(f"a server was told to run {argv}")

    return ScriptedMachine("server0", "10.0.0.1", answer)


async def test_a_trial_starts_the_server_asks_once_warms_measures_and_stops() -> None:
    machine, loader = server(), client(said("httperf/several-calls.out"))
    stage = ScriptedStage([machine], [loader])
    one: Workload = workload(rate=250, calls=5, duration="2s", timeout="2500ms", warmup="100ms", path="/1k")
    await one.prepare(stage)
    await one.run(stage)
    assert machine.ran == [["lighttpd", "-D", "-f", "/etc/nearmetal/lighttpd.conf"]]
    same = ["httperf", "--server=10.0.0.1", "--port=80", "--uri=/1k", "--rate=50"]
    assert loader.ran[1:] == [
        [*same, "--num-conns=5", "--num-calls=5", "--timeout=2.5"],
        [*same, "--num-conns=100", "--num-calls=5", "--timeout=2.5"],
    ]
    assert stage.limits[-1] == pytest.approx(2.0 + 6 * 2.5 + SLACK)
    await one.finish(stage)
    assert machine.started[0].stopped == 1


async def test_the_url_becomes_httperfs_options() -> None:
    loader = client(said("httperf/normal.out"))
    await workload(url="http://$server:8080/a/b?c=d").run(ScriptedStage([server()], [loader]))
    assert loader.ran[0][1:5] == [
        *("--server=10.0.0.1", "--port=8080", "--server-name=10.0.0.1:8080", "--uri=/a/b?c=d"),
    ]


@pytest.mark.parametrize(("file", "status"), [("unknown-host", 1), ("ipv6", 1), ("bad-option", 1)])
async def test_a_run_that_fails_is_told_with_httperfs_words(file: str, status: int) -> None:
    words = golden(f"httperf/{file}.err")
    loader = client(Completed(status=status, stderr=words))
    with pytest.raises(ToolFailed, match=r"client0: httperf ended with status 1: ") as caught:
        await workload().run(ScriptedStage([server()], [loader]))
    assert words.decode().splitlines()[-1] in str(caught.value)


# ── What a study file may say ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rate": None}, "valid number"),
        ({"rate": 0}, "greater than or equal to 0.001"),
        ({"connections": 0}, "greater than or equal to 1"),
        ({"calls": True}, "valid integer"),
        ({"connections": 5, "duration": "5s"}, "exclude each other"),
        ({"url": "http://[::1]:80/"}, 'use kind = "http"'),
        ({"url": "http://a/", "path": "/x"}, "the path stands in the URL"),
        ({"path": "--uri"}, "is not a path"),
        ({"body": "1KiB"}, '`body` needs server = "probe"'),
        ({"mode": "open"}, "Extra inputs"),
    ],
)
def test_bad_parameters_are_refused_with_what_would_be_right(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        workload(**given)
    assert message in caught.value.errors()[0]["msg"]


@pytest.mark.parametrize(("seconds", "rate", "connections"), [("2s", 100, 200), ("30s", 0.1, 3), ("1ms", 1, 1)])
def test_a_duration_is_a_number_of_connections(seconds: str, rate: float, connections: int) -> None:
    assert workload(duration=seconds, rate=rate)._parameters.measured_connections == connections
