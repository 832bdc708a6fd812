"""Links checked by what iperf3 sees of them: rates, injected loss, and several clients that share one.

    sudo python validation/link.py [--only WORDS] [--repeats 3] [--duration 10] [--json]

On this host, machines of kind `host` in namespaces of their own. The cases alternate, so that a busy moment meets all
alike; each repeat has machines and a link of its own.

- rate: TCP's payload against the link's rate less headers. The rate is that of whole frames; with time stamps, which
  Linux has on, 1448 bytes of each 1514 are payload. Goal: the median within 2 %.
- loss: UDP of small datagrams, of so many streams that each receiver's socket holds a third of a second of its own.
  Goal: the link's loss lies in the exact (Clopper-Pearson) 99 % interval of what all repeats counted, whose links draw
  lots of their own, and that interval is narrow enough (RESOLUTION) to leave it out where the loss is off by a tenth.
- sharing: five clients on one link. Goal: the median of their sum within 3 % of the link's payload.

A repeat that fails is told, and its case does not hold; the others go on. `--only "loss 5 %"` takes the cases with
these words in their names.

On a host that is busy with other things all of it misses: a sender that waits for a processor leaves the link idle, and
a receiver that does so lets its socket overflow. The table tells the load average.
"""

import argparse
import asyncio
import json
import os
import secrets
import statistics
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace

from scipy.stats import beta

from nearmetal.errors import MachineError, NearmetalError, ToolFailed
from nearmetal.lab import probe
from nearmetal.lab.changes.ledger import Ledger, ledgers_folder, new_token
from nearmetal.lab.lab import Lab
from nearmetal.lab.networks import link
from nearmetal.lab.site_registry import Sites
from nearmetal.lab.stage import LabStage
from nearmetal.model import (
    Completed,
    EnvironmentSpec,
    LinkSpec,
    Machine,
    MachineSpec,
    Measurement,
    Role,
    WorkloadSpec,
)
from nearmetal.study.resolve import build_workload, resolve_alone
from nearmetal.units import AS_WRITTEN
from nearmetal.workloads.iperf3.output import parse
from nearmetal.workloads.iperf3.parameters import Iperf3Parameters

PAYLOAD = 1448 / 1514
"""Of a full frame: without Ethernet's header (14 bytes), IP's (20) and TCP's with its time stamps (32)."""
CONFIDENCE = 0.99
RESOLUTION = 0.075
"""Half an interval's width, relative to the loss. A loss that is off by a tenth is then found at least three times in
four: a tenth is 3.4 standard errors, and the interval reaches to 2.6."""
HOST = EnvironmentSpec(kind="host")
MACHINE = MachineSpec(memory=256 * 2**20)


@dataclass(frozen=True)
class Case:
    name: str
    link: LinkSpec
    clients: int
    workload: dict[str, object]
    tolerance: float | None
    """Of the rate; None where loss is what is checked."""


@dataclass(frozen=True)
class Row:
    """`expected` and `seen` in bit/s, or as a share of datagrams."""

    case: str
    shaped_by: str
    expected: float
    seen: float
    each: tuple[float, ...]
    interval: tuple[float, float]
    """Of a rate, where `seen` has to lie; of a loss, where `expected` has to lie."""
    holds: bool
    failed: int = 0
    """Repeats that gave no figure."""


def cases(duration: int) -> list[Case]:
    tcp: dict[str, object] = {"duration": f"{duration}s"}
    # 1 % takes 150,000 datagrams to resolve, and 5 % takes 28,000; of many streams one may well lose its greeting.
    many, some = ({**_udp(streams), **tcp} for streams in (8, 2))
    return [
        Case("rate 50 Mbit/s, TCP", LinkSpec(rate=50e6), 1, tcp, 0.02),
        Case("rate 200 Mbit/s, TCP", LinkSpec(rate=200e6), 1, tcp, 0.02),
        Case("loss 1 %, UDP", LinkSpec(loss=0.01), 1, many, None),
        Case("loss 5 %, UDP", LinkSpec(loss=0.05), 1, some, None),
        Case("loss 5 %, UDP back", LinkSpec(loss=0.05), 1, {**some, "direction": "reverse"}, None),
        Case("five clients at 100 Mbit/s, TCP", LinkSpec(rate=100e6), 5, tcp, 0.03),
    ]


def _udp(streams: int) -> dict[str, object]:
    """800 datagrams a second and stream; a socket as Linux makes it holds 277 of this size."""
    return {"protocol": "udp", "rate": f"{streams * 409.6}kbit/s", "parallel": streams, "length": "64B"}


# ── Measuring ─────────────────────────────────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def staged(case: Case) -> AsyncIterator[tuple[LabStage, str]]:
    """Machines and a link of their own, and what shapes it."""
    token = new_token()
    ledger = Ledger(ledgers_folder() / f"{token}.jsonl")
    lab = Lab(token, ledger, Sites({}))
    try:
        site = await lab.site("local")
        available = sorted(os.sched_getaffinity(0))
        first, last = str(available[0]), str(available[-1])
        server = await _machine(lab, case.link, "server", last)
        clients = [await _machine(lab, case.link, "client", first) for _ in range(case.clients)]
        laid = await lab.lay(
            case.link, [(server.name, client.name) for client in clients], first, site, seed=secrets.randbits(32)
        )
        offsets = {machine.name: 0 for machine in (server, *clients)}
        yield LabStage((server,), tuple(clients), dict(lab.sites), MACHINE, case.link, "shared", offsets), laid.by
    finally:
        left = await lab.close()
        ledger.close()
        if left:
            print("\n".join(left), file=sys.stderr)


