"""Averages of what the probe sampled, on lines that it printed in a guest and on its host, and on rounder ones."""

import json
from typing import Any

import pytest

from nearmetal.model import CPU_STATES
from nearmetal.observers.usage.samples import Own, Span, average_samples, parse_samples

from .workloads_stage import golden

GUEST, HOST = (parse_samples(golden(f"sample/{name}.jsonl")) for name in ("guest", "host"))
ALWAYS = Span(0, 2**63)
SECOND = 1_000_000_000


def sample(end: int, usr: float, **more: Any) -> dict[str, Any]:
    """One second up to `end`, of two CPUs of which the second idles."""
    idle = dict.fromkeys(CPU_STATES, 0.0) | {"idle": 100.0}
    busy = idle | {"usr": usr, "idle": 100.0 - usr}
    both = idle | {"usr": usr / 2, "idle": 100.0 - usr / 2}
    return {
        "monotonic_ns": end * SECOND,
        "elapsed_ns": SECOND,
        "cpus": {"0": busy, "1": idle, "all": both},
        "interfaces": {},
        "cgroups": {},
        "disks": {},
        "pressure": {},
        "context_switches": 0,
        "interrupts": {},
        "memory": {"total": 100, "used": 10 * end},
        **more,
    }


@pytest.mark.parametrize("told", [GUEST, HOST])
def test_golden_lines_are_read_whole(told: Any) -> None:
    assert (len(told.samples), told.header["interval_ns"], told.end["missed"]) == (3, SECOND, 0)


@pytest.mark.parametrize("told", [GUEST, HOST])
def test_the_states_of_each_cpu_add_up(told: Any) -> None:
    found = average_samples(told.samples, ALWAYS, Own())
    cpus = {name.split(".")[1] for name in found if name.startswith("cpu.")}
    assert cpus == set(told.samples[0]["cpus"])
    for cpu in cpus:
        whole = sum(value for name, value in found.items() if name.startswith(f"cpu.{cpu}."))
        assert whole == pytest.approx(100, abs=0.05)


def test_golden_averages() -> None:
    """By hand from the lines: rates are counts over the 3.0 s, shares weighted by the intervals' lengths."""
    seconds = sum(one["elapsed_ns"] for one in GUEST.samples) / SECOND
    found = average_samples(GUEST.samples, ALWAYS, Own())
    written = sum(one["disks"]["vda"]["written_bytes"] for one in GUEST.samples)
    assert found["disk.vda.written"] == pytest.approx(written / seconds, rel=1e-3)
    operations = sum(one["disks"]["vda"][way] for one in GUEST.samples for way in ("reads", "writes"))
    assert found["disk.vda.tps"] == pytest.approx(operations / seconds, rel=1e-3)
    usr = sum(one["cpus"]["all"]["usr"] * one["elapsed_ns"] for one in GUEST.samples) / SECOND / seconds
    assert found["cpu.all.usr"] == pytest.approx(usr, abs=0.01)
    spent = sum(one["cgroups"]["server-0"]["cpu_ns"] for one in HOST.samples)
    whole = sum(one["elapsed_ns"] for one in HOST.samples)
    assert average_samples(HOST.samples, ALWAYS, Own())["group.server-0.cpu"] == pytest.approx(
        100 * spent / whole, rel=1e-3
    )


def test_a_sample_counts_by_how_much_of_it_lies_in_the_span() -> None:
    samples = [sample(1, 0), sample(2, 100), sample(3, 0)]
    assert average_samples(samples, Span(SECOND, 2 * SECOND), Own())["cpu.0.usr"] == 100
    assert average_samples(samples, Span(SECOND // 2, 2 * SECOND), Own())["cpu.0.usr"] == pytest.approx(66.67)
    assert average_samples(samples, Span(0, 3 * SECOND), Own())["memory.used"] == 20
    assert average_samples(samples, Span(5 * SECOND, 6 * SECOND), Own()) == {}


def test_what_did_not_happen_is_left_out() -> None:
    still = {"vda": {"tps": 0.0, "read_bytes": 0, "written_bytes": 0, "busy": 0.0}}
    found = average_samples([sample(1, 0, disks=still)], ALWAYS, Own())
    assert found == {"cpu.0.idle": 100, "cpu.1.idle": 100, "cpu.all.idle": 100, "memory.total": 100, "memory.used": 10}


def test_a_machine_on_its_hosts_kernel_has_only_what_is_its_own() -> None:
    nic = {way: {"bytes": 402, "packets": 1, "dropped": 0} for way in ("received", "sent")}
    found = average_samples([sample(1, 60, interfaces={"data": nic})], ALWAYS, Own([0], kernel=False))
    assert found == {
        "cpu.0.usr": 60,
        "cpu.0.idle": 40,
        "cpu.all.usr": 60,
        "cpu.all.idle": 40,
        "nic.data.received": 402,
        "nic.data.received_packets": 1,
        "nic.data.sent": 402,
        "nic.data.sent_packets": 1,
    }


def test_a_control_group_is_told_by_name() -> None:
    group = {"cpu_percent": 25.0, "throttled_ns": SECOND // 2, "memory_bytes": 7, "processes": 3, "read_bytes": 512}
    found = average_samples([sample(1, 0, cgroups={"server-0": group})], ALWAYS, Own())
    assert {name.removeprefix("group.server-0."): value for name, value in found.items() if "group" in name} == {
        "cpu": 25,
        "throttled": 0.5,
        "memory": 7,
        "processes": 3,
        "read": 512,
    }


def test_lines_of_a_sampler_that_was_killed_are_read_up_to_the_cut() -> None:
    whole = golden("sample/guest.jsonl")
    cut = parse_samples(whole[: whole.index(b"\n", 2000) + 300])
    assert cut.header == GUEST.header
    assert cut.samples == GUEST.samples[: len(cut.samples)]
    assert (0 < len(cut.samples) < 3, cut.end) == (True, None)


@pytest.mark.parametrize("content", [b"", b"\xff\n", b"[]\nnull\n7\n", json.dumps({"schema": "other"}).encode()])
def test_rubbish_is_nothing(content: bytes) -> None:
    assert parse_samples(content) == parse_samples(b"")
