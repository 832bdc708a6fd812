"""iperf3: its options, and what is read out of what the real program printed."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from nearmetal.errors import ToolFailed
from nearmetal.model import Completed, LinkSpec, Measurement
from nearmetal.units import AS_WRITTEN
from nearmetal.workloads._iperf3_parameters import Iperf3Parameters
from nearmetal.workloads.iperf3 import STARTS, Iperf3
from tests.unit.workloads_stage import ScriptedMachine, ScriptedStage, golden, said

TWO: dict[str, Any] = {"duration": "2s", "intervals": 4, "warmup": "0s"}
"""What the golden runs were asked for."""
TCP = golden("iperf3/tcp.json")
UDP = golden("iperf3/udp-lossy.json")
SERVER = ("server_output_json", "end", "sum_received")
"""What the server says that it received."""


def workload(**parameters: Any) -> Iperf3:
    return Iperf3(Iperf3Parameters.model_validate({**TWO, **parameters}, context=AS_WRITTEN))


def measured(*files: str, **parameters: Any) -> Measurement:
    ended = [said(f"iperf3/{file}.json") for file in files]
    return workload(**parameters).measurement(ended, [f"client{index}" for index in range(len(files))])


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
    found = one.measurement([Completed(status=0, stdout=json.dumps(document).encode())], ["client0"])
    assert values(found) == values(measured("udp-omit-loss", **OMITTED))


def test_without_intervals_within_the_time_bandwidth_is_of_all_the_server_counted() -> None:
    found = values(measured("udp-omit-loss-straddled", **{**OMITTED, "intervals": 1}))
    text = golden("iperf3/udp-omit-loss-straddled.json")
    without = changed(text, "server_output_json", "intervals", to=[])
    whole = values(workload(**{**OMITTED, "intervals": 1}).measurement([without], ["client0"]))
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
    found = workload().measurement([Completed(status=0, stdout=json.dumps(document).encode())], ["client0"])
    assert [warning.code for warning in found.warnings] == ["client-limited"]


def test_clients_that_do_not_start_together_are_told() -> None:
    ended = [Completed(status=0, stdout=TCP, late=late) for late in (0.001, 0.083)]
    (warning,) = workload().measurement(ended, ["client0", "client1"]).warnings
    assert (warning.code, "82 ms" in warning.text) == ("uneven-start", True)
    ended = [Completed(status=0, stdout=TCP, late=late) for late in (5.001, 5.003)]
    assert workload().measurement(ended, ["client0", "client1"]).warnings == ()


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
            workload().measurement([ended], ["client0"])


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
        assert values(workload().measurement([ended], ["client0"]))["transfer"] == 12
        return
    with pytest.raises(ToolFailed, match=message):
        workload().measurement([ended], ["client0"])


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
        workload(protocol="udp", rate="70Mbit/s").measurement([changed(UDP, *SERVER, name, to=to)], ["client0"])


def test_what_arrived_twice_is_no_negative_loss() -> None:
    one = workload(protocol="udp", rate="70Mbit/s")
    found = one.measurement([changed(UDP, *SERVER, "lost_packets", to=-3)], ["client0"])
    assert found.responses["loss"].value == 0


@given(st.integers(0, len(TCP) - 3), st.sampled_from([("tcp", TCP), ("udp", UDP)]))
def test_output_that_was_cut_off_is_refused(length: int, what: tuple[str, bytes]) -> None:
    one = workload(**({"protocol": "udp", "rate": "70Mbit/s"} if what[0] == "udp" else {}))
    with pytest.raises(ToolFailed):
        one.measurement([Completed(status=0, stdout=what[1][:length])], ["client0"])


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
        found = one.measurement([Completed(status=0, stdout=json.dumps(document).encode())], ["client0"])
    except ToolFailed:
        return
    assert values(found)["bandwidth"] > 0
    assert values(found)["transfer"] > 0
    assert found.events > 0


@given(st.binary(max_size=300))
def test_anything_at_all_is_refused(text: bytes) -> None:
    with pytest.raises(ToolFailed):
        workload().measurement([Completed(status=0, stdout=text)], ["client0"])


# ── What it runs ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(autouse=True)
def nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearmetal.workloads.iperf3.SETTLED", 0.0)


def machines(clients: int, *answers: Completed) -> tuple[ScriptedMachine, list[ScriptedMachine]]:
    """A server, and clients that give the answers, each the same, to the runs; the last for all that follow."""

    def answering() -> Any:
        left = list(answers)

        def answer(argv: list[str]) -> Completed:
            if "--bytes" in argv:
                return said("iperf3/tiny.json")
            return left.pop(0) if len(left) > 1 else left[0]

        return answer

    server = ScriptedMachine("server0", "10.0.0.1", lambda argv: Completed(status=0))
    return server, [ScriptedMachine(f"client{n}", f"10.0.0.{n + 2}", answering()) for n in range(clients)]


async def life(one: Iperf3, stage: ScriptedStage) -> Measurement:
    try:
        await one.prepare(stage)
        return await one.run(stage)
    finally:
        await one.finish(stage)


async def test_each_client_has_a_server_and_a_port_of_its_own() -> None:
    server, clients = machines(2, Completed(status=0, stdout=TCP))
    stage = ScriptedStage([server], clients)
    await life(workload(), stage)
    common = ["--interval", "0.5", "--json"]
    assert server.ran == [
        ["iperf3", "--server", "--bind", "10.0.0.1", "--port", port, *common] for port in ("5201", "5202")
    ]
    assert [one.stopped for one in server.started] == [1, 1]
    for client, port in zip(clients, ("5201", "5202"), strict=True):
        hello, run = client.ran
        reach = ["iperf3", "--client", "10.0.0.1", "--port", port, "--json"]
        assert hello == [*reach, "--bytes", "1K"]
        options = ["--time", "2", "--interval", "0.5", "--omit", "0", "--parallel", "1", "--get-server-output"]
        assert run == [*reach, *options]
    assert len(stage.limits) == 1


async def test_pairs_face_each_other() -> None:
    server, clients = machines(2, Completed(status=0, stdout=TCP))
    other = ScriptedMachine("server1", "10.0.0.9", lambda argv: Completed(status=0))
    await life(workload(), ScriptedStage([server, other], clients, connect="pairs"))
    assert len(server.started) == len(other.started) == 1
    assert clients[1].ran[1][:5] == ["iperf3", "--client", "10.0.0.9", "--port", "5202"]


async def test_the_rate_is_shared_by_the_streams() -> None:
    server, clients = machines(1, said("iperf3/udp-parallel.json"))
    one = workload(protocol="udp", rate="20Mbit/s", parallel=2, length="1KiB", direction="forward")
    await life(one, ScriptedStage([server], clients))
    assert clients[0].ran[1][-5:] == ["--udp", "--bitrate", "10000000", "--length", "1024"]


async def test_a_run_whose_first_datagram_was_lost_is_started_again() -> None:
    server, clients = machines(2, said("iperf3/lost-start.json"), said("iperf3/udp.json"))
    stage = ScriptedStage([server], clients)
    found = await life(workload(protocol="udp", rate="20Mbit/s"), stage)
    assert [warning.code for warning in found.warnings] == ["started-again"]
    assert len(stage.limits) == 2


async def test_a_server_that_is_not_yet_free_again_is_waited_for() -> None:
    files = ("lost-start", "busy", "udp")
    server, clients = machines(1, *(said(f"iperf3/{file}.json") for file in files))
    found = await life(workload(protocol="udp", rate="20Mbit/s"), ScriptedStage([server], clients))
    assert [warning.code for warning in found.warnings] == ["started-again"]


async def test_a_server_that_was_busy_from_the_start_is_told() -> None:
    server, clients = machines(1, said("iperf3/busy.json"))
    stage = ScriptedStage([server], clients)
    with pytest.raises(ToolFailed, match="the server is busy"):
        await life(workload(protocol="udp", rate="20Mbit/s"), stage)
    assert len(stage.limits) == 1


async def test_a_network_that_loses_every_first_datagram_is_told() -> None:
    server, clients = machines(1, said("iperf3/lost-start.json"))
    stage = ScriptedStage([server], clients)
    with pytest.raises(ToolFailed, match="unable to read from stream socket"):
        await life(workload(protocol="udp", rate="20Mbit/s"), stage)
    assert len(stage.limits) == STARTS


async def test_what_is_not_understood_is_kept() -> None:
    server, clients = machines(1, Completed(status=1, stdout=b'{"half": ', stderr=b"iperf3: interrupted"))
    with pytest.raises(ToolFailed) as caught:
        await life(workload(), ScriptedStage([server], clients))
    assert caught.value.said == {"iperf3-0.json": b'{"half": ', "iperf3-0.err": b"iperf3: interrupted"}


async def test_the_links_own_loss_is_named_where_iperf3_gets_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearmetal.workloads.iperf3.READY", 0.0)
    server = ScriptedMachine("server0", "10.0.0.1", lambda argv: Completed(status=0))
    client = ScriptedMachine("client0", "10.0.0.2", lambda argv: said("iperf3/refused.json"))
    stage = ScriptedStage([server], [client])
    stage.link = LinkSpec(loss=0.95)
    with pytest.raises(ToolFailed, match=r"no iperf3 answers .*; the link is told to lose 95 %") as caught:
        await life(workload(), stage)
    assert caught.value.said == {"iperf3-0.json": golden("iperf3/refused.json")}


async def test_a_server_that_ends_is_told_with_its_words() -> None:
    taken = Completed(status=1, stdout=golden("iperf3/port-taken.json"), stderr=b"iperf3: exiting\n")
    server = ScriptedMachine("server0", "10.0.0.1", lambda argv: Completed(status=0), server_ended=taken)
    client = ScriptedMachine("client0", "10.0.0.2", lambda argv: said("iperf3/refused.json"))
    with pytest.raises(ToolFailed, match=r"server0: iperf3 ended instead of serving: .*Address already in use"):
        await life(workload(), ScriptedStage([server], [client]))


async def test_a_client_without_iperf3_is_told() -> None:
    server, _ = machines(0)
    client = ScriptedMachine("client0", "10.0.0.2", lambda argv: Completed(status=127, stderr=b"no program 'iperf3'"))
    with pytest.raises(ToolFailed, match="client0: iperf3 ended with status 127: no program 'iperf3'"):
        await life(workload(), ScriptedStage([server], [client]))


async def test_finish_takes_a_lost_machine_as_it_is() -> None:
    server, clients = machines(1, Completed(status=0, stdout=TCP))
    one = workload()
    await one.prepare(ScriptedStage([server], clients))
    server.lost = True
    await one.finish(ScriptedStage([server], clients))
    assert server.started[0].stopped == 1


# ── What a study file may say ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"protocol": "sctp"}, "'tcp' or 'udp'"),
        ({"protocol": "udp"}, "needs the `rate`"),
        ({"direction": "up"}, "'forward', 'reverse' or 'both'"),
        ({"rate": 1_000_000}, "has no unit"),
        ({"rate": "1kbit/s", "parallel": 2}, "leaves nothing to each of 2 streams"),
        ({"duration": "1.5s", "intervals": 1}, 'whole seconds; write "2s"'),
        ({"warmup": "0.5s"}, 'whole seconds; write "1s"'),
        ({"duration": "1s", "intervals": 11}, "every 0.1 to 60 s"),
        ({"duration": "700s", "intervals": 10}, "every 0.1 to 60 s"),
        ({"protocol": "udp", "rate": "1Mbit/s", "length": "64KiB"}, "at most 65507 bytes"),
        ({"parallel": 129}, "less than or equal to 128"),
        ({"parallel": True}, "valid integer"),
        ({"seconds": 1}, "Extra inputs"),
    ],
)
def test_bad_parameters_are_refused_with_what_would_be_right(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Iperf3(Iperf3Parameters.model_validate(given, context=AS_WRITTEN))
    assert message in caught.value.errors()[0]["msg"]
