"""What is read out of what the real iperf3 printed, and what is not."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearmetal.errors import ToolFailed
from nearmetal.model import Completed, Measurement
from tests.unit.iperf3_runs import TCP, workload
from tests.unit.workloads_stage import golden, said

UDP = golden("iperf3/udp-lossy.json")
SERVER = ("server_output_json", "end", "sum_received")
"""What the server says that it received."""


def measured(*files: str, **parameters: Any) -> Measurement:
    ended = [said(f"iperf3/{file}.json") for file in files]
    return workload(**parameters).make_measurement(ended, [f"client{index}" for index in range(len(files))])


def arrived(file: str, until: float = 2.0) -> float:
    """Bit/s, by the server's intervals that begin after the warm-up and end before that second."""
    sums = [one["sum"] for one in json.loads(golden(f"iperf3/{file}.json"))["server_output_json"]["intervals"]]
    sums = [one for one in sums if not one["omitted"] and one["end"] < until + 0.01]
    return float(sum(one["bytes"] for one in sums) * 8 / sums[-1]["end"])


def values(measurement: Measurement) -> dict[str, float]:
    return {name: response.value for name, response in measurement.responses.items()}


# ── What it reads ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_tcp_is_what_the_receiver_got() -> None:
    found = measured("tcp")
    # The sender's 12,862,584 bytes in 2.000126 s are more than the link of 50 Mbit/s carries.
    assert values(found) == {"bandwidth": pytest.approx(47.8e6, rel=0.001), "transfer": 12002032, "retransmits": 0}
    assert found.events == 12002032
    assert found.artifacts == {"iperf3-0.json": TCP}
    assert found.warnings == ()
    assert {response.by_client for response in found.responses.values()} == {None}


def test_reverse_is_what_the_client_got() -> None:
    assert values(measured("tcp-reverse", direction="reverse"))["transfer"] == 11866360


def test_both_ways_are_told_apart_and_added_up() -> None:
    found = values(measured("tcp-both", direction="both"))
    assert found["bandwidth_forward"] == pytest.approx(arrived("tcp-both"), rel=0.001)
    assert found["bandwidth_reverse"] == 11469608 * 8 / 2.000191
    assert found["bandwidth"] == found["bandwidth_forward"] + found["bandwidth_reverse"]
    assert (found["transfer"], found["retransmits"]) == (11219104 + 11469608, 3)


def test_the_warm_up_is_no_part_of_the_figures_but_of_the_events_that_cost_is_divided_by() -> None:
    found = measured("tcp-omit", warmup="1s")
    assert values(found)["transfer"] == 11985096
    # What the server received in all, as its intervals tell.
    server = json.loads(golden("iperf3/tcp-omit.json"))["server_output_json"]
    received = sum(interval["sum"]["bytes"] for interval in server["intervals"])
    assert found.events == pytest.approx(received, rel=0.01)


def test_udp_has_jitter_and_loss() -> None:
    found = measured("udp-lossy", protocol="udp", rate="70Mbit/s")
    assert values(found) == {
        "bandwidth": pytest.approx(48.5e6, rel=0.002),
        "transfer": 13590928,
        "jitter": pytest.approx(0.3264209209791542e-3),
        "loss": 2693 / 12079,
    }
    assert found.warnings == ()


OMITTED: dict[str, Any] = {"protocol": "udp", "rate": "2Mbit/s", "warmup": "1s", "intervals": 2}
"""What the golden runs with a warm-up and loss were asked for."""


@pytest.mark.parametrize(
    ("file", "parameters", "lost", "sent"),
    [
        # Of the client's 95 of 345 lost, 32 were lost in the warm-up.
        ("udp-omit-loss", {}, 63, 347),
        ("udp-omit-loss-reverse", {"direction": "reverse"}, 66, 346),
        # Either way loses what does not fit, each counted by the end that received it.
        ("udp-omit-loss-both", {"direction": "both", "rate": "20Mbit/s"}, 1632 + 559, 4323 + 2238),
        # The warm-up ends within the only interval, which tells 93 of 517.
        ("udp-omit-loss-straddled", {"intervals": 1}, 63, 346),
        # Here the client tells that 5969 of 5160 were lost.
        ("udp-omit-crowded", {"rate": "30Mbit/s"}, 5969, 7487),
        ("udp-omit-late", {}, 73, 388),
    ],
)
def test_loss_is_that_of_the_measured_window_alone(file: str, parameters: dict[str, Any], lost: int, sent: int) -> None:
    assert values(measured(file, **{**OMITTED, **parameters}))["loss"] == lost / sent


