"""Runs of the two studies of networks that might have been measured: for tests of the chapters that only they have.

Their studies are smaller than the built-in ones and have their names, by which a report finds what was published.
Noise is seeded: the same arguments give the same bytes.
"""

import hashlib
import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nearmetal.model import (
    Artifact,
    BootRecord,
    Level,
    MachineRecord,
    Response,
    Study,
    TrialAddress,
    TrialRecord,
    TrialStatus,
)
from nearmetal.planning import plan as planning
from nearmetal.store.manifest import Manifest
from nearmetal.store.run_folder import RunFolder
from nearmetal.study.blocks import plan_blocks
from nearmetal.units import AS_WRITTEN

TRANSACTIONS = """\
name      = "virtual-vs-physical"
question  = "Do virtual networks carry HTTP as physical ones do?"
reference = { environment = "host", offload = true }

[factors]
environment = ["host", "qemu", "docker"]
offload     = [true, false]
workers     = [1, 4, 16]

[factors.nic]
levels = ["virtio-net", "e1000"]
when   = { environment = "qemu" }

[[workloads]]
name     = "transactions"
kind     = "http"
path     = "/100k"
workers  = "{workers}"
duration = "60s"
primary  = "transactions"

[design]
blocks = @BLOCKS@
"""

SHARED = """\
name      = "shared-network"
question  = "What does a virtual server make of a network that several clients share?"
reference = { environment = "host" }

[factors]
environment = ["host", "qemu"]

[factors.clients]
levels = [1, 2, 3, 4, 5]
sets   = "clients.count"

[link]
rate = "1Gbit/s"

[[workloads]]
name     = "tcp"
kind     = "iperf3"
protocol = "tcp"
duration = "10s"
primary  = "bandwidth"

[[workloads]]
name     = "udp"
kind     = "iperf3"
protocol = "udp"
rate     = "900Mbit/s"
duration = "10s"
primary  = "loss"

[[workloads]]
name     = "heavy"
kind     = "http"
path     = "/heavy.php"
mode     = "ramp"
from     = 1
step     = 1
to       = 60
per_step = "20x"
primary  = "saturation"

[design]
blocks     = @BLOCKS@
share_boot = true
"""

_SPEED = {"host": 1.0, "docker": 0.98, "qemu": 0.62}
_CAPACITY = {"host": 40.0, "qemu": 13.0}
"""Heavy pages a second."""

Treatment = Mapping[str, Level]
Measured = tuple[dict[str, Response], dict[str, bytes]]


def transactions(path: Path, blocks: int = 12, further: str = "", levels: Sequence[str] = ()) -> RunFolder:
    """A run of every environment, card, offload and number of workers, and of a factor that changes nothing."""
    return make(path, _crossed(TRANSACTIONS, further, levels), blocks, _transactions)


def shared(path: Path, blocks: int = 10, further: str = "", levels: Sequence[str] = ()) -> RunFolder:
    """A run of one to five clients, with the documents of its ramps, and of a factor that changes nothing."""
    return make(path, _crossed(SHARED, further, levels), blocks, _shared)


def _crossed(source: str, further: str, levels: Sequence[str]) -> str:
    """A study with one more factor, which a page's address carries."""
    if not further:
        return source
    with_factor = source.replace("[factors]\n", f"[factors]\n{further} = {json.dumps(levels)}\n")
    return re.sub(r'(path += "[^"]+)"', rf'\1?{{{further}}}"', with_factor)


def make(
    path: Path,
    source: str,
    blocks: int,
    measure: Callable[[str, Treatment, np.random.Generator], Measured],
) -> RunFolder:
    """A run of a study whose text has @BLOCKS@ for their number."""
    source = source.replace("@BLOCKS@", str(blocks))
    raw = tomllib.loads(source)
    raw["factors"] = {
        name: {"levels": factor} if isinstance(factor, list) else factor for name, factor in raw["factors"].items()
    }
    study: Study = Study.model_validate(raw, context=AS_WRITTEN)
    plan = planning.make_plan(study)
    path.mkdir(parents=True, exist_ok=True)
    folder = RunFolder(path)
    folder.write_manifest(
        Manifest(
            run=path.name,
            created="2025-03-01T12:00:00Z",
            study=study,
            source=source,
            plan=plan,
            versions={"nearmetal": "0.1.0"},
            host={},
        )
    )
    noise = np.random.default_rng(11)
    with folder.journal.open("w") as journal:
        for block in plan_blocks(plan):
            for boot in block.boots:
                for trial in boot.trials:
                    responses, documents = measure(trial.workload, boot.treatment, noise)
                    address = TrialAddress(
                        id=trial.id,
                        block=block.index,
                        attempt=block.attempt,
                        position=trial.position,
                        repeat=trial.repeat,
                        treatment=boot.treatment,
                        workload=trial.workload,
                    )
                    record = _record(folder, address, responses, documents)
                    journal.write(json.dumps(record.model_dump(mode="json"), separators=(",", ":")) + "\n")
    return folder


