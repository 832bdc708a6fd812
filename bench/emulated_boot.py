"""What an emulated guest's boot, and copying in it, cost its host: as nearmetal makes it, and with one choice left out.

    sudo .venv/bin/python bench/emulated_boot.py [--rounds 5] [--json]

Guests (tcg, one vCPU), booted until they are logged into, rounds alternating over what is left out. Seconds of the
host's CPU, medians: `boot`, and `copy`, 256 MiB of zeroes from the kernel to a program (dd). The choices, and why they
are made: docs/adr/emulated-guests.md.
"""

import statistics
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from in_rounds import main

from nearmetal.errors import HostCannot
from nearmetal.lab.changes.ledger import held, ledgers_folder, new_token
from nearmetal.lab.lab import Lab
from nearmetal.lab.local_site import run_checked
from nearmetal.lab.qemu import arguments
from nearmetal.lab.site_registry import Sites
from nearmetal.model import EnvironmentSpec, Machine, MachineSpec
from nearmetal.study.resolve import resolve_alone

NOTHING = "nothing"
LEFT_OUT = (NOTHING, *arguments.EMULATED, ",".join(arguments.PRETENDED))
_COPY = ("dd", "if=/dev/zero", "of=/dev/null", "bs=1M", "count=256")
Table = dict[str, dict[str, float]]


@contextmanager
def without(choice: str) -> Iterator[None]:
    """Guests are made without one of the choices meanwhile."""
    emulated, pretended = arguments.EMULATED, arguments.PRETENDED
    arguments.EMULATED = tuple(word for word in emulated if word != choice)  # type: ignore[misc]
    arguments.PRETENDED = () if choice == ",".join(pretended) else pretended  # type: ignore[misc]
    try:
        yield
    finally:
        arguments.EMULATED, arguments.PRETENDED = emulated, pretended  # type: ignore[misc]


async def seconds(machine: Machine) -> float:
    cost = await machine.cost()
    if cost is None:
        raise HostCannot("its host does not tell what it costs", machine.name)
    return cost.cpu_seconds


async def once(lab: Lab) -> dict[str, float]:
    spec, site = MachineSpec(accel="tcg"), await lab.site("local")
    handle = await lab.create(resolve_alone(EnvironmentSpec(kind="qemu"), spec), spec, "server", "", site)
    machine = await lab.attach(handle)
    boot = await seconds(machine)
    await run_checked(machine, *_COPY)
    copied = await seconds(machine)
    await lab.destroy(handle)
    return {"boot": boot, "copy": copied - boot}


async def run(rounds: int) -> Table:
    token = new_token()
    found: dict[str, list[dict[str, float]]] = {choice: [] for choice in LEFT_OUT}
    with held(ledgers_folder() / f"{token}.jsonl") as ledger:
        lab = Lab(token, ledger, Sites({}))
        try:
            for _ in range(rounds):
                for choice in LEFT_OUT:
                    with without(choice):
                        found[choice].append(await once(lab))
        finally:
            await lab.close()
    return {
        choice: {name: statistics.median(one[name] for one in measured) for name in ("boot", "copy")}
        for choice, measured in found.items()
    }


def printed(table: Table) -> str:
    lines = [f"{'left out':20}{'boot':>8}{'ratio':>8}{'copy':>8}{'ratio':>8}   s of the host's CPU"]
    whole = table[NOTHING]
    for choice, one in table.items():
        boot, copy = one["boot"], one["copy"]
        lines.append(f"{choice:20}{boot:8.2f}{boot / whole['boot']:8.2f}{copy:8.2f}{copy / whole['copy']:8.2f}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(__doc__, run, printed))
