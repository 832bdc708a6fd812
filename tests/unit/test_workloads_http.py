"""The HTTP workload: what it asks of the machines, and how it waits for the server."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nearmetal.errors import ToolFailed
from nearmetal.model import Completed, LinkSpec, Workload
from nearmetal.workloads import _server, http
from tests.unit.http_load import (
    CLOSED,
    OPEN,
    RAMPS,
    REFUSED,
    Document,
    changed,
    client,
    is_first_request,
    measured,
    one_reply,
    printed,
    server,
    workload,
)
from tests.unit.workloads_stage import ScriptedMachine, ScriptedStage


async def seeds(trial: int, mode: str = "open") -> list[int]:
    """What each of three clients was told to draw its arrivals by, in a trial of such a seed."""
    given: dict[str, Any] = {"open": {"rate": 1000, "duration": "2s"}, "ramp": {"from": 1, "step": 1, "to": 20}}
    loaders = [client(RAMPS[""] if mode == "ramp" else OPEN, f"client{index}") for index in range(3)]
    stage = ScriptedStage([server()], loaders)
    stage.seed = trial
    await workload(mode=mode, arrivals="poisson", **given[mode]).run(stage)
    return [int(loader.ran[0][loader.ran[0].index("--seed") + 1]) for loader in loaders]


@pytest.mark.parametrize("mode", ["open", "ramp"])
async def test_each_client_of_each_trial_has_arrivals_of_its_own(mode: str) -> None:
    one, other = await seeds(1, mode), await seeds(2, mode)
    assert len({*one, *other}) == 6
    assert await seeds(1, mode) == one
    assert all(0 <= seed < 2**63 for seed in one)


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


async def test_what_is_sent_becomes_the_generators_options_and_files(tmp_path: Path) -> None:
    order = tmp_path / "order.json"
    order.write_bytes(b"{}")
    mix = [{"path": "/a", "weight": 9}, {"path": "/b", "send_file": str(order)}]
    loader = client(CLOSED)
    one = workload(url="https://$server:8443/", headers={"Accept": "x"}, mix=mix, tls={"insecure": True})
    stage = ScriptedStage([server()], [loader])
    await one.prepare(stage)
    (place,) = loader.files
    assert loader.files[place] == b"{}" and place.startswith(loader.probe)
    first, warming = loader.ran
    assert first[first.index("--requests") + 1] == "2"
    for argv, weight in ((first, 1), (warming, 9)):
        assert argv[2] == "https://10.0.0.1:8443/"
        assert argv[argv.index("--header") + 1] == "Accept: x"
        told = json.loads(argv[argv.index("--mix") + 1])
        assert told == [{"path": "/a", "weight": weight}, {"path": "/b", "weight": 1, "send_file": place}]
        assert "--insecure" in argv
    await one.finish(stage)
    assert loader.ran[-1] == ["rm", "-f", place]


async def test_a_text_is_sent_from_a_file_so_that_any_length_fits() -> None:
    loader = client(CLOSED)
    await workload(send="x" * 60_000, method="PUT").prepare(ScriptedStage([server()], [loader]))
    ((place, content),) = loader.files.items()
    assert content == b"x" * 60_000
    assert all(argv[3:7] == ["--method", "PUT", "--data", f"@{place}"] for argv in loader.ran)


async def test_the_paths_of_a_mix_stand_in_no_url() -> None:
    loader, machine = client(CLOSED), server()
    mix = [{"path": "/heavy.php"}, {"path": "/1k"}]
    await workload(mix=mix).prepare(ScriptedStage([machine], [loader]))
    assert {argv[2] for argv in loader.ran} == {"http://10.0.0.1/"}
    assert machine.ran == [["lighttpd", "-D", "-f", "/etc/nearmetal/lighttpd-php.conf"]]


async def test_a_certificate_that_is_refused_is_not_waited_for() -> None:
    said = b"nearmetal-probe: load: 10.0.0.1:443 has a certificate of an unknown CA; give the certificate of its CA"
    loader = ScriptedMachine("client0", "10.0.0.2", lambda argv: Completed(status=2, stderr=said))
    with pytest.raises(ToolFailed, match=r"10.0.0.1:443 has a certificate of an unknown CA") as refused:
        await workload(url="https://$server/").prepare(ScriptedStage([server()], [loader]))
    assert "`tls`" in refused.value.remedy and len(loader.ran) == 1


async def test_a_handshakes_time_and_cpu_are_responses_over_tls() -> None:
    spread = {"p50": 2_000_000, "p90": 3_000_000, "p99": 4_000_000, "count": 9}
    document = changed(CLOSED, handshake_ns=spread, handshake_cpu_ns={**spread, "p50": 300_000})
    one = workload(url="https://$server/")
    found = (await measured(one, document)).responses
    assert (found["handshake_p50"].value, found["handshake_cpu_p50"].value) == (0.002, 0.0003)
    assert found.keys() <= one.responses.keys()
    assert "handshake_p50" not in workload().responses


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