def _record(
    folder: RunFolder, address: TrialAddress, responses: dict[str, Response], documents: Mapping[str, bytes]
) -> TrialRecord:
    artifacts = []
    for name, content in documents.items():
        place = folder.artifacts / address.id / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
        path = place.relative_to(folder.path).as_posix()
        artifacts.append(Artifact(path=path, sha256=hashlib.sha256(content).hexdigest()))
    environment = str(address.treatment["environment"])
    return TrialRecord(
        trial=address,
        site="local",
        boot=BootRecord(id=f"boot-{address.id}", how="boot"),
        machines=(
            MachineRecord(role="server", environment=environment, boot_id=f"boot-{address.id}", cpus="0"),
            MachineRecord(role="client", environment="host", boot_id="host", cpus="1"),
        ),
        status=TrialStatus.OK,
        phases_ns={"create": 100_000_000, "measure": 10_000_000_000},
        responses=responses,
        artifacts=tuple(artifacts),
    )


def _wobble(noise: np.random.Generator, size: float = 0.01) -> float:
    return float(noise.lognormal(0, size))


def _transactions(workload: str, treatment: Treatment, noise: np.random.Generator) -> Measured:
    count = 200_000 * _SPEED[str(treatment["environment"])] * {1: 0.6, 4: 1.0, 16: 1.1}[int(treatment["workers"])]
    if treatment.get("nic") == "e1000":
        count *= 0.4
    if treatment["offload"] is False:
        count *= 0.3 if treatment["environment"] == "qemu" else 0.8
    return {"transactions": Response(value=round(count * _wobble(noise)), unit="", better="higher")}, {}


def _shared(workload: str, treatment: Treatment, noise: np.random.Generator) -> Measured:
    environment, clients = str(treatment["environment"]), int(treatment["clients"])
    if workload == "heavy":
        return _ramps(_CAPACITY[environment] * _wobble(noise, 0.02), clients, noise)
    if workload == "tcp":
        total = (940e6 if environment == "host" else 610e6) * _wobble(noise)
        return _stream(total, clients, noise, retransmits=3.0 * clients), {}
    offered = 900e6 * clients
    carried = min(offered, 950e6 if environment == "host" else 420e6) * _wobble(noise)
    more = {
        "jitter": Response(value=12e-6 * clients * _wobble(noise, 0.1), unit="s", better="lower"),
        "loss": Response(value=max(0.0, 1 - carried / offered), unit="share", better="lower", scale="difference"),
    }
    return {**_stream(carried, clients, noise), **more}, {}


def _stream(total: float, clients: int, noise: np.random.Generator, **counts: float) -> dict[str, Response]:
    """The third of several clients gets a fifth less than its share, as the published study saw one do."""
    shares = [(0.8 if client == 2 else 1.0) * _wobble(noise) for client in range(clients)]
    each = tuple(total * share / sum(shares) for share in shares)
    return {
        "bandwidth": Response(value=total, unit="bit/s", better="higher", by_client=each if clients > 1 else None),
        "transfer": Response(value=total * 10 / 8, unit="B", better="higher"),
        **{name: Response(value=count, unit="", better="lower", scale="difference") for name, count in counts.items()},
    }


def _ramps(capacity: float, clients: int, noise: np.random.Generator) -> Measured:
    share = capacity / clients
    kept = max(1.0, float(int(share)))
    errors = Response(value=0.02, unit="share", better="lower", scale="difference")
    found = Response(value=kept * clients, unit="1/s", better="higher", by_client=(kept,) * clients)
    documents = {f"load-{index}.json": _document(share, kept, noise) for index in range(clients)}
    return {"saturation": found, "errors": errors}, documents


def _document(share: float, kept: float, noise: np.random.Generator) -> bytes:
    """As much of a `load.v1` as a report reads: a climb to four steps beyond what was kept up."""
    steps: list[dict[str, Any]] = []
    for rate in range(1, int(kept) + 5):
        over = max(0.0, rate - share)
        replies = min(rate, share) * (1 - 0.4 * over / rate)
        steps.append(
            {
                "purpose": "climb",
                "offered": float(rate),
                "request_rate": rate * _wobble(noise, 0.002),
                "reply_rate": replies * _wobble(noise, 0.01),
                "error_rate": rate - replies if over else 0.0,
                "kept_up": over == 0,
            }
        )
    return json.dumps({"schema": "load.v1", "steps": steps}).encode()
