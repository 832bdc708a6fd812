"""What a command costs an emulated guest, with its programs laid out at random addresses and alike.

    sudo .venv/bin/python bench/emulated_commands.py [--rounds 5] [--json]

One guest (tcg, one vCPU) runs each command in a loop, rounds alternating between the kernel's two settings
(kernel.randomize_va_space 2 and 0). Milliseconds of the host's CPU per command, medians. Why it matters:
docs/adr/emulated-guests.md.
"""

import statistics
import sys

from in_rounds import main

from nearmetal.errors import HostCannot
from nearmetal.lab import probe
from nearmetal.lab.changes.ledger import Ledger, ledgers_folder, new_token
from nearmetal.lab.lab import Lab
from nearmetal.lab.local_site import run_checked
from nearmetal.lab.site_registry import Sites
from nearmetal.model import EnvironmentSpec, Machine, MachineSpec
from nearmetal.study.resolve import resolve_alone

COMMANDS = ("/bin/true", "dash -c true", "bash -c true", f"{probe.INSIDE} --version")
EACH = 20
"""Of each command, in a round."""
SETTINGS = {"random": "2", "alike": "0"}
_LOOP = 'i=0; while [ "$i" -lt "$1" ]; do {command} >/dev/null; i=$((i+1)); done'
Table = dict[str, dict[str, float]]


async def milliseconds(machine: Machine, command: str) -> float:
    before = await _seconds(machine)
    await run_checked(machine, "sh", "-c", _LOOP.format(command=command), "loop", str(EACH))
    return (await _seconds(machine) - before) * 1000 / EACH


async def _seconds(machine: Machine) -> float:
    cost = await machine.cost()
    if cost is None:
        raise HostCannot("its host does not tell what it costs", machine.name)
    return cost.cpu_seconds


async def measured(machine: Machine, rounds: int) -> Table:
    found: dict[str, dict[str, list[float]]] = {command: {name: [] for name in SETTINGS} for command in COMMANDS}
    for _ in range(rounds):
        for name, value in SETTINGS.items():
            await machine.put(value.encode(), "/proc/sys/kernel/randomize_va_space")
            for command in COMMANDS:
                found[command][name].append(await milliseconds(machine, command))
    return {
        command: {name: statistics.median(all_rounds) for name, all_rounds in by_setting.items()}
        for command, by_setting in found.items()
    }


async def run(rounds: int) -> Table:
    token = new_token()
    ledger = Ledger(ledgers_folder() / f"{token}.jsonl")
    lab = Lab(token, ledger, Sites({}))
    try:
        spec, site = MachineSpec(accel="tcg"), await lab.site("local")
        machine = await lab.attach(
            await lab.create(resolve_alone(EnvironmentSpec(kind="qemu"), spec), spec, "server", "", site)
        )
        await probe.ensure(machine)
        return await measured(machine, rounds)
    finally:
        await lab.close()
        ledger.close()


def printed(table: Table) -> str:
    lines = [f"{'command':44}{'random':>10}{'alike':>10}{'ratio':>8}   ms of the host's CPU"]
    for command, by_setting in table.items():
        random, alike = by_setting["random"], by_setting["alike"]
        lines.append(f"{command:44}{random:10.0f}{alike:10.0f}{alike / random:8.2f}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(__doc__, run, printed))
