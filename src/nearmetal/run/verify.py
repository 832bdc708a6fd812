"""Is a machine what was asked for? Read back from inside it, by the probe's facts. Pure."""

from collections.abc import Mapping
from typing import Any

from nearmetal.lab import cpus as cpu_lists
from nearmetal.lab.network import INSIDE
from nearmetal.model import MachineSpec, Readback

MEMORY_SHARE = (0.80, 1.02)
"""What a guest's kernel and firmware keep to themselves is missing from what it shows: up to a fifth of 256 MiB."""

DRIVERS = {
    "virtio-net": "virtio_net",
    "e1000": "e1000",
    "e1000e": "e1000e",
    "rtl8139": "8139cp",
    "vmxnet3": "vmxnet3",
}
"""Model of a virtual network card to the driver that a guest's kernel has for it."""


def resources(spec: MachineSpec, facts: Mapping[str, Any], accel: str | None) -> Readback:
    """CPUs, memory, accelerator and network card against the study.

    `accel`: as the monitor of a virtual machine tells, None where there is none; then there is no model of a card
    either.
    """
    # In a guest all that are online are the machine's, also one that its kernel keeps its programs away from.
    processor = facts["processor"]
    cpus = int(processor["allowed_count"]) if accel is None else len(cpu_lists.parse(processor["online"]))
    memory = memory_of(facts)
    values: dict[str, Any] = {"vcpus": cpus, "memory": memory, "accel": accel}
    problems: list[str] = []
    if cpus != spec.vcpus:
        problems.append(f"it may use {cpus} CPUs instead of {spec.vcpus}")
    if not MEMORY_SHARE[0] * spec.memory <= memory <= MEMORY_SHARE[1] * spec.memory:
        problems.append(f"it has {memory} bytes of memory instead of {spec.memory}")
    if accel is not None and spec.accel not in ("auto", accel):
        problems.append(f"its accelerator is {accel} instead of {spec.accel}")
    if accel is not None:
        values["nic"] = _driver(facts)
        if values["nic"] != DRIVERS.get(spec.nic, values["nic"]):
            problems.append(f"its network card's driver is {values['nic']} instead of {DRIVERS[spec.nic]}")
    return Readback(values=values, ok=not problems, reason="; ".join(problems))


def _driver(facts: Mapping[str, Any]) -> str | None:
    """What drives the data NIC; None where there is none, or its driver does not say."""
    driver = facts["interfaces"].get(INSIDE, {}).get("driver")
    return None if driver is None else str(driver)


def memory_of(facts: Mapping[str, Any]) -> int:
    """The least of what the kernel has and what the control group allows."""
    limit = facts["limits"].get("memory_bytes")
    total = int(facts["memory"]["total_bytes"])
    return min(total, int(limit)) if limit else total
