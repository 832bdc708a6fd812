"""A plausible run whose trials were captured: figures as the observer records them, and the documents beside them."""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nearmetal.model import Artifact, TrialRecord
from nearmetal.store.run_folder import RunFolder, hash_file
from tests import journals, plausible_run
from tests.unit.workloads_stage import golden

SLOWER = {"host": 1.0, "docker": 1.05, "qemu": 8.0}
EVENTS = {
    "request_first": 0.0,
    "request_last": 0.0,
    "server.request_first": 12e-6,
    "server.request_last": 12e-6,
    "server.response_first": 60e-6,
    "response_first": 71e-6,
    "server.response_last": 140e-6,
    "response_last": 155e-6,
}
SIZES = {"host": ((256, 3), (2048, 5), (16384, 20)), "docker": ((256, 3), (16384, 25)), "qemu": ((256, 10), (1024, 90))}
REQUESTS = 1000


def make(
    path: Path,
    blocks: int = 8,
    exits: Mapping[str, float] | None = None,
    shared_kernel: Collection[str] = (),
    **more: Any,
) -> RunFolder:
    """Both ends of the web workload were captured; `more` stands in the counters of each server.

    `exits` of guests in a second, by environment; None where the host's kernel does not tell. Servers of those in
    `shared_kernel` tell of their CPUs alone, as those do that run on their host's.
    """
    folder = plausible_run.make(path, blocks, faults=False)
    noise = np.random.default_rng(3)
    with journals.changed(folder.journal) as lines:
        for place, line in enumerate(lines):
            if line["schema"].startswith("record") and line["trial"]["workload"] == "web":
                one = _captured(folder, TrialRecord.from_json(line), noise, exits, shared_kernel, more)
                lines[place] = one.model_dump(mode="json")
    return folder


def _captured(
    folder: RunFolder,
    record: TrialRecord,
    noise: np.random.Generator,
    exits: Mapping[str, float] | None,
    shared_kernel: Collection[str],
    more: Mapping[str, Any],
) -> TrialRecord:
    environment = str(record.trial.treatment["environment"])
    slower = SLOWER[environment] * float(noise.lognormal(0, 0.01))
    path = folder.path / "artifacts" / record.trial.id / "trace-0.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(_document(environment)))
    guest = environment == "qemu"
    figures = {
        "requests": REQUESTS,
        "crossed": 9 * REQUESTS,
        "packets": (9.0 if guest else 5.0) * float(noise.lognormal(0, 0.01)),
        "bytes": 2900.0 if guest else 2500.0,
        "segments": 3.0 if guest else 1.0,
        "acks": 2.0 if guest else 1.0,
        "coalesced": 0.0 if guest else 0.2,
        **dict.fromkeys(("retransmitted", "reordered", "lost", "overtaken"), 3 if guest else 0),
        "total": 155e-6 * slower,
        "network": 25e-6 * slower,
        "server": 48e-6 * slower,
        "clock_offset": -3e-6,
    }
    capture = {
        "client-0": {
            "captured": 9000,
            "cpu": 0.02,
            "dropped_by_kernel": 0,
            "kernel.TCPOFOQueue": 3,
            "kernel.OutSegs": 9,
        },
        "server-0": {
            "captured": 9000,
            "dropped_by_kernel": 0,
            "kernel.TCPAutoCorking": 40 if guest else 900,
            **({"kernel.RetransSegs": 3} if guest else {}),
            **more,
        },
        "trace-0": {**figures, **{f"at.{name}": time * slower for name, time in EVENTS.items()}},
    }
    usage = {"context_switches": 30_000.0 / slower, "interrupts": 20_000.0, "cpu.0.sys": 40.0, "cpu.all.sys": 40.0}
    if environment in shared_kernel:
        usage = {name: value for name, value in usage.items() if name.startswith("cpu.")}
    places = {
        "server-0": {**usage, "cpu.all.soft": 10.0, "seconds": 10.0, "samples": 10, "cost": 0.003},
        "host": {"seconds": 10.0},
    }
    if exits is not None:
        places["host"]["exits"] = exits[environment]
    artifact = Artifact(path=str(path.relative_to(folder.path)), sha256=hash_file(path))
    return record.model_copy(update={"observers": {"capture": capture, "usage": places}, "artifacts": (artifact,)})


def _document(environment: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(golden("trace/trace-0.json"))
    told["server"]["sizes"] = [{"from": at, "to": 2 * at - 1, "count": count} for at, count in SIZES[environment]]
    return told
