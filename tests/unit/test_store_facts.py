"""A machine may tell anything of itself: what does not fit is told and left out, and all the rest is shown."""

import copy
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nearmetal.dashboard.run_view import RunView
from nearmetal.report.report_input import read_run_input as read_run
from nearmetal.report.sections.fairness import plugin as fairness
from nearmetal.report.sections.method import plugin as method
from nearmetal.report.sections.verdict_explanations import plugin as why
from nearmetal.report.write import render
from nearmetal.store.facts import sift_facts
from nearmetal.store.run_folder import RunFolder
from tests import journals, plausible_run

SCHEMA = json.loads((Path(__file__).parents[2] / "schemas" / "facts.v1.json").read_text())

FACTS: dict[str, Any] = {
    "schema": "facts.v1",
    "probe": "0.1.0",
    "kernel": {
        "release": "6.1.0-31-amd64",
        "version": "#1 SMP",
        "architecture": "x86_64",
        "command_line": "mitigations=auto quiet",
        "boot_id": "df263fa9-f6f1-4f5c-a38c-48f760eca9cf",
        "uptime_seconds": 7882.54,
    },
    "processor": {
        "vendor": "GenuineIntel",
        "model": "Xeon",
        "flags": ["aes", "avx"],
        "online": "0-1",
        "allowed": "0-1",
        "allowed_count": 2,
    },
    "virtualization": {"hypervisor_flag": True, "hypervisor_signature": "KVMKVMKVM"},
    "memory": {"total_bytes": 536870912, "available_bytes": 400000000, "swap_bytes": 0},
    "limits": {"memory_bytes": None, "cpu_quota": 1.5, "resources": {"open_files": {"soft": 1024, "hard": None}}},
    "clock": {"source": "tsc", "available": ["tsc", "kvm-clock"]},
    "confinement": {"seccomp": "off", "seccomp_filters": 0, "no_new_privileges": False, "capabilities": 40},
    "scheduling": {"nice": 0, "policy": "SCHED_OTHER"},
    "mitigations": {"mds": "Not affected"},
    "sysctls": {"net.ipv4.tcp_congestion_control": "bbr"},
    "settings": {"/sys/kernel/mm/ksm/run": "0"},
    "filesystems": {"/": {"type": "ext4", "source": "/dev/vda", "mounted_at": "/", "options": ["rw"]}},
    "block_devices": {"vda": {"bytes": 274877906944, "rotational": True, "scheduler": "mq-deadline"}},
    "interfaces": {
        "data": {
            "mac": "02:fc:00:00:00:01",
            "mtu": 1500,
            "up": True,
            "driver": "virtio_net",
            "queue_length": 1000,
            "receive_queues": 1,
            "transmit_queues": 1,
            "features": {"tx-checksumming": "on", "rx-gro": "fixed off"},
        }
    },
    "hashes": {"/usr/sbin/lighttpd": "0" * 64, "/usr/bin/iperf3": None},
}

