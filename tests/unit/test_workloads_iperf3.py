"""How iperf3 is run, and what a study may say of it."""

from typing import Any

import pytest
from pydantic import ValidationError

from nearmetal.errors import TimedOut, ToolFailed
from nearmetal.model import Completed, LinkSpec, Measurement
from nearmetal.units import AS_WRITTEN
from nearmetal.workloads.iperf3 import STARTS, Iperf3
from nearmetal.workloads.iperf3.parameters import Iperf3Parameters
from tests.unit.iperf3_runs import TCP, workload
from tests.unit.workloads_stage import ScriptedMachine, ScriptedStage, golden, said

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


@pytest.mark.parametrize(
    ("file", "asked"), [("udp", {"protocol": "udp", "rate": "20Mbit/s"}), ("tcp", {}), ("busy", {})]
)
async def test_a_server_that_has_not_heard_that_it_was_tried_is_waited_for(file: str, asked: dict[str, str]) -> None:
    server, clients = machines(1, said("iperf3/busy.json"), said(f"iperf3/{file}.json"))
    stage = ScriptedStage([server], clients)
    if file != "busy":
        found = await life(workload(**asked), stage)
        assert [warning.code for warning in found.warnings] == ["started-again"]
        assert len(stage.limits) == 2
        return
    with pytest.raises(ToolFailed, match="the server is busy"):
        await life(workload(**asked), stage)
    assert len(stage.limits) == STARTS


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


async def test_a_greeting_that_hangs_is_told_as_no_answer() -> None:
    """iperf3's own connection comes about, and then its word is lost again and again."""

    def hanging(argv: list[str]) -> Completed:
        raise TimedOut("it did not end", "client0")

    server = ScriptedMachine("server0", "10.0.0.1", lambda argv: Completed(status=0))
    stage = ScriptedStage([server], [ScriptedMachine("client0", "10.0.0.2", hanging)], link=LinkSpec(loss=0.3))
    with pytest.raises(ToolFailed, match=r"client0: no iperf3 answers .*; the link is told to lose 30 %"):
        await life(workload(), stage)


@pytest.mark.parametrize("protocol", [{}, {"protocol": "udp", "rate": "1Mbit/s"}])
async def test_a_link_that_loses_all_is_named_at_once(protocol: dict[str, str]) -> None:
    server, (client,) = machines(1, Completed(status=0, stdout=TCP))
    with pytest.raises(ToolFailed, match="needs a TCP connection, and none comes about; the link is told to lose 100"):
        await life(workload(**protocol), ScriptedStage([server], [client], link=LinkSpec(loss=1.0)))
    assert (server.ran, client.ran) == ([], [])


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