@pytest.mark.parametrize(
    ("file", "direction"),
    [("udp-omit-loss", "forward"), ("udp-omit-loss-reverse", "reverse"), ("udp-omit-loss-both", "both")],
)
def test_the_receivers_intervals_after_the_warm_up_say_the_same(file: str, direction: str) -> None:
    document = json.loads(golden(f"iperf3/{file}.json"))
    server, client = document["server_output_json"]["intervals"], document["intervals"]
    sums = {
        "forward": [one["sum"] for one in server],
        "reverse": [one["sum"] for one in client],
        "both": [one["sum"] for one in server] + [one.get("sum_bidir_reverse") for one in client],
    }[direction]
    lost, sent = (sum(one[name] for one in sums if not one["omitted"]) for name in ("lost_packets", "packets"))
    rate = "20Mbit/s" if direction == "both" else "2Mbit/s"
    found = values(measured(file, **{**OMITTED, "direction": direction, "rate": rate}))
    assert found["loss"] == lost / sent
    assert found["transfer"] == sum(one["bytes"] for one in sums if not one["omitted"])


def test_datagrams_of_which_none_arrived_are_a_loss_of_all() -> None:
    """Thirteen of 60 kB each, over a link that loses a fifth of all frames. iperf3 itself tells 0 lost of 0."""
    given: dict[str, Any] = {"protocol": "udp", "rate": "3Mbit/s", "length": "60000B"}
    found = measured("udp-none", **given)
    assert (values(found), found.events) == ({"loss": 1.0}, 0)
    assert [warning.code for warning in found.warnings] == ["nothing-arrived"]


def test_a_client_of_which_nothing_arrived_adds_nothing_but_loss() -> None:
    """Thirteen datagrams of one are lost; of the other's none."""
    two = measured("udp", "udp-none", protocol="udp", rate="70Mbit/s")
    one = measured("udp", protocol="udp", rate="70Mbit/s")
    assert values(two)["bandwidth"] == values(one)["bandwidth"]
    assert two.responses["bandwidth"].by_client == (values(one)["bandwidth"], 0.0)
    assert two.responses.keys() == {"bandwidth", "transfer", "loss"}, "jitter is known of one alone"
    assert two.responses["loss"].by_client == (values(one)["loss"], 1.0)
    assert 0 < values(two)["loss"] < 0.01


def test_retransmits_of_the_warm_up_do_not_count() -> None:
    found = values(measured("tcp-omit-both", warmup="1s", intervals=2, direction="both", rate="20Mbit/s"))
    # One way 16 more were sent again in the warm-up, the other way 21.
    assert found["retransmits"] == 27 + 19 + 21 + 17


def test_each_way_is_timed_by_the_clock_of_its_receiver() -> None:
    """The server hears of the end 1.2 s late, from behind a full queue; what it received is divided by its own time."""
    found = measured("udp-omit-loss-both", **{**OMITTED, "direction": "both", "rate": "20Mbit/s"})
    link = 10e6 * 1448 / 1490
    assert values(found)["bandwidth_forward"] == pytest.approx(link, rel=0.005)
    assert values(found)["bandwidth_reverse"] == pytest.approx(link, rel=0.005)
    assert found.warnings == ()


def test_a_server_that_hears_late_of_the_end_makes_nothing_slower() -> None:
    """Its 456,120 bytes arrived within 2.14 s; the word of the end was lost, and came after 2.61 s."""
    found = values(measured("udp-omit-late", **OMITTED))["bandwidth"]
    assert found == pytest.approx(arrived("udp-omit-late"), rel=0.001)
    assert arrived("udp-omit-late") > 1.15 * 456120 * 8 / 2.614151


def test_an_interval_of_the_warm_up_is_none_whatever_it_is_called() -> None:
    """The warm-up may end between the instant of a report and its printing: then iperf3 calls it not omitted."""
    document = json.loads(golden("iperf3/udp-omit-loss.json"))
    warm = document["server_output_json"]["intervals"][0]["sum"]
    warm.update(start=-1.0, end=-2e-5, omitted=False)
    one = workload(**OMITTED)
    found = one.make_measurement([Completed(status=0, stdout=json.dumps(document).encode())], ["client0"])
    assert values(found) == values(measured("udp-omit-loss", **OMITTED))


@pytest.mark.parametrize("start", [0.0, 0.2, 0.6, 1.0])
def test_an_interval_that_the_warm_up_ends_in_lasts_since_that_end(start: float) -> None:
    """Its start is by the warm-up's clock, whichever that is, and its bytes are those since the end."""
    document = json.loads(golden("iperf3/udp-omit-loss.json"))
    intervals = document["server_output_json"]["intervals"]
    first = next(one["sum"] for one in intervals if not one["sum"]["omitted"])
    first.update(start=start, seconds=abs(first["end"] - start))
    one = workload(**OMITTED)
    found = one.make_measurement([Completed(status=0, stdout=json.dumps(document).encode())], ["client0"])
    assert values(found) == values(measured("udp-omit-loss", **OMITTED))


