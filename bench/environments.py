"""How long each environment takes from nothing to the first HTTP 200, and what that costs the host.

    .venv/bin/python bench/environments.py [KIND ...] [--rounds 5] [--set nic=e1000] [--provision boot restore]
        [--server probe]

Rounds alternate over the kinds, and over the ways of provisioning that each of them has; the table shows medians, and
each one's time against the first one's. What is made once, such as a snapshot, is made before the first round. An
environment needs nothing done for it here: whatever makes machines on the lab's switch can be named. Seconds, as root,
on an otherwise idle host; they are printed, never judged.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import get_args

from nearmetal import plugins
from nearmetal.config import Paths
from nearmetal.errors import NearmetalError
from nearmetal.lab import probe
from nearmetal.lab.changes import ledger
from nearmetal.lab.changes.ledger import Ledger
from nearmetal.lab.lab import remove
from nearmetal.lab.local_site import LocalSite, run_checked
from nearmetal.lab.networks import network
from nearmetal.model import Environment, EnvironmentSpec, MachineSpec, Order, Provision

SERVERS = {
    "lighttpd": ("lighttpd", "-D", "-f", "/etc/nearmetal/lighttpd.conf"),
    "probe": (probe.INSIDE, "serve", "--listen", "0.0.0.0:80"),
}
"""What answers."""
CLIENT_ADDRESS = "10.111.255.254/16"
LIMIT = 120.0

# Runs in the switch's namespace; tells the instant (CLOCK_MONOTONIC) of the first 200.
FETCH = """
import socket, sys, time
begin = time.monotonic()
while True:
    try:
        with socket.create_connection((sys.argv[1], 80), timeout=2) as connection:
            connection.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
            if b" 200 " in connection.recv(64):
                break
    except OSError:
        time.sleep(0.005)
    if time.monotonic() > begin + float(sys.argv[2]):
        sys.exit("no HTTP 200 came")
print(time.monotonic())
"""


@dataclass(frozen=True)
class Round:
    """Seconds from the beginning, but for `cpu` and `destroy`, which are durations."""

    create: float
    attach: float
    http: float
    cpu: float
    """Of the host, until then."""
    destroy: float


@dataclass(frozen=True)
class Contender:
    kind: str
    provision: Provision

    @property
    def environment(self) -> Environment:
        found: Environment = plugins.load("environments", self.kind)
        return found

    def __str__(self) -> str:
        return f"{self.kind} {self.provision}"


async def measure(contender: Contender, spec: MachineSpec, server: str, name: str, lab: Ledger) -> Round:
    environment, site = contender.environment, LocalSite()
    await network.create_switch(name, site, lab)
    await run_checked(site, "ip", "-netns", name, "address", "add", CLIENT_ADDRESS, "dev", network.BRIDGE)
    port = network.make_port(name, 1)
    order = Order(
        name=f"{name}-1", role="server", spec=spec, options={}, provision=contender.provision, port=port, cpus=""
    )
    try:
        begin = time.monotonic()
        handle = await environment.create(order, site, lab)
        created = time.monotonic()
        machine = await environment.attach(handle, site)
        attached = time.monotonic()
        # Not before: an address that answers no ARP yet is asked again only after a second.
        fetch = await site.spawn(["ip", "netns", "exec", name, sys.executable, "-c", FETCH, port.address, str(LIMIT)])
        serving = await machine.spawn(SERVERS[server])
        fetched = float((await fetch.wait(2 * LIMIT)).text)
        cost = await machine.cost()
        await serving.stop()
    finally:
        ending = time.monotonic()
        for left in lab.outstanding().handles:
            await remove(left, site)
            lab.destroyed(left)
        destroyed = time.monotonic()
    cpu = cost.cpu_seconds if cost else float("nan")
    return Round(created - begin, attached - begin, fetched - begin, cpu, destroyed - ending)


def contenders(kinds: Sequence[str], provisions: Sequence[Provision]) -> list[Contender]:
    """Each kind by each of these ways that it has; by its own first one where none is given."""
    found = []
    for kind in kinds:
        can = plugins.load("environments", kind).provisions
        found += [Contender(kind, provision) for provision in provisions or can[:1] if provision in can]
    return found


async def measure_all(
    chosen: Sequence[Contender], spec: MachineSpec, server: str, rounds: int
) -> dict[str, list[Round]]:
    results: dict[str, list[Round]] = {str(contender): [] for contender in chosen}
    for contender in chosen:
        given = EnvironmentSpec(kind=contender.kind, provision=contender.provision)
        await contender.environment.prepare(given, spec, LocalSite())
    for number in range(rounds):
        for contender in chosen:
            name = f"nm-bench-{os.getpid()}-{number}"
            with ledger.held(Paths.default().state / "ledgers" / f"{name}.jsonl") as lab:
                one = await measure(contender, spec, server, name, lab)
            results[str(contender)].append(one)
            print(contender, json.dumps({key: round(value, 3) for key, value in asdict(one).items()}))
    return results


def table(results: dict[str, list[Round]]) -> str:
    columns = ("create", "attach", "http", "cpu", "destroy")
    lines = [f"{'':16}" + "".join(f"{column:>10}" for column in columns) + f"{'ratio':>10}"]
    first: float | None = None
    for kind, rounds in results.items():
        medians = [statistics.median(getattr(one, column) for one in rounds) for column in columns]
        first = first or medians[2]
        lines.append(f"{kind:16}" + "".join(f"{value:10.3f}" for value in medians) + f"{medians[2] / first:10.2f}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", default=["host", "docker", "qemu"], metavar="KIND")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--provision", nargs="+", default=[], choices=get_args(Provision), metavar="HOW")
    parser.add_argument("--server", choices=SERVERS, default="lighttpd", help="what the first HTTP 200 comes from")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a key of [machine]")
    arguments = parser.parse_args()
    load = Path("/proc/loadavg").read_text().split()[0]
    print(f"{subprocess.check_output(['nproc'], text=True).strip()} CPUs, load {load} before")
    try:
        chosen = contenders(arguments.kinds, arguments.provision)
        spec = MachineSpec.model_validate(dict(pair.split("=", 1) for pair in arguments.set))
        print(table(asyncio.run(measure_all(chosen, spec, arguments.server, arguments.rounds))))
    except NearmetalError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
