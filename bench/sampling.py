"""What the observer `usage` costs: CPU seconds per second of sampling, on this host and in a guest.

    .venv/bin/python bench/sampling.py [--kind qemu] [--rounds 3] [--seconds 20] [--interval 1s] [--set accel=tcg]

On the host the sampler watches the guest's control groups too, as it does in a trial. In the guest there are two
figures: what the sampler used as the guest's kernel counts it, and how much more its machine used of this host than in
as many seconds without a sampler; rounds alternate. Medians are printed, never judged. As root, on an idle host.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from nearmetal import plugins
from nearmetal.config import Paths
from nearmetal.errors import NearmetalError
from nearmetal.lab.changes import ledger
from nearmetal.lab.lab import remove
from nearmetal.lab.local_site import LocalSite, run_checked
from nearmetal.lab.machines.cgroups import folders
from nearmetal.model import Environment, EnvironmentSpec, Machine, MachineSpec, Order, Site

SLACK = 30.0


@asynccontextmanager
async def guest(kind: str, spec: MachineSpec) -> AsyncIterator[Machine]:
    environment: Environment = plugins.load("environments", kind)
    site, name = LocalSite(), f"nm-bench-{os.getpid()}"
    await environment.prepare(EnvironmentSpec(kind=kind), spec, site)
    order = Order(name=name, role="server", spec=spec, options={}, provision="boot", port=None, cpus="")
    with ledger.held(Paths.default().state / "ledgers" / f"{name}.jsonl") as lab:
        try:
            yield await environment.attach(await environment.create(order, site, lab), site)
        finally:
            for left in lab.outstanding().handles:
                await remove(left, site)
                lab.destroyed(left)


async def sampled(on: Machine | Site, interval: str, seconds: float, *more: str) -> float:
    """CPU seconds per second that the sampler used, as its own kernel counts them."""
    command = (on.probe, "sample", "--json", "--interval", interval, "--duration", f"{seconds:g}s", *more)
    told = json.loads((await run_checked(on, *command, timeout=seconds + SLACK)).splitlines()[-1])
    return float((told["usage"]["user_ns"] + told["usage"]["system_ns"]) / told["elapsed_ns"])


async def spent(machine: Machine) -> float:
    cost = await machine.cost()
    assert cost is not None
    return cost.cpu_seconds


async def measure(kind: str, spec: MachineSpec, interval: str, seconds: float, rounds: int) -> dict[str, float]:
    site = LocalSite()
    found: dict[str, list[float]] = {"host": [], "inside": [], "beyond": []}
    async with guest(kind, spec) as machine:
        groups = [word for folder in await folders(machine) for word in ("--cgroup", f"server-0={folder}")]
        for number in range(rounds):
            found["host"].append(await sampled(site, interval, seconds, *groups))
            begin = await spent(machine)
            found["inside"].append(await sampled(machine, interval, seconds))
            middle = await spent(machine)
            await run_checked(machine, "sleep", f"{seconds:g}", timeout=seconds + SLACK)
            end = await spent(machine)
            found["beyond"].append(((middle - begin) - (end - middle)) / seconds)
            print(number, {name: round(values[-1], 5) for name, values in found.items()})
    return {name: statistics.median(values) for name, values in found.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", default="qemu")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--interval", default="1s")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a key of [machine]")
    given = parser.parse_args()
    print(f"load {Path('/proc/loadavg').read_text().split()[0]} before")
    try:
        spec = MachineSpec.model_validate(dict(pair.split("=", 1) for pair in given.set))
        found = asyncio.run(measure(given.kind, spec, given.interval, given.seconds, given.rounds))
    except NearmetalError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print(f"on this host, a sample each {given.interval}: {found['host']:.3%} of a CPU")
    print(f"in the {given.kind} machine: {found['inside']:.3%} of its CPU as it counts; ", end="")
    print(f"its host spends {found['beyond']:.3%} of a CPU more than without")
    return 0


if __name__ == "__main__":
    sys.exit(main())
