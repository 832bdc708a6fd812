"""A command in the machine, and the study quickstart there: what they came to, or StepFailed."""

import json
from typing import Any

from .ordinary import Ordinary, StepFailed

PROGRAM = "env NEARMETAL_PATIENCE=20 /opt/nearmetal/bin/nearmetal"
"""By itself it waits six times as long there; other programs of this host make that machine slower still."""
RUNS = "/root/runs"
LONG = 3600.0
"""Seconds: two emulations deep, a guest boots for minutes."""


def measure(machine: Ordinary, name: str, wanted: int, options: str) -> str:
    """The study quickstart, with what it printed. StepFailed unless that many trials are all ok."""
    command = f"cd {RUNS}; rm -rf {name}; time {PROGRAM} run quickstart --available {options} -o {name}"
    ended = machine.exec(command, LONG)
    try:
        require_all_ok(read_records(machine, name), wanted)
    except StepFailed as failed:
        raise StepFailed(f"{failed}\n{ended.text}") from None
    return f"{wanted} of {wanted} trials ok\n{ended.text.strip()}"


def choose_levels(*others: str) -> str:
    return f"--set 'factors.environment={json.dumps(['host', *others])}'"


def execute(machine: Ordinary, command: str, timeout: float = 600) -> str:
    ended = machine.exec(command, timeout)
    if ended.status != 0:
        raise StepFailed(f"{command}\nended with {ended.status}:\n{ended.text}")
    return ended.text.strip()


def parse_document(text: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(text)
    except ValueError:
        raise StepFailed(f"this is no JSON document: {text}") from None
    return found


def read_records(machine: Ordinary, name: str) -> list[dict[str, Any]]:
    """The trials of a run in it."""
    lines = execute(machine, f"cat {RUNS}/{name}/journal.jsonl").splitlines()
    found = [parse_document(line) for line in lines]
    return [one for one in found if "status" in one and "trial" in one]


def describe_monitors(records: list[dict[str, Any]]) -> str:
    """What ran the guests, and with which power. StepFailed if no guest says so."""
    monitors = [record["readback"]["resources"] for record in records]
    found = {(one["accel"], one["vmm_power"]) for one in monitors if "vmm_power" in one}
    if not found:
        raise StepFailed("no trial says what ran a guest")
    return "\n".join(f"by {accel}, QEMU {power}" for accel, power in sorted(found))


def require_all_ok(records: list[dict[str, Any]], wanted: int) -> None:
    bad = [f"{one['trial']}: {one['status']}: {one.get('reason')}" for one in records if one["status"] != "ok"]
    if bad or len(records) != wanted:
        raise StepFailed("\n".join([f"{len(records)} trials of {wanted}", *bad]))