def test_without_intervals_within_the_time_bandwidth_is_of_all_the_server_counted() -> None:
    found = values(measured("udp-omit-loss-straddled", **{**OMITTED, "intervals": 1}))
    text = golden("iperf3/udp-omit-loss-straddled.json")
    without = changed(text, "server_output_json", "intervals", to=[])
    whole = values(workload(**{**OMITTED, "intervals": 1}).make_measurement([without], ["client0"]))
    assert whole["bandwidth"] == json.loads(text)["server_output_json"]["end"]["sum_received"]["bits_per_second"]
    assert found["bandwidth"] == pytest.approx(whole["bandwidth"], rel=0.01)


def test_udp_both_ways() -> None:
    found = values(measured("udp-both", protocol="udp", rate="10Mbit/s", direction="both"))
    assert found["loss"] == 0
    assert found["jitter"] == pytest.approx((0.27672055007561164e-3 + 0.3184548569898073e-3) / 2)


@pytest.mark.parametrize("file", ["udp", "udp-omit", "udp-reverse"])
def test_udp_without_loss(file: str) -> None:
    direction = "reverse" if file == "udp-reverse" else "forward"
    assert values(measured(file, protocol="udp", rate="20Mbit/s", direction=direction))["loss"] == 0


def test_several_clients_add_up() -> None:
    found = measured("udp", "udp-lossy", protocol="udp", rate="20Mbit/s")
    one, other = (values(measured(file, protocol="udp", rate="20Mbit/s")) for file in ("udp", "udp-lossy"))
    assert found.responses["bandwidth"].value == one["bandwidth"] + other["bandwidth"]
    assert found.responses["bandwidth"].by_client == (one["bandwidth"], other["bandwidth"])
    assert found.responses["jitter"].value == pytest.approx((one["jitter"] + other["jitter"]) / 2)
    # Of all datagrams, and not the mean of the clients' shares.
    assert found.responses["loss"].value == 2693 / (3452 + 12079)
    assert found.responses["loss"].by_client == (0, 2693 / 12079)
    assert found.artifacts.keys() == {"iperf3-0.json", "iperf3-1.json"}


def test_streams_in_parallel() -> None:
    assert values(measured("tcp-parallel", parallel=2))["transfer"] == 12005160
    assert values(measured("udp-parallel", parallel=2, protocol="udp", rate="20Mbit/s"))["loss"] == 0


def test_a_sender_that_does_not_keep_its_rate_is_told() -> None:
    (warning,) = measured("udp", protocol="udp", rate="900Mbit/s").warnings
    assert warning.code == "rate-not-reached"
    assert "client 0) offered 900 Mbit/s and sent 20 Mbit/s" in warning.text
    (warning,) = measured("udp-reverse", protocol="udp", rate="900Mbit/s", direction="reverse").warnings
    assert warning.text.startswith("the server")


def test_a_sender_at_its_limit_is_told() -> None:
    document = json.loads(TCP)
    document["end"]["cpu_utilization_percent"]["host_total"] = 99.2
    found = workload().make_measurement([Completed(status=0, stdout=json.dumps(document).encode())], ["client0"])
    assert [warning.code for warning in found.warnings] == ["client-limited"]


def test_clients_that_do_not_start_together_are_told() -> None:
    ended = [Completed(status=0, stdout=TCP, late=late) for late in (0.001, 0.083)]
    (warning,) = workload().make_measurement(ended, ["client0", "client1"]).warnings
    assert (warning.code, "82 ms" in warning.text) == ("uneven-start", True)
    ended = [Completed(status=0, stdout=TCP, late=late) for late in (5.001, 5.003)]
    assert workload().make_measurement(ended, ["client0", "client1"]).warnings == ()


# ── What it does not read ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("refused", "unable to connect to server: Connection refused"),
        ("busy", "the server is busy running a test"),
        ("server-ended", "the server has terminated"),
        ("lost-start", "unable to read from stream socket"),
        ("port-taken", "Address already in use"),
    ],
)
def test_an_error_is_told_in_iperf3s_words_though_it_ends_with_0(file: str, words: str) -> None:
    with pytest.raises(ToolFailed, match=f"client0: iperf3 failed: .*{words}"):
        measured(file)


def test_another_test_than_the_one_asked_for_is_refused() -> None:
    for file, parameters in (
        ("tiny", {}),
        ("tcp-reverse", {}),
        ("tcp-parallel", {}),
        ("tcp", {"duration": "3s"}),
        ("tcp", {"protocol": "udp", "rate": "1Mbit/s"}),
    ):
        with pytest.raises(ToolFailed, match="another test than the one asked for"):
            measured(file, **parameters)