RUBBISH: tuple[Callable[[random.Random], Any], ...] = (
    lambda _: None,
    lambda _: [],
    lambda _: {},
    lambda drawn: drawn.choice([True, False]),
    lambda drawn: drawn.choice([-1, 0, 2**63, 2**64, 10**400]),
    lambda drawn: drawn.choice([0.5, -1e308, float("nan"), float("inf")]),
    lambda drawn: drawn.choice(["", "\ud800", "\x00\x1b[2J", "<script>", "x" * 10_000, "0-1", "-1"]),
    lambda drawn: [drawn.choice([None, 1, "a", ["b"], {"c": 1}])],
    lambda drawn: {
        drawn.choice(["up", "features", "\udfff", "", "a.b"]): drawn.choice([None, 1, "a", ["b"], {"c": 1}])
    },
    lambda _: json.loads("[" * 500 + "]" * 500),
    lambda _: json.loads('{"a":' * 500 + "1" + "}" * 500),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in inner:
        yield from places(part, (*path, name))


def mutate(seed: int) -> Any:
    """Facts of which something is something else, is gone, or is called otherwise; up to four times."""
    drawn = random.Random(seed)
    facts = copy.deepcopy(FACTS)
    for _ in range(drawn.randrange(1, 5)):
        if not (listed := list(places(facts))):
            break
        *way, last = drawn.choice(listed)
        node: Any = facts
        for part in way:
            node = node[part]
        match drawn.randrange(4):
            case 0:
                del node[last]
            case 1 if isinstance(node, dict):
                node[drawn.choice(["offloads", "network", "kernel.command_line", "\ud8ff", "", "up"])] = node.pop(last)
            case _:
                node[last] = drawn.choice(RUBBISH)(drawn)
    return facts


def test_facts_of_the_probe_are_kept_whole() -> None:
    assert sift_facts(FACTS) == (FACTS, ())


def test_each_section_and_key_of_the_probes_schema_is_checked() -> None:
    """What is of another type than its schema says is left out, with its section alone."""
    for name, section in SCHEMA["properties"].items():
        kept, problems = sift_facts({**FACTS, name: ["of another type"]})
        assert kept == {key: value for key, value in FACTS.items() if key != name}
        assert problems == (f"`{name}` cannot be a list",)
        if "$ref" not in section:
            continue
        for key in SCHEMA["$defs"][section["$ref"].rpartition("/")[2]]["properties"]:
            kept, problems = sift_facts({name: {key: {"of": "another type", "n": 1}} | {}})
            if key != "resources":  # a table itself
                assert (kept, problems) == ({}, (f"`{name}.{key}` cannot be a table",))


@pytest.mark.parametrize(
    ("facts", "problem"),
    [
        ([1], "it is no JSON object"),
        ({"schema": "facts.v2"}, "`schema` cannot be 'facts.v2'"),
        ({"memory": {"total_bytes": -1}}, "`memory.total_bytes` cannot be -1"),
        ({"memory": {"total_bytes": 2**64}}, "`memory` holds a number of more than 64 bits"),
        ({"memory": {"total_bytes": True}}, "`memory.total_bytes` cannot be true"),
        ({"limits": {"cpu_quota": float("nan")}}, "`limits` holds a number that is not finite"),
        ({"kernel": None}, "`kernel` cannot be null"),
        ({"sysctls": {"a": 1}}, "`sysctls.a` cannot be 1"),
        ({"filesystems": {"/": {"options": "rw"}}}, "`filesystems./.options` cannot be 'rw'"),
        ({"unforeseen": {"a": "\ud800"}}, "`unforeseen` holds what is no Unicode text"),
        ({"unforeseen": {"a": [[[[[[[[1]]]]]]]]}}, "`unforeseen` has more than 8 levels"),
        ({"\ud800": 1}, "a section's name is no Unicode text"),
    ],
)
def test_what_does_not_fit_is_named(facts: object, problem: str) -> None:
    assert sift_facts(facts) == ({}, (problem,))


def test_a_section_that_nobody_foresaw_stays() -> None:
    assert sift_facts({"moon": {"phase": "full"}}) == ({"moon": {"phase": "full"}}, ())


# ── Runs whose facts are rubbish ──────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return plausible_run.make(tmp_path_factory.mktemp("facts") / "run", 2, faults=False)


def put(folder: RunFolder, facts: Any) -> RunFolder:
    """The run as if its host and its first machine had told this."""
    with journals.changed(folder.journal) as lines:
        seen = next(line for line in lines if line.get("event") == "FactsSeen")
        seen["facts"] = facts
    with journals.changed_manifest(folder.path) as manifest:
        manifest["host"] = facts
    return RunFolder(folder.path)


@pytest.mark.parametrize("every", [10, pytest.param(1, marks=pytest.mark.long)])
def test_400_runs_whose_facts_are_rubbish_are_told_and_shown(every: int, whole: RunFolder) -> None:
    told = 0
    for seed in range(0, 400, every):
        facts = mutate(seed)
        folder = put(whole, facts)
        _, problems = sift_facts(facts)
        told += bool(problems)
        report = read_run(folder)
        warnings = [one.text for one in report.analysis.warnings if one.code == "facts-malformed"]
        assert len(warnings) == bool(problems), seed
        if problems:
            assert f"the host: {', '.join(problems)}" in warnings[0], seed
            assert f"the server of environment=host: {', '.join(problems)}" in warnings[0], seed
        assert (report.analysis.trials.ok, len(report.analysis.contrasts)) == (12, 22), seed
        for section in (fairness, method, why):
            section.render(report)
        report.analysis.model_dump_json()
    assert 200 < told * every < 400


@pytest.mark.usefixtures("one_engine")
@pytest.mark.parametrize("seed", [0, 57, 114, 171, 228, 285])
def test_pages_of_runs_whose_facts_are_rubbish_are_whole(whole: RunFolder, seed: int) -> None:
    facts = mutate(seed)
    folder = put(whole, facts)
    page = str(render(folder, "md"))
    page.encode()
    assert ("told of themselves is left out" in page) == bool(sift_facts(facts)[1])
    assert "## Can it be trusted?" in page and "docker" in page
    view = RunView(folder.path)
    assert "cannot be read" not in view.render_state()["state"]
    assert view.render_verdicts()["verdicts"]
