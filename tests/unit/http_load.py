"""Load that was measured once: the generator's documents, and scripted machines that give them."""

import json
from typing import Any

from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped]  # it ships no types

from nearmetal.model import Completed, Measurement
from nearmetal.workloads import http
from nearmetal.workloads.http.parameters import HttpParameters
from tests.unit.workloads_stage import ScriptedMachine, ScriptedStage, golden

CLOSED = json.loads(golden("load/closed.json"))
OPEN = json.loads(golden("load/open-1000.json"))
RAMPS = {name: json.loads(golden(f"load/ramp{name}.json")) for name in ("", "-above", "-below", "-generator-gave-out")}
REFUSED = json.loads(golden("load/refused.json"))

Document = dict[str, Any]

RAMP = {"mode": "ramp", "from": 1, "step": 1, "to": 20}
OPEN_LOOP = {"mode": "open", "rate": 1000, "duration": "2s"}


def workload(**parameters: Any) -> http.Http:
    return http.Http(HttpParameters.model_validate(parameters))


def printed(document: Document) -> Completed:
    """What a generator leaves behind: the document, and status 1 when not one reply came."""
    return Completed(status=int(document["requests"]["completed"] == 0), stdout=json.dumps(document).encode())


def changed(document: Document, **parts: Any) -> Document:
    """A document with some parts replaced, and within them some keys."""
    merged = dict(document)
    for name, value in parts.items():
        merged[name] = {**merged[name], **value} if isinstance(value, dict) and name in merged else value
    return merged


def statuses(status: dict[str, int], in_window: dict[str, int] | None = None) -> Document:
    return {"status": status, "status_in_window": status if in_window is None else in_window}


def histogram(latencies: dict[int, int]) -> str:
    """As the generator prints one: so many requests of each latency (ns)."""
    found = HdrHistogram(1, 3_600_000_000_000, 3)
    for latency, count in latencies.items():
        found.record_value(latency, count)
    return str(found.encode().decode())


def answered(pages: dict[int, int], errors: dict[int, int], timed_out: int = 0) -> Document:
    """An open loop's document by the latencies (ns) of the pages, and of the error pages, that came."""
    replies = {latency: pages.get(latency, 0) + errors.get(latency, 0) for latency in {*pages, *errors}}
    page, error = sum(pages.values()), sum(errors.values())
    return changed(
        OPEN,
        requests={"attempted": page + error + timed_out, "completed": page + error},
        errors={"client_timeout": timed_out},
        histogram=histogram(replies),
        error_histogram=histogram(errors) if errors else "",
        status_codes={"200": page, "503": error},
        **statuses({"2xx": page, "5xx": error}),
    )


def is_first_request(argv: list[str]) -> bool:
    return "--mode" not in argv


def one_reply(argv: list[str]) -> Document:
    count = int(argv[argv.index("--requests") + 1])
    return changed(CLOSED, requests={"completed": count, "attempted": count}, **statuses({"2xx": count}))


def client(measured: Document, name: str = "client0") -> ScriptedMachine:
    """A client whose first request is answered, and whose load gives the document."""

    def answer(argv: list[str]) -> Completed:
        if argv[0] == "rm":
            return Completed(status=0)
        return printed(one_reply(argv) if is_first_request(argv) else measured)

    return ScriptedMachine(name, "10.0.0.2", answer)


def server(name: str = "server0", address: str = "10.0.0.1", ended: Completed | None = None) -> ScriptedMachine:
    def answer(argv: list[str]) -> Completed:
        raise AssertionError(f"a server was told to run {argv}")

    return ScriptedMachine(name, address, answer, ended)


async def measured(one: http.Http, *documents: Document) -> Measurement:
    clients = [client(document, f"client{index}") for index, document in enumerate(documents)]
    return await one.run(ScriptedStage([server()], clients))


def value(measurement: Measurement, response: str) -> float:
    return measurement.responses[response].value