def test_no_output_and_bad_options_are_told() -> None:
    for ended, message in (
        (Completed(status=0), "printed nothing: it said nothing"),
        (Completed(status=0, stderr=b"killed"), "printed nothing: killed"),
        (Completed(status=1, stderr=b"iperf3: parameter error"), "ended with status 1: iperf3: parameter error"),
        (Completed(status=127, stderr=b"not found"), "ended with status 127: not found"),
        (Completed(status=0, stdout=b"{}"), "cannot be read: start"),
    ):
        with pytest.raises(ToolFailed, match=message):
            workload().make_measurement([ended], ["client0"])


def changed(text: bytes, *path: str, to: Any) -> Completed:
    document = json.loads(text)
    place = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = to
    return Completed(status=0, stdout=json.dumps(document).encode())


@pytest.mark.parametrize(
    ("path", "to", "message"),
    [
        (("intervals",), [], "intervals"),
        ((*SERVER, "bytes"), 0, "not one arrived"),
        (("end", "sum_sent", "seconds"), 1.2, r"stopped after 1\.2 s of 2 s"),
        (("end", "sum_sent", "retransmits"), None, "retransmits"),
        (SERVER, None, "end.sum_received"),
        (("server_output_json",), None, "server_output_json"),
        (("server_output_json", "intervals"), None, "server_output_json.intervals"),
        ((*SERVER, "bytes"), "12", None),
        ((*SERVER, "bytes"), -1, "greater than or equal to 0"),
    ],
)
def test_a_document_without_a_figure_is_refused(path: tuple[str, ...], to: Any, message: str | None) -> None:
    ended = changed(TCP, *path, to=to)
    if message is None:
        assert values(workload().make_measurement([ended], ["client0"]))["transfer"] == 12
        return
    with pytest.raises(ToolFailed, match=message):
        workload().make_measurement([ended], ["client0"])


@pytest.mark.parametrize(
    ("name", "to", "message"),
    [
        ("packets", 0, "jitter and loss"),
        ("jitter_ms", None, "jitter and loss"),
        ("lost_packets", 20_000, "more datagrams were lost than sent"),
    ],
)
def test_udp_without_a_figure_is_refused(name: str, to: Any, message: str) -> None:
    with pytest.raises(ToolFailed, match=message):
        workload(protocol="udp", rate="70Mbit/s").make_measurement([changed(UDP, *SERVER, name, to=to)], ["client0"])


def test_what_arrived_twice_is_no_negative_loss() -> None:
    one = workload(protocol="udp", rate="70Mbit/s")
    found = one.make_measurement([changed(UDP, *SERVER, "lost_packets", to=-3)], ["client0"])
    assert found.responses["loss"].value == 0


@given(st.integers(0, len(TCP) - 3), st.sampled_from([("tcp", TCP), ("udp", UDP)]))
def test_output_that_was_cut_off_is_refused(length: int, what: tuple[str, bytes]) -> None:
    one = workload(**({"protocol": "udp", "rate": "70Mbit/s"} if what[0] == "udp" else {}))
    with pytest.raises(ToolFailed):
        one.make_measurement([Completed(status=0, stdout=what[1][:length])], ["client0"])


Json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.data(), st.sampled_from([("tcp", TCP), ("udp", UDP)]), Json)
def test_rubbish_in_the_place_of_any_value_never_reads_as_zero(
    data: Any, what: tuple[str, bytes], rubbish: Any
) -> None:
    document = json.loads(what[1])
    place, keys = document, list(document)
    while True:
        key = data.draw(st.sampled_from(sorted(keys, key=str)))
        inner = place[key]
        if isinstance(inner, dict) and inner and data.draw(st.booleans()):
            place, keys = inner, list(inner)
        elif isinstance(inner, list) and inner and data.draw(st.booleans()):
            place, keys = inner, list(range(len(inner)))
        else:
            place[key] = rubbish
            break
    one = workload(**({"protocol": "udp", "rate": "70Mbit/s"} if what[0] == "udp" else {}))
    try:
        found = one.make_measurement([Completed(status=0, stdout=json.dumps(document).encode())], ["client0"])
    except ToolFailed:
        return
    assert values(found)["bandwidth"] > 0
    assert values(found)["transfer"] > 0
    assert found.events > 0


@given(st.binary(max_size=300))
def test_anything_at_all_is_refused(text: bytes) -> None:
    with pytest.raises(ToolFailed):
        workload().make_measurement([Completed(status=0, stdout=text)], ["client0"])
