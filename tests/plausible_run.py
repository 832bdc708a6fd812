"""A run's folder that might have been measured: for tests of what reads one, and for the bench of the report.

Three environments (host, docker at 0.97 of it, qemu at 0.1) carry two workloads. Noise is seeded: the same arguments
give the same bytes.
"""

import tomllib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from nearmetal.model import (
    BlockPlan,
    BootRecord,
    MachineRecord,
    Response,
    Study,
    TrialAddress,
    TrialPlan,
    TrialRecord,
    TrialStatus,
    Warned,
)
from nearmetal.planning import plan as planning
from nearmetal.store.events import FactsSeen
from nearmetal.store.journal import render_line
from nearmetal.store.manifest import Manifest
from nearmetal.store.run_folder import RunFolder
from nearmetal.study.blocks import plan_block, plan_blocks

SOURCE = """\
name      = "quickstart"
question  = "What does a container or a virtual machine cost a small web server?"
reference = { environment = "host" }

[factors]
environment = ["host", "docker", "qemu"]
@FACTORS@
[machine]
vcpus  = 1
memory = "512MiB"

[[workloads]]
name        = "web"
kind        = "http"
server      = "lighttpd"
path        = "/1k"
workers = 16
duration    = "10s"
primary     = "throughput"

[[workloads]]
name     = "primes"
kind     = "sysbench"
test     = "cpu"
duration = "10s"
primary  = "events"

[design]
blocks = @BLOCKS@
margin = "2%"
seed   = 1
"""

SPEED = {"host": 1.0, "docker": 0.97, "qemu": 0.1}
READY = {"host": 0.06, "docker": 0.35, "qemu": 3.4}
OVERHEAD = {"host": 0.0, "docker": 6.2e6, "qemu": 141e6}


def study(blocks: int = 8, factors: str = "") -> tuple[Study, str]:
    """The study and its source; `factors` are further lines of [factors], and must name no unknown treatment."""
    source = SOURCE.replace("@BLOCKS@", str(blocks)).replace("@FACTORS@", factors)
    raw = tomllib.loads(source)
    raw["factors"] = {
        name: {"levels": factor} if isinstance(factor, list) else factor for name, factor in raw["factors"].items()
    }
    return Study.model_validate(raw), source


def make(path: Path, blocks: int = 8, factors: str = "", faults: bool = True) -> RunFolder:
    """Write a whole run. With `faults`, one trial was lost and one invalid, and their blocks were repeated."""
    described, source = study(blocks, factors)
    plan = planning.make_plan(described)
    path.mkdir(parents=True, exist_ok=True)
    folder = RunFolder(path)
    folder.write_manifest(
        Manifest(
            run=path.name,
            created="2025-03-01T12:00:00Z",
            study=described,
            source=source,
            plan=plan,
            versions={"nearmetal": "0.1.0", "python": "3.11.2", "qemu": "7.2.0", "docker": "20.10.24"},
            host=_facts("host"),
        )
    )
    noise = np.random.default_rng(7)
    with folder.journal.open("wb") as journal:
        for treatment in plan.treatments:
            facts = _facts(str(treatment["environment"]))
            seen = FactsSeen(treatment=treatment, role="server", facts=facts, at_ns=0)
            journal.write(render_line(seen.to_line()))
        for block in plan_blocks(plan):
            for record in _block(block, noise, faults):
                journal.write(render_line(record.model_dump(mode="json")))
            if faults and block.index in (2, 5):
                again = plan_block(plan, block.index, attempt=1)
                for record in _block(again, noise, faults):
                    journal.write(render_line(record.model_dump(mode="json")))
    return folder


def _block(block: BlockPlan, noise: np.random.Generator, faults: bool) -> Iterator[TrialRecord]:
    drift = 1 + 0.004 * np.sin(block.index / 3)
    for boot in block.boots:
        for trial in boot.trials:
            environment = str(boot.treatment["environment"])
            yield _record(block, trial, dict(boot.treatment), environment, float(drift), noise, faults)


