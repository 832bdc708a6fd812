"""Every document that the probe prints, against its published schema and against what Python reads of it."""

import json
import os
import pty
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from pydantic import BaseModel

from nearmetal.analysis.fairness import facts_of
from nearmetal.errors import TimedOut
from nearmetal.lab import probe
from nearmetal.lab.stage import LabStage
from nearmetal.model import Completed, LinkSpec, MachineSpec
from nearmetal.workloads._load.document import LoadDocument, parse
from tests import captures
from tests.ports import free_port
from tests.unit.test_workloads_live import ThisHost
from tests.unit.workloads_stage import GOLDEN

SCHEMAS = Path(__file__).parents[2] / "schemas"
LIMIT = 60.0

Document = dict[str, Any]
Schema = dict[str, Any]


def schema(name: str) -> Schema:
    found: Schema = json.loads((SCHEMAS / f"{name}.json").read_text())
    return found


def closed(part: Any) -> Any:
    """The same schema, with no property allowed that it does not name: a reader must be able to rely on the names."""
    if isinstance(part, list):
        return [closed(one) for one in part]
    if not isinstance(part, dict):
        return part
    known = {"additionalProperties": False} if "properties" in part and "additionalProperties" not in part else {}
    return {name: closed(value) for name, value in part.items()} | known


def valid(document: Document) -> str:
    """The document's name. Fails when it is not what its schema says."""
    name = str(document["schema"])
    jsonschema.validate(document, closed(schema(name)), jsonschema.Draft202012Validator)
    return name


