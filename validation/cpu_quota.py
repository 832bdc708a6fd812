"""CPU quotas checked by what the kernel accounts: a machine that wants all of its CPUs gets its share of them.

    sudo python validation/cpu_quota.py [KIND ...] [--repeats 3] [--duration 10] [--vcpus 1] [--json]

Machines of each kind (host, docker and qemu where none is named) with quotas of 25, 50 and 75 % run a program that
never waits, a thread for each CPU. What the machine has used of the host's CPUs in that time, its virtual machine
monitor included, is put against the quota. The cases alternate, and each repeat has a machine of its own. Goal: the
median within 2 %.

Where no Docker engine answers, one of its own is started. On a host that is busy with other things it misses: who waits
for a processor cannot use its share of it. The table tells the load average.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass

from nearmetal.config import Paths
from nearmetal.errors import HostCannot, NearmetalError
from nearmetal.lab import probe
from nearmetal.lab.changes.ledger import Ledger, ledgers_folder, new_token
from nearmetal.lab.containers.api import DOCKER, ContainerEngine
from nearmetal.lab.containers.private_engine import run_private_engine
from nearmetal.lab.cpus import allocation
from nearmetal.lab.lab import Lab
from nearmetal.lab.local_site import list_available_cpus
from nearmetal.lab.site_registry import Sites
from nearmetal.model import EnvironmentSpec, Machine, MachineSpec
from nearmetal.study.resolve import resolve_alone

KINDS = ("host", "docker", "qemu")
QUOTAS = (0.25, 0.5, 0.75)
TOLERANCE = 0.02
SETTLING = 2.0
"""Seconds that the program runs before the first look: its start, and the kernel's first periods."""


@dataclass(frozen=True)
class Case:
    kind: str
    quota: float

    def __str__(self) -> str:
        return f"{self.kind} {self.quota:.0%}"


@dataclass(frozen=True)
class Row:
    """Shares of the CPUs that the machine has."""

    kind: str
    quota: float
    seen: float
    each: tuple[float, ...]
    holds: bool


# ── Measuring ─────────────────────────────────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def made(case: Case, vcpus: int) -> AsyncIterator[Machine]:
    """A machine with that quota, in a lab of its own."""
    token = new_token()
    ledger = Ledger(ledgers_folder() / f"{token}.jsonl")
    lab = Lab(token, ledger, Sites({}))
    try:
        site = await lab.site("local")
        spec = MachineSpec(quota=case.quota, vcpus=vcpus)
        (cpuset,) = allocation.assign_cpus(await list_available_cpus(site), vcpus, 1, None, None).servers
        environment = EnvironmentSpec(kind=case.kind)
        machine = await lab.attach(await lab.create(resolve_alone(environment, spec), spec, "server", cpuset, site))
        await probe.ensure(machine)
        yield machine
    finally:
        left = await lab.close()
        ledger.close()
        if left:
            print("\n".join(left), file=sys.stderr)


async def used(case: Case, vcpus: int, duration: float) -> float:
    """The share of its CPUs that a machine uses which wants all of them."""
    async with made(case, vcpus) as machine:
        busy = await machine.spawn(["sysbench", "cpu", f"--threads={vcpus}", "--time=0", "run"])
        try:
            await asyncio.sleep(SETTLING)
            before, began = await seconds(machine), time.monotonic()
            await asyncio.sleep(duration)
            after, ended = await seconds(machine), time.monotonic()
        finally:
            await busy.stop()
    return (after - before) / (ended - began) / vcpus


async def seconds(machine: Machine) -> float:
    cost = await machine.cost()
    if cost is None:
        raise HostCannot("its host does not tell what it costs", machine.name)
    return cost.cpu_seconds


async def rows(kinds: Sequence[str], repeats: int, duration: float, vcpus: int) -> list[Row]:
    seen: dict[Case, list[float]] = {Case(kind, quota): [] for kind in kinds for quota in QUOTAS}
    for repeat in range(repeats):
        for case, shares in seen.items():
            shares.append(await used(case, vcpus, duration))
            print(f"{repeat + 1} of {repeats}: {case}: {shares[-1]:.2%}", file=sys.stderr, flush=True)
    return [judged(case, shares) for case, shares in seen.items()]


def judged(case: Case, shares: Sequence[float]) -> Row:
    median = statistics.median(shares)
    holds = abs(median / case.quota - 1) <= TOLERANCE
    return Row(case.kind, case.quota, median, tuple(shares), holds)


@asynccontextmanager
async def engine_for(kinds: Sequence[str]) -> AsyncIterator[None]:
    """An engine that answers, where containers are asked for."""
    if "docker" not in kinds:
        yield
        return
    try:
        await ContainerEngine.connect(DOCKER.address({}))
    except HostCannot:
        async with run_private_engine(Paths.default().cache / "engine") as url:
            os.environ["DOCKER_HOST"] = url
            yield
        return
    yield


# ── Telling ───────────────────────────────────────────────────────────────────────────────────────────────────────


def printed(found: Sequence[Row]) -> str:
    lines = [f"{'machine':<10}{'quota':>8}{'used':>10}{'off by':>10}  each"]
    for row in found:
        each = " ".join(f"{share:.2%}" for share in row.each)
        verdict = "" if row.holds else "  MISSED"
        lines.append(
            f"{row.kind:<10}{row.quota:>8.0%}{row.seen:>10.2%}{row.seen / row.quota - 1:>+10.2%}  {each}{verdict}"
        )
    return "\n".join([*lines, f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs"])


async def run(arguments: argparse.Namespace) -> list[Row]:
    async with engine_for(arguments.kinds):
        return await rows(arguments.kinds, arguments.repeats, arguments.duration, arguments.vcpus)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", default=KINDS, metavar="KIND")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--duration", type=float, default=10.0, help="seconds of each")
    parser.add_argument("--vcpus", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    try:
        found = asyncio.run(run(arguments))
    except NearmetalError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print(json.dumps([asdict(row) for row in found], indent=1) if arguments.json else printed(found))
    return 0 if all(row.holds for row in found) else 1


if __name__ == "__main__":
    sys.exit(main())