def _record(
    block: BlockPlan,
    trial: TrialPlan,
    treatment: dict[str, bool | int | float | str],
    environment: str,
    drift: float,
    noise: np.random.Generator,
    faults: bool,
) -> TrialRecord:
    speed = SPEED[environment] * drift * float(noise.lognormal(0, 0.006))
    status, reason = TrialStatus.OK, None
    warnings: tuple[Warned, ...] = ()
    if faults and block.attempt == 0 and trial.workload == "web":
        if block.index == 2 and environment == "qemu":
            status, reason = TrialStatus.LOST, "did not answer within 120 s; console: Kernel panic - not syncing"
        if block.index == 5 and environment == "docker":
            status, reason = TrialStatus.INVALID, "cpuset is 0-1, asked for 0"
    if environment == "qemu" and block.index % 4 == 1:
        warnings = (Warned(code="steal", text=f"the host took {block.index + 1.1:.1f} % of the guest's CPU time away"),)
    return TrialRecord(
        trial=TrialAddress(
            id=trial.id,
            block=block.index,
            attempt=block.attempt,
            position=trial.position,
            repeat=trial.repeat,
            treatment=treatment,
            workload=trial.workload,
        ),
        site="local",
        boot=None if status is TrialStatus.LOST else BootRecord(id=f"boot-{trial.id}", how="boot"),
        machines=(
            MachineRecord(role="server", environment=environment, boot_id=f"boot-{trial.id}", cpus="0"),
            MachineRecord(role="client", environment="host", boot_id="host", cpus="1"),
        ),
        status=status,
        reason=reason,
        phases_ns={"create": int(READY[environment] * 1e9), "measure": 10_000_000_000},
        responses={} if status is TrialStatus.LOST else _responses(trial.workload, environment, speed, noise),
        warnings=warnings,
    )


def _responses(workload: str, environment: str, speed: float, noise: np.random.Generator) -> dict[str, Response]:
    wobble = [float(value) for value in noise.lognormal(0, 0.03, size=5)]
    costs = {
        "memory_overhead": Response(
            value=OVERHEAD[environment] * wobble[1], unit="B", better="lower", scale="difference"
        ),
        "ready": Response(value=READY[environment] * wobble[2], unit="s", better="lower"),
    }
    if workload == "primes":
        return {
            "events": Response(value=412.0 * speed, unit="1/s", better="higher"),
            "cpu_per_event": Response(value=0.00243 / speed, unit="s", better="lower"),
            **costs,
        }
    return {
        "throughput": Response(value=9150.0 * speed, unit="1/s", better="higher"),
        "latency_p50": Response(value=0.00172 / speed * wobble[3], unit="s", better="lower"),
        "latency_p99": Response(value=0.0051 / speed * wobble[4] ** 3, unit="s", better="lower"),
        "errors": Response(value=0.0, unit="share", better="lower", scale="difference"),
        "cpu_per_event": Response(value=0.000104 / speed * wobble[0], unit="s", better="lower"),
        **costs,
    }


def _facts(environment: str) -> dict[str, object]:
    guest = environment == "qemu"
    return {
        "schema": "facts.v1",
        "kernel": {"release": "6.1.0-31-amd64" if guest else "6.12.9", "architecture": "x86_64"},
        "processor": {"model": "QEMU TCG CPU version 2.5+" if guest else "AMD EPYC 7B13", "online": "0"},
        "virtualization": {"hypervisor_flag": True, "hypervisor_signature": "TCGTCGTCGTCG" if guest else "KVMKVMKVM"},
        "memory": {"total_bytes": 496 * 2**20 if guest else 512 * 2**20},
        "clock": {"source": "tsc"},
        "interfaces": {"data": {"driver": "virtio_net" if guest else "veth", "mtu": 1500}},
        "sysctls": {"net.ipv4.tcp_congestion_control": "reno" if guest else "bbr"},
    }