def run(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([probe.path(), *arguments], capture_output=True, timeout=LIMIT, check=True)


def documents(printed: bytes) -> list[Document]:
    return [json.loads(line) for line in printed.splitlines()]


class Service:
    """A verb that goes on until it is told to end."""

    def __init__(self, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [probe.path(), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL
        )

    def line(self) -> bytes:
        assert self._process.stdout
        return self._process.stdout.readline()

    def warned(self) -> bytes:
        assert self._process.stderr
        return self._process.stderr.readline()

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def end(self) -> bytes:
        """What it prints at its end."""
        self._process.terminate()
        return self._process.communicate(timeout=LIMIT)[0]


@pytest.fixture
def served() -> Iterator[tuple[Service, str]]:
    address = f"127.0.0.1:{free_port()}"
    service = Service("serve", "--json", "--arrivals", "--stall", "10ms/500ms", "--listen", address)
    try:
        assert b"listening" in service.warned()
        yield service, f"http://{address}/"
    finally:
        service.end()


# ── The schemas themselves ────────────────────────────────────────────────────────────────────────────────────────


TRIED = {
    *("load.v1", "load.progress.v1", "load.step.v1", "load.waiting.v1", "serve.v1"),
    *("at.v1", "facts.v1", "clock.v1", "clock.serve.v1"),
    *("bystanders.v1", "bystanders.moved.v1", "bystanders.back.v1"),
    *("cpuset.v1", "cpuset.back.v1"),
    *("awake.v1", "awake.waiting.v1"),
    *("trace.v1", "trace.request.v1"),
    *("noise.v1", "sample.v1", "sample.header.v1", "sample.end.v1", "hold.v1", "link.v1", "link.ready.v1"),
}
"""The documents of which a real one is validated below."""


def test_a_real_document_of_each_is_validated_below() -> None:
    assert {path.stem for path in SCHEMAS.glob("*.json")} == TRIED


@pytest.mark.parametrize("name", sorted(TRIED))
def test_a_schema_is_one_and_tells_its_documents_name(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(schema(name))
    assert "schema" in schema(name)["required"]


# ── load, serve ───────────────────────────────────────────────────────────────────────────────────────────────────

LOADS = {
    "closed": "--requests 50",
    "new connections": "--requests 50 --new-connections --engine epoll --threads 2",
    "open": "--mode open --rate 500 --duration 200ms --arrivals poisson",
    "ramp": "--mode ramp --from 20 --step 20 --to 40 --per-step 200ms",
    "redirected": "--requests 1 -X HEAD",
}


@pytest.mark.parametrize("how", LOADS)
def test_load(how: str, served: tuple[Service, str]) -> None:
    service, url = served
    printed = run("load", url, "--json", *LOADS[how].split(" ")).stdout
    (document,) = documents(printed)
    assert valid(document) == "load.v1"
    read = parse(printed, "client0")
    assert read.requests.completed == read.served == document["requests"]["completed"] > 0
    assert (read.saturation is not None) == (how == "ramp") == bool(read.steps)
    in_window = sum(document["status_in_window"].values())
    assert in_window == pytest.approx(document["rate"]["achieved"] * document["elapsed_ns"] / 1e9)
    service.signal(signal.SIGUSR1)
    assert valid(json.loads(service.line())) == "serve.v1"


def test_load_of_nobody() -> None:
    argv = [
        str(probe.path()),
        "load",
        f"http://127.0.0.1:{free_port()}/",
        "--requests",
        "3",
        "--json",
    ]
    ended = subprocess.run(argv, capture_output=True, timeout=LIMIT)
    assert ended.returncode == 1
    assert b"not one reply came" in ended.stderr
    (document,) = documents(ended.stdout)
    assert valid(document) == "load.v1"
    assert parse(ended.stdout, "client0").errors.refused == 3


def test_the_progress_of_a_load(served: tuple[Service, str]) -> None:
    ramp = "--mode ramp --from 20 --step 20 --to 40 --per-step 1100ms --json --progress"
    lines = documents(run("load", served[1], *ramp.split(" ")).stderr)
    assert {valid(line) for line in lines} == {"load.progress.v1", "load.step.v1"}


def test_the_progress_of_a_ramp_that_waits_for_its_server() -> None:
    address = f"127.0.0.1:{free_port()}"
    service = Service("serve", "--json", "--listen", address, "--stall", "200ms/500ms")
    assert b"listening" in service.warned()
    ramp = "--mode ramp --from 50 --step 50 --to 50 --per-step 600ms --timeout 50ms --json --progress"
    try:
        lines = documents(run("load", f"http://{address}/", *ramp.split(" ")).stderr)
    finally:
        service.end()
    assert {valid(line) for line in lines} >= {"load.step.v1", "load.waiting.v1"}


def test_what_a_server_saw_until_its_end() -> None:
    service = Service("serve", "--json", "--listen", f"127.0.0.1:{free_port()}")
    assert b"listening" in service.warned()
    (document,) = documents(service.end())
    assert valid(document) == "serve.v1"


@pytest.mark.parametrize("file", sorted(path.name for path in (GOLDEN / "load").glob("*.json")))
def test_the_documents_that_other_tests_read_are_still_of_this_kind(file: str) -> None:
    assert valid(json.loads((GOLDEN / "load" / file).read_text())) == "load.v1"


def test_what_is_read_of_a_load_is_what_the_schema_names() -> None:
    whole = schema("load.v1")

    def resolved(part: Schema) -> Schema:
        for choice in (part, *part.get("anyOf", ()), part.get("items", {})):
            if "$ref" in choice:
                return dict(whole["$defs"][choice["$ref"].rpartition("/")[2]])
        return part

    def check(model: type[BaseModel], part: Schema) -> None:
        for name, field in model.model_fields.items():
            named = field.alias or name
            assert named in part["properties"], f"{model.__name__}.{name} is not in the schema"
            for inner in (field.annotation, *getattr(field.annotation, "__args__", ())):
                if isinstance(inner, type) and issubclass(inner, BaseModel):
                    check(inner, resolved(part["properties"][named]))

    check(LoadDocument, whole)


# ── at, as the stage uses it ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "argv", [["echo", "x"], ["sh", "-c", "kill -9 $$"], ["no-such-program"], ["sh", "-c", "echo e >&2; exit 3"]]
)
def test_at(argv: Sequence[str]) -> None:
    printed = subprocess.run([probe.path(), "at", "+10ms", "--json", "--", *argv], capture_output=True, timeout=LIMIT)
    (document,) = documents(printed.stdout)
    assert valid(document) == "at.v1"


async def on_stage(*argv: str, limit: float = LIMIT) -> Completed:
    host = ThisHost("client0")
    stage = LabStage((), (host,), {}, MachineSpec(), LinkSpec(), "shared", offsets={host.name: 0})
    (ended,) = await stage.together([(host, argv)], limit)
    return ended


async def test_the_stage_reads_it() -> None:
    ended = await on_stage("sh", "-c", "printf '\\377'; echo e >&2; exit 3")
    assert (ended.status, ended.stdout, ended.stderr) == (3, b"\xff", b"e\n")
    assert (await on_stage("sh", "-c", "kill -9 $$")).status == 137
    with pytest.raises(TimedOut, match="did not end"):
        await on_stage("sleep", "60", limit=0.2)


# ── Facts, clocks, noise, samples ─────────────────────────────────────────────────────────────────────────────────


def test_facts() -> None:
    (document,) = documents(run("facts", "--json", "--hash", "/bin/sh", "--hash", "/nowhere").stdout)
    assert valid(document) == "facts.v1"
    facts = facts_of(document)
    assert facts[("binaries", "/bin/sh")] == document["hashes"]["/bin/sh"][: len(str(facts[("binaries", "/bin/sh")]))]
    assert any(group == "kernel" for group, _ in facts)


def test_clocks() -> None:
    address = f"127.0.0.1:{free_port(socket.SOCK_DGRAM)}"
    service = Service("clock", "serve", "--listen", address, "--for", f"{LIMIT}s")
    try:
        assert valid(json.loads(service.line())) == "clock.serve.v1"
        (document,) = documents(run("clock", "ask", address, "--json", "--count", "20", "--interval", "1ms").stdout)
    finally:
        service.end()
    assert valid(document) == "clock.v1"


def test_bystanders() -> None:
    (listed,) = documents(run("bystanders", "list", "--cpus", "0", "--json").stdout)
    assert valid(listed) == "bystanders.v1"
    # What nobody moved away is where it was.
    back = [str(probe.path()), "bystanders", "back", "--json"]
    ended = subprocess.run(back, input=json.dumps(listed).encode(), capture_output=True, timeout=LIMIT, check=True)
    (told,) = documents(ended.stdout)
    assert valid(told) == "bystanders.back.v1"
    assert told["restored"] == 0


def test_cpusets() -> None:
    listed = run("cpuset", "list", "--cpus", "0", "--json").stdout
    (document,) = documents(listed)
    assert valid(document) == "cpuset.v1"
    if "hierarchy" not in document:
        pytest.skip(f"cpusets are NOT given back: {document['unfit']}")
    # What nobody set apart is as it was.
    back = [str(probe.path()), "cpuset", "back", "--json"]
    ended = subprocess.run(back, input=listed, capture_output=True, timeout=LIMIT, check=True)
    (told,) = documents(ended.stdout)
    assert valid(told) == "cpuset.back.v1"
    assert (told["moved"], told["widened"]) == (0, 0)


@pytest.mark.skipif(os.geteuid() != 0, reason="namespaces take root")
def test_bystanders_away() -> None:
    """Where a namespace hides all other processes, and no interrupt is to be seen."""
    hidden = 'mount -t tmpfs none /proc/irq && mount -t tmpfs none /sys/devices/virtual/workqueue && exec "$@"'
    alone = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c", hidden, "sh"]
    away = [*alone, str(probe.path()), "bystanders", "away", "--cpus", "0", "--json"]
    ended = subprocess.run(away, capture_output=True, timeout=LIMIT, check=True)
    (moved,) = documents(ended.stdout)
    assert valid(moved) == "bystanders.moved.v1"
    assert (moved["moved"], moved["refused"]) == (1, [])


def test_awake() -> None:
    """On a terminal in place of a serial port; what is no identity changes nothing here."""
    controller, port = pty.openpty()
    with os.fdopen(controller, "r+b", buffering=0) as told:
        awake = subprocess.Popen([probe.path(), "awake", "--port", os.ttyname(port)], stderr=subprocess.PIPE)
        assert valid(json.loads(told.readline())) == "awake.waiting.v1"
        told.write(b'{"hostname": "somebody"}\n')
        answer = json.loads(told.readline())
        assert valid(answer) == "awake.v1"
        assert "this is no identity" in answer["problem"]
        assert answer["boot_id"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        assert awake.wait(LIMIT) == 2
    os.close(port)


def test_noise() -> None:
    (document,) = documents(run("noise", "--cpus", "0", "--duration", "50ms", "--json").stdout)
    assert valid(document) == "noise.v1"


def test_trace(tmp_path: Path) -> None:
    files = captures.both_ends(tmp_path, captures.conversation(1, b"HTTP/1.1 204 No Content\r\n\r\n"))
    for some in (files[:1], files):
        lines = tmp_path / "requests.jsonl"
        (document,) = documents(run("trace", *map(str, some), "--json", "--requests", str(lines)).stdout)
        assert valid(document) == "trace.v1"
        (told,) = documents(lines.read_bytes())
        assert valid(told) == "trace.request.v1"
        assert document["requests"] == 1
        assert (told["method"], told["status"], "joined" in told) == ("GET", 204, len(some) == 2)


def test_samples() -> None:
    lines = documents(run("sample", "--interval", "50ms", "--duration", "120ms", "--json").stdout)
    assert {valid(line) for line in lines} == {"sample.header.v1", "sample.v1", "sample.end.v1"}


# ── What takes root ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.live
def test_hold() -> None:
    service = Service("hold")
    try:
        assert valid(json.loads(service.line())) == "hold.v1"
    finally:
        service.end()


@pytest.mark.live
def test_link() -> None:
    ends = [f"nmdoc{os.getpid()}{side}" for side in "ab"]
    made = []
    try:
        for end in ends:
            subprocess.run(["ip", "netns", "add", end], check=True)
            made.append(end)
        lines = documents(run("link", *ends, "--delay", "1ms", "--duration", "100ms", "--json").stdout)
    finally:
        for end in made:
            subprocess.run(["ip", "netns", "del", end], check=True)
    assert [valid(line) for line in lines] == ["link.ready.v1", "link.v1"]
