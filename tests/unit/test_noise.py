"""Listening to CPUs: what the probe heard, as the observer and the workload `noise` tell it."""

import json
from typing import Any

import pytest

from nearmetal.errors import BadInput, ToolFailed
from nearmetal.lab.cpus import run_queue
from nearmetal.lab.cpus.noise import build_listen_command, parse_heard
from nearmetal.model import Completed
from nearmetal.observers import noise as observer
from nearmetal.workloads.noise import NoiseParameters, NoiseWorkload

from .workloads_stage import ScriptedMachine, ScriptedStage

PROBE = ScriptedMachine.probe


def cpu(number: int, gaps: int = 40, ticks: int | None = 500) -> dict[str, Any]:
    lines = [] if ticks is None else [{"line": "LOC", "count": ticks}, {"line": "24", "count": 3}]
    return {
        "cpu": number,
        "elapsed_ns": 2_000_000_000,
        "threshold_ns": 5000,
        "gaps": {"count": gaps, "share": 0.04, "longest_ns": 3_000_000},
        "causes": {"interrupts": lines, "local_timer": ticks},
    }


def document(*cpus: dict[str, Any]) -> bytes:
    return json.dumps({"schema": "noise.v1", "cpus": cpus}).encode()


def stage(ended: Completed) -> ScriptedStage:
    server = ScriptedMachine("server", "10.111.0.1", lambda argv: ended, server_ended=ended)
    made = ScriptedStage([server], [])
    made.cpus = {"server": [0, 1]}
    return made


def test_all_cpus_are_listened_to_at_once() -> None:
    assert build_listen_command("probe", [2, 0, 1], 0.5) == [
        "probe",
        "noise",
        "--json",
        "--cpus",
        "0-2",
        "--duration",
        "0.5s",
    ]


def test_times_are_seconds_and_ticks_those_of_the_cpus_own_timer() -> None:
    (one,) = parse_heard(document(cpu(1)), "server").values()
    assert (one.seconds, one.longest) == (2.0, 0.003)
    assert one.counters == {"gaps": 40, "share": 0.04, "longest": 0.003, "ticks": 500}


def test_a_kernel_that_tells_no_interrupts_had_not_none() -> None:
    assert parse_heard(document(cpu(1, ticks=None)), "server")[1].ticks is None


def test_a_cpu_without_ticks_had_none() -> None:
    silent = cpu(1) | {"causes": {"interrupts": [{"line": "24", "count": 3}], "local_timer": 0}}
    assert parse_heard(document(silent), "server")[1].ticks == 0


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"cpus": [{}]}', b'{"cpus": [null]}', b"\xff"])
def test_what_is_no_document_is_told(text: bytes) -> None:
    with pytest.raises(ToolFailed, match="what the probe heard cannot be read"):
        parse_heard(text, "server")


# ── The workload ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_workload_listens_to_the_last_cpu_and_tells_rates() -> None:
    made = stage(Completed(status=0, stdout=document(cpu(1))))
    measured = await NoiseWorkload(NoiseParameters(duration=2.0)).run(made)
    assert made.servers[0].ran == [build_listen_command(PROBE, [1], 2.0)]  # type: ignore[attr-defined]
    assert {name: one.value for name, one in measured.responses.items()} == {
        "lost": 0.04,
        "gaps": 20.0,
        "longest": 0.003,
        "ticks": 250.0,
        "interrupts": 251.5,
    }
    assert {(one.better, one.scale) for one in measured.responses.values()} == {("lower", "difference")}
    assert measured.artifacts == {"noise.json": document(cpu(1))}
    assert made.limits[0] > 2.0


async def test_without_interrupts_told_there_is_no_response_of_ticks() -> None:
    measured = await NoiseWorkload(NoiseParameters()).run(
        stage(Completed(status=0, stdout=document(cpu(1, ticks=None))))
    )
    assert set(measured.responses) == {"lost", "gaps", "longest"}


async def test_silence_is_zero_and_counts() -> None:
    silent = cpu(1, gaps=0, ticks=0) | {"gaps": {"count": 0, "share": 0.0, "longest_ns": 0}}
    measured = await NoiseWorkload(NoiseParameters()).run(stage(Completed(status=0, stdout=document(silent))))
    assert {name for name, one in measured.responses.items() if one.value} == {"interrupts"}


async def test_a_probe_that_could_not_listen_is_told_in_its_words() -> None:
    with pytest.raises(ToolFailed, match="could not listen: there is no CPU 1"):
        await NoiseWorkload(NoiseParameters()).run(stage(Completed(status=1, stderr=b"there is no CPU 1\n")))


# ── The observer ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_observer_listens_to_every_cpu_of_the_server() -> None:
    text = document(cpu(0), cpu(1, gaps=2))
    made = stage(Completed(status=0, stdout=text))
    seen = await (await observer.NoiseObserver(True).start(made)).stop()
    assert made.servers[0].ran == [build_listen_command(PROBE, [0, 1], observer.SECONDS)]  # type: ignore[attr-defined]
    assert seen.artifacts == {"noise-0.json": text}
    assert seen.counters["server-0"]["0"]["gaps"] == 40
    assert seen.counters["server-0"]["1"]["gaps"] == 2


async def test_the_observer_never_runs_while_a_trial_measures() -> None:
    assert observer.NoiseObserver.around


async def test_an_observer_that_fails_says_so() -> None:
    watch = await observer.NoiseObserver(True).start(stage(Completed(status=2, stderr=b"no such CPU")))
    with pytest.raises(ToolFailed, match="no such CPU"):
        await watch.stop()


@pytest.mark.parametrize("setting", [False, 1, "yes"])
def test_the_observer_is_on_or_not_asked_for(setting: Any) -> None:
    with pytest.raises((ValueError, BadInput)):
        observer.NoiseObserver(setting)


# ── What the host did meanwhile ───────────────────────────────────────────────────────────────────────────────────


def test_threads_waited_as_the_scheduler_counts() -> None:
    before = run_queue.parse_accounts("7 1000000000 500000000 10\n8 5 5 1\n9 4 4 4\n")
    after = run_queue.parse_accounts("7 1750000000 750000000 17\n8 5 5 1\n10 1 1 1\n")
    assert run_queue.find_totals(before, after) == run_queue.ThreadTotals(ran=0.75, waited=0.25, turns=7)


@pytest.mark.parametrize("text", ["", "7 0 0 0\n"])
def test_a_kernel_that_does_not_count_says_nothing(text: str) -> None:
    assert run_queue.find_totals(run_queue.parse_accounts(text), run_queue.parse_accounts(text)) is None
