"""What it costs that QEMU runs as a user of its own, with a filter of system calls: sandboxed against not.

    sudo .venv/bin/python bench/sandbox.py [--rounds 30] [--json]

In each round a guest of either kind (tcg, one vCPU), in turns the first, boots, and both do the same work in turns:
`network`, 4 MiB from the guest to its controller, for which QEMU makes a system call every few KiB; `disk`, 16 MiB
written past the guest's cache in pieces of 64 KiB; `copy`, 256 MiB within the guest, for which it makes none. A turn's
ratio is of the host's CPU seconds, sandboxed / as root, and a round's the median of its turns'. Of the rounds:
pseudomedian, its 90 % interval by the signed ranks, and whether that lies within 2 % (two one-sided tests at 5 %).
"""

import math
import statistics
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import numpy as np
from in_rounds import main

from nearmetal.analysis.signed_rank import signed_rank
from nearmetal.errors import HostCannot
from nearmetal.lab.changes.ledger import held, ledgers_folder, new_token
from nearmetal.lab.lab import Lab
from nearmetal.lab.local_site import run_checked
from nearmetal.lab.qemu import least_privilege
from nearmetal.lab.qemu.process_privileges import Privilege
from nearmetal.lab.site_registry import Sites
from nearmetal.model import EnvironmentSpec, Handle, Machine, MachineSpec
from nearmetal.study.resolve import resolve_alone

MARGIN = 0.02
_LEVEL = 0.1
# Before the turns that count, QEMU translates what the guest is about to execute.
_WARMING = 1
# What the guest does, and for how many turns: one turn's ratio of `disk` varies most (by 13 to 18 %).
_WORK = {
    "network": ("dd if=/dev/zero bs=1M count=4 status=none", 20),
    "disk": ("dd if=/dev/zero of=/root/written bs=64k count=256 oflag=direct status=none", 120),
    "copy": ("dd if=/dev/zero of=/dev/null bs=1M count=256 status=none", 20),
}
Rounds = dict[str, list[float]]


class AsRoot(Privilege):
    """As QEMU runs without any of it."""

    def user(self, name: str) -> int:
        return 0

    def launched(self, name: str) -> list[str]:
        return []

    def find_difference(self, name: str, status: object) -> str | None:
        return None


@contextmanager
def as_root() -> Iterator[None]:
    """Guests are made so meanwhile."""
    find = least_privilege.find_privilege

    async def none(*_: object, **__: object) -> Privilege:
        return AsRoot(sandbox="")

    least_privilege.find_privilege = none
    try:
        yield
    finally:
        least_privilege.find_privilege = find


async def seconds(machine: Machine) -> float:
    cost = await machine.cost()
    if cost is None:
        raise HostCannot("its host does not tell what it costs", machine.name)
    return cost.cpu_seconds


async def boot(lab: Lab) -> tuple[Handle, Machine]:
    spec, site = MachineSpec(accel="tcg"), await lab.site("local")
    handle = await lab.create(resolve_alone(EnvironmentSpec(kind="qemu"), spec), spec, "server", "", site)
    return handle, await lab.attach(handle)


async def compare(lab: Lab, first: bool) -> dict[str, float]:
    """Sandboxed / as root, for the boot and for each work: of two guests that run at once and work in turns.

    So close together the processor has one speed for both. `first`: the one as root boots first.
    """
    order = (True, False) if first else (False, True)
    guests: dict[bool, tuple[Handle, Machine]] = {}
    for bare in order:
        with as_root() if bare else nullcontext():
            guests[bare] = await boot(lab)
    booting = {bare: await seconds(machine) for bare, (_, machine) in guests.items()}
    found = {"boot": booting[False] / booting[True]}
    for name, (script, turns) in _WORK.items():
        ratios = []
        for turn in range(_WARMING + turns):
            took = {}
            for bare in order if turn % 2 else order[::-1]:
                machine = guests[bare][1]
                before = await seconds(machine)
                await run_checked(machine, "sh", "-c", script)
                took[bare] = await seconds(machine) - before
            ratios.append(took[False] / took[True])
        found[name] = statistics.median(ratios[_WARMING:])
    for handle, _ in guests.values():
        await lab.destroy(handle)
    return found


async def run(rounds: int) -> Rounds:
    token = new_token()
    found: Rounds = {}
    with held(ledgers_folder() / f"{token}.jsonl") as ledger:
        lab = Lab(token, ledger, Sites({}))
        try:
            for number in range(rounds):
                for name, ratio in (await compare(lab, number % 2 == 0)).items():
                    found.setdefault(name, []).append(ratio)
                # A measurement that is cut short has said what it found by then.
                last = "  ".join(f"{name} {ratios[-1]:.4f}" for name, ratios in found.items())
                print(f"round {number + 1}: {last}", file=sys.stderr, flush=True)
        finally:
            await lab.close()
    return found


def printed(found: Rounds) -> str:
    rounds = len(next(iter(found.values())))
    lines = [f"sandboxed / as root, CPU seconds of the host, {rounds} rounds"]
    for name, ratios in found.items():
        centre = signed_rank(np.log(ratios), _LEVEL, 1e-9)
        line = f"{name:10}{math.exp(centre.estimate):8.4f}"
        if centre.interval is None:
            lines.append(f"{line}   too few rounds for an interval")
            continue
        low, high = (math.exp(end) for end in centre.interval)
        is_within = low >= 1 / (1 + MARGIN) and high <= 1 + MARGIN
        lines.append(f"{line}   {low:.4f} to {high:.4f}   {'equivalent' if is_within else 'undecided'} at {MARGIN:.0%}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(__doc__, run, printed))
