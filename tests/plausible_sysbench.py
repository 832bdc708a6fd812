"""A run of the study `system-vs-os` that might have been measured, smaller than the built-in one and named as it is."""

from pathlib import Path

import numpy as np

from nearmetal.model import Response
from nearmetal.store.run_folder import RunFolder
from tests.plausible_networks import Measured, Treatment, make

SOURCE = """\
name      = "system-vs-os"
reference = { environment = "docker", vcpus = 2, memory = "2GiB", accel = "tcg" }

[factors]
environment = ["docker", "qemu"]
vcpus       = [2, 1]

[factors.memory]
levels = ["2GiB", "1GiB"]
when   = { vcpus = 2 }

[factors.accel]
levels = ["tcg", "kvm"]
when   = { environment = "qemu", vcpus = 2, memory = "2GiB" }

[machine]
memory = "2GiB"
accel  = "tcg"

[[workloads]]
name    = "cpu"
kind    = "sysbench"
test    = "cpu"
threads = "{vcpus}"

[[workloads]]
name       = "fileio-as-run"
kind       = "sysbench"
test       = "fileio"
total_size = "2GiB"
threads    = "{vcpus}"
primary    = "read"

[design]
blocks     = @BLOCKS@
margin     = "5%"
share_boot = true
"""

HALF_MEMORY = 0.5
"""What is left of a container's reads with half of the memory: the contrary of what was published."""


def sysbench(path: Path, blocks: int = 10, source: str = SOURCE) -> RunFolder:
    return make(path, source, blocks, _measured)


def _measured(workload: str, treatment: Treatment, noise: np.random.Generator) -> Measured:
    wobble = float(noise.lognormal(0, 0.01))
    is_emulated = treatment["environment"] == "qemu" and treatment.get("accel") != "kvm"
    if workload == "cpu":
        events = 700.0 * int(treatment["vcpus"]) * (0.3 if is_emulated else 1.0) * wobble
        return {
            "events": Response(value=events, unit="1/s", better="higher"),
            "latency_mean": Response(value=1 / events, unit="s", better="lower"),
            **_slow(1 / events),
            "fairness": Response(value=1 - wobble / 100, unit="share", better="higher"),
        }, {}
    read = 40e6 * (0.2 if treatment["environment"] == "qemu" else 1.0) * wobble
    if treatment.get("memory") == "1GiB":
        read *= HALF_MEMORY
    return {
        "read": Response(value=read, unit="B/s", better="higher"),
        "written": Response(value=read / 1.5, unit="B/s", better="higher"),
        "reads": Response(value=read / 2**14, unit="1/s", better="higher"),
        "writes": Response(value=read / 1.5 / 2**14, unit="1/s", better="higher"),
        "fsyncs": Response(value=read / 2**13, unit="1/s", better="higher"),
        "latency_mean": Response(value=2e4 / read, unit="s", better="lower"),
        **_slow(2e4 / read),
    }, {}


def _slow(mean: float) -> dict[str, Response]:
    return {
        "latency_p95": Response(value=3 * mean, unit="s", better="lower"),
        "latency_max": Response(value=50 * mean, unit="s", better="lower"),
    }