async def _machine(lab: Lab, spec: LinkSpec, role: Role, cpus: str) -> Machine:
    site = await lab.site("local")
    machine = await lab.attach(
        await lab.create(resolve_alone(HOST, MACHINE), MACHINE, role, cpus, site, link.choose_bridge(spec, role))
    )
    await probe.ensure(machine)
    return machine


async def measured(case: Case) -> tuple[Measurement, str]:
    """One repeat, and what shaped its link."""
    workload = build_workload(WorkloadSpec.model_validate({"name": "it", "kind": "iperf3", **case.workload}))
    async with staged(case) as (stage, shaped_by):
        try:
            await workload.prepare(stage)
            return await workload.run(stage), shaped_by
        finally:
            await workload.finish(stage)


async def rows(chosen: Sequence[Case], repeats: int) -> list[Row]:
    """One of each case of which a repeat gave figures."""
    found: list[list[tuple[Measurement, str]]] = [[] for _ in chosen]
    for repeat in range(repeats):
        for case, measurements in zip(chosen, found, strict=True):
            print(f"{repeat + 1} of {repeats}: {case.name}", file=sys.stderr, flush=True)
            try:
                measurements.append(await measured(case))
            except (MachineError, ToolFailed) as error:
                print(f"    failed: {error}", file=sys.stderr)
                continue
            for warning in measurements[-1][0].warnings:
                print(f"    {warning.code}: {warning.text}", file=sys.stderr)
    return [
        judged(case, [one for one, _ in measurements], measurements[0][1], repeats - len(measurements))
        for case, measurements in zip(chosen, found, strict=True)
        if measurements
    ]


# ── Judging ───────────────────────────────────────────────────────────────────────────────────────────────────────


def judged(case: Case, measurements: Sequence[Measurement], shaped_by: str, failed: int) -> Row:
    row = _rate(case, measurements, shaped_by) if case.tolerance is not None else _loss(case, measurements, shaped_by)
    return replace(row, holds=row.holds and not failed, failed=failed)


def _rate(case: Case, measurements: Sequence[Measurement], shaped_by: str) -> Row:
    assert case.tolerance is not None
    expected = (case.link.rate or 0) * PAYLOAD
    each = tuple(one.responses["bandwidth"].value for one in measurements)
    seen = statistics.median(each)
    bounds = expected * (1 - case.tolerance), expected * (1 + case.tolerance)
    return Row(case.name, shaped_by, expected, seen, each, bounds, bounds[0] <= seen <= bounds[1])


def _loss(case: Case, measurements: Sequence[Measurement], shaped_by: str) -> Row:
    asked = Iperf3Parameters.model_validate(case.workload, context=AS_WRITTEN)
    printed = [Completed(status=0, stdout=one.artifacts["iperf3-0.json"]) for one in measurements]
    received = [way.received for one in printed for way in parse(one, asked, case.name).ways]
    lost, sent = (sum(getattr(one, name) for one in received) for name in ("lost_packets", "packets"))
    expected = case.link.loss or 0.0
    bounds = interval(lost, sent)
    each = tuple(one.responses["loss"].value for one in measurements)
    narrow = (bounds[1] - bounds[0]) / 2 <= RESOLUTION * expected
    holds = narrow and bounds[0] <= expected <= bounds[1]
    return Row(case.name, shaped_by, expected, lost / sent, each, bounds, holds)


def interval(hits: int, trials: int) -> tuple[float, float]:
    """Clopper and Pearson's, for a share."""
    tail = (1 - CONFIDENCE) / 2
    low = float(beta.ppf(tail, hits, trials - hits + 1)) if hits else 0.0
    high = float(beta.ppf(1 - tail, hits + 1, trials - hits)) if hits < trials else 1.0
    return low, high


def table(found: Sequence[Row]) -> str:
    busy = f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs"
    lines = [f"what a link is told to be, and what iperf3 sees of it ({busy})\n"]
    head = f"{'case':<32}{'by':>7}{'expected':>12}{'seen':>12}{'off by':>9}{'interval':>22}  holds   each"
    lines.append(head)
    for row in found:
        scale, digits = (1e6, 2) if row.expected > 1 else (0.01, 3)
        expected, seen, low, high = (f"{value / scale:.{digits}f}" for value in (row.expected, row.seen, *row.interval))
        each = " ".join(f"{value / scale:.{digits}f}" for value in row.each)
        lines.append(
            f"{row.case:<32}{row.shaped_by:>7}{expected:>12}{seen:>12}{row.seen / row.expected - 1:>+9.2%}"
            f"{f'{low} to {high}':>22}  {'yes' if row.holds else 'NO':<5}   {each}"
            + (f"   {row.failed} failed" if row.failed else "")
        )
    return "\n".join([*lines, "\nrates in Mbit/s of payload, loss in percent of datagrams"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="WORDS", help="the cases with these words in their names")
    parser.add_argument("--repeats", type=int, default=3, help="of each case (default: 3)")
    parser.add_argument("--duration", type=int, default=10, help="seconds of each run (default: 10)")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    arguments = parser.parse_args()
    if arguments.repeats < 1 or not 1 <= arguments.duration <= 600:
        parser.error("at least one repeat, and 1 to 600 seconds")
    chosen = [case for case in cases(arguments.duration) if arguments.only in case.name]
    if not chosen:
        parser.error(f"no case has {arguments.only!r} in its name")
    try:
        found = asyncio.run(rows(chosen, arguments.repeats))
    except NearmetalError as error:
        print(error, file=sys.stderr)
        return int(error.exit_code)
    if arguments.json:
        print(json.dumps({"schema": "validation.v1", "rows": [asdict(row) for row in found]}))
    else:
        print(table(found))
    return 0 if len(found) == len(chosen) and all(row.holds for row in found) else 1


if __name__ == "__main__":
    sys.exit(main())
