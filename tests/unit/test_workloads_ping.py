"""ping: what it asks of the probe, and what is read out of what the real probe printed."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from nearmetal.errors import ToolFailed
from nearmetal.lab.machines import kernel
from nearmetal.model import Completed, LinkSpec, Measurement
from nearmetal.units import AS_WRITTEN
from nearmetal.workloads.ping import Ping, PingParameters, parse
from tests.unit.workloads_stage import ScriptedMachine, ScriptedStage, golden, said

DELAYED = golden("ping/delayed.json")
"""5 ms of delay and 5 % of loss each way; asked and answered on one kernel."""
SERVE = ["/run/nearmetal/nearmetal-probe", "clock", "serve", "--listen", "10.0.0.1:9123"]


def workload(**parameters: Any) -> Ping:
    return Ping(PingParameters.model_validate(parameters, context=AS_WRITTEN))


def changed(**values: Any) -> Completed:
    return Completed(status=0, stdout=json.dumps({**json.loads(DELAYED), **values}).encode())


def machines(*answers: Completed) -> tuple[ScriptedMachine, list[ScriptedMachine]]:
    server = ScriptedMachine("server0", "10.0.0.1", lambda argv: Completed(status=0))
    clients = [
        ScriptedMachine(f"client{n}", f"10.0.0.{n + 2}", lambda argv, answer=answer: answer)  # type: ignore[misc]
        for n, answer in enumerate(answers)
    ]
    return server, clients


async def life(one: Ping, stage: ScriptedStage) -> Measurement:
    try:
        await one.prepare(stage)
        return await one.run(stage)
    finally:
        await one.finish(stage)


async def found(*answers: Completed, kernel: str = "boot") -> Measurement:
    server, clients = machines(*answers)
    server.boot_id = kernel
    return await life(workload(), ScriptedStage([server], clients))


def values(measurement: Measurement) -> dict[str, float]:
    return {name: response.value for name, response in measurement.responses.items()}


# ── What it reads ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_on_one_kernel_there_is_no_offset_to_take_off() -> None:
    measured = await found(said("ping/delayed.json"))
    assert values(measured) == {
        "rtt_p50": 11156331e-9,
        "rtt_p99": 36156703e-9,
        "loss": pytest.approx(27 / 300),
        "forward_p50": pytest.approx(5277193e-9),
        "backward_p50": pytest.approx(5468455e-9),
    }
    assert measured.warnings == ()
    assert measured.events == 273
    assert measured.artifacts == {"ping-0.json": DELAYED}


async def test_between_two_kernels_the_offset_is_taken_off_and_its_uncertainty_told() -> None:
    ahead = 3_000_000_000
    ways = {
        name: {key: value + sign * ahead for key, value in json.loads(DELAYED)[name].items()}
        for name, sign in (("forward_ns", 1), ("backward_ns", -1))
    }
    measured = await found(changed(**ways, offset_ns=ahead), kernel="another")
    assert values(measured)["forward_p50"] == pytest.approx(5277193e-9)
    assert values(measured)["backward_p50"] == pytest.approx(5468455e-9)
    (warning,) = measured.warnings
    assert warning.code == "one-way-uncertain"
    assert "5.07 ms" in warning.text


async def test_an_offset_that_is_well_known_needs_no_warning() -> None:
    assert (await found(changed(bound_ns=500_000), kernel="another")).warnings == ()


async def test_clocks_that_cannot_be_compared_are_told() -> None:
    reasons = ["the server's clock was set meanwhile"]
    measured = await found(changed(trustworthy=False, reasons=reasons), kernel="another")
    assert [warning.code for warning in measured.warnings] == ["one-way-uncertain", "clocks-untrusted"]
    assert reasons[0] in measured.warnings[1].text
    assert (await found(changed(trustworthy=False, reasons=reasons))).warnings == ()


async def test_of_several_clients_the_slowest_counts_and_loss_is_that_of_all_packets() -> None:
    slower = {"min": 1, "p50": 20_000_000, "p99": 30_000_000, "max": 40_000_000}
    measured = await found(said("ping/delayed.json"), changed(round_trip_ns=slower, asked=100, answered=100))
    assert measured.responses["rtt_p50"].by_client == (11156331e-9, 0.02)
    assert values(measured)["rtt_p50"] == 0.02
    assert values(measured)["rtt_p99"] == 36156703e-9
    assert values(measured)["loss"] == pytest.approx(27 / 400)
    assert measured.artifacts.keys() == {"ping-0.json", "ping-1.json"}


NOTHING = Completed(
    status=2, stderr=b"nearmetal-probe: nobody answers at 10.0.0.1:9123; is `clock serve` running there?\n"
)
LOSSY = LinkSpec(loss=0.99)


async def lossy(*answers: Completed) -> Measurement:
    server, clients = machines(*answers)
    return await life(workload(), ScriptedStage([server], clients, link=LOSSY))


async def test_nothing_that_comes_back_over_a_link_that_loses_frames_is_a_loss_of_all() -> None:
    measured = await lossy(NOTHING)
    assert values(measured) == {"loss": 1.0}
    assert (measured.events, measured.artifacts) == (0, {})
    assert [warning.code for warning in measured.warnings] == ["nothing-came-back"]


async def test_of_several_clients_times_are_missing_where_one_got_nothing() -> None:
    measured = await lossy(NOTHING, said("ping/delayed.json"))
    assert measured.responses.keys() == {"loss"}
    assert measured.responses["loss"].by_client == (1.0, 1 - 273 / 300)
    assert 0.7 < measured.responses["loss"].value < 1
    assert measured.artifacts.keys() == {"ping-1.json"}


async def test_over_a_link_that_loses_frames_each_client_is_answered_once_before_if_it_can_be() -> None:
    """A question for a hardware address that is lost would hold up a second of packets, or have them dropped."""
    server, clients = machines(NOTHING, said("ping/delayed.json"))
    answers = iter([NOTHING, said("ping/delayed.json"), said("ping/delayed.json")])
    clients.append(ScriptedMachine("client2", "10.0.0.4", lambda argv: next(answers)))
    await life(workload(), ScriptedStage([server], clients, link=LOSSY))
    before = [[argv for argv in client.ran if argv[argv.index("--count") + 1] == "3"] for client in clients]
    assert [len(asked) for asked in before] == [3, 1, 2]
    server, (client,) = machines(said("ping/delayed.json"))
    await life(workload(), ScriptedStage([server], [client]))
    assert len(client.ran) == 2, "over another it has been answered already"


async def test_nothing_is_no_loss_where_the_server_is_why() -> None:
    answers = iter([said("ping/delayed.json"), NOTHING])
    server, clients = machines(NOTHING)
    server._answer = lambda argv: next(answers)
    with pytest.raises(ToolFailed, match="nothing came back; server0 asked by itself ended with status 2"):
        await life(workload(), ScriptedStage([server], clients, link=LOSSY))
    with pytest.raises(ToolFailed, match="cannot reach"):
        await lossy(Completed(status=2, stderr=b"cannot reach 10.0.0.1:9123; is there a route to it?"))


def test_machines_on_one_kernel_are_told_from_others() -> None:
    server, (client, _) = machines(Completed(status=0), Completed(status=0))
    for here, there, same in (("k+1.2", "k+3.4", True), ("k", "k", True), ("k+1.2", "j+1.2", False)):
        server.boot_id, client.boot_id = here, there
        assert kernel.is_shared(client, server) is same


# ── What it does not read ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"schema": "clock.v2"}, "schema: Input should be 'clock.v1'"),
        ({"answered": 0}, "answered: Input should be greater than 0"),
        ({"answered": 301}, "301 answers to 300 questions"),
        ({"asked": 0}, "asked"),
        ({"round_trip_ns": None}, "round_trip_ns"),
        ({"forward_ns": {"p50": 1}}, "forward_ns.min"),
        ({"bound_ns": "5"}, "bound_ns"),
    ],
)
async def test_a_document_without_a_figure_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ToolFailed, match=f"client0: what the probe printed is no clock.v1: .*{message}"):
        await found(changed(**values))


@given(st.integers(0, len(DELAYED) - 3))
def test_output_that_was_cut_off_is_refused(length: int) -> None:
    with pytest.raises(ToolFailed, match=r"no clock\.v1"):
        parse(DELAYED[:length], "client0")


@given(st.binary(max_size=200))
def test_anything_at_all_is_refused(text: bytes) -> None:
    with pytest.raises(ToolFailed, match=r"no clock\.v1"):
        parse(text, "client0")


async def test_a_run_that_fails_is_told_in_the_probes_words() -> None:
    answers = [Completed(status=0), Completed(status=2, stderr=b"nobody answers at 10.0.0.1:9123")]
    server, (client,) = machines(Completed(status=0))
    client._answer = lambda argv: answers.pop(0)
    with pytest.raises(ToolFailed, match="clock ask ended with status 2: nobody answers"):
        await life(workload(), ScriptedStage([server], [client]))


async def test_a_server_that_ends_is_told_with_its_words() -> None:
    ended = Completed(status=2, stderr=b"cannot listen on 10.0.0.1:9123")
    server = ScriptedMachine("server0", "10.0.0.1", lambda argv: Completed(status=0), server_ended=ended)
    _, clients = machines(Completed(status=2, stderr=b"nobody answers"))
    with pytest.raises(ToolFailed, match="server0: clock serve ended with status 2: cannot listen"):
        await life(workload(), ScriptedStage([server], clients))


# ── What it runs ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_clients_ask_one_server_together() -> None:
    server, clients = machines(changed(), changed())
    stage = ScriptedStage([server], clients)
    await life(workload(interval="20ms", duration="3s", timeout="2s"), stage)
    assert server.ran == [SERVE]
    assert [one.stopped for one in server.started] == [1]
    options = ["--interval", "0.02s", "--timeout", "2s", "--json"]
    ask = ["/run/nearmetal/nearmetal-probe", "clock", "ask", "10.0.0.1:9123", "--count"]
    assert clients[0].ran == [[*ask, "3", *options], [*ask, "150", *options]]
    assert clients[1].ran == [[*ask, "150", *options]]
    assert len(stage.limits) == 1


async def test_pairs_face_each_other() -> None:
    server, clients = machines(changed(), changed())
    other = ScriptedMachine("server1", "10.0.0.9", lambda argv: Completed(status=0))
    await life(workload(), ScriptedStage([server, other], clients, connect="pairs"))
    assert len(server.started) == len(other.started) == 1
    assert clients[1].ran[-1][3] == "10.0.0.9:9123"


async def test_finish_takes_a_lost_machine_as_it_is() -> None:
    server, clients = machines(changed())
    one = workload()
    await one.prepare(ScriptedStage([server], clients))
    server.lost = True
    await one.finish(ScriptedStage([server], clients))
    assert server.started[0].stopped == 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"interval": 0.01}, "has no unit"),
        ({"interval": "1us"}, "greater than or equal to 0.0001"),
        ({"interval": "2s", "duration": "1s"}, "no second packet"),
        ({"interval": "1ms", "duration": "2h"}, "are more than 1000000"),
        ({"count": 5}, "Extra inputs"),
    ],
)
def test_bad_parameters_are_refused_with_what_would_be_right(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        workload(**given)
    assert message in caught.value.errors()[0]["msg"]


def test_the_count_follows_from_interval_and_duration() -> None:
    assert workload().Parameters.model_validate({"interval": 0.1, "duration": 0.3}).count == 3  # type: ignore[attr-defined]
