"""Is a machine what was asked for? Read back from inside it, by the probe's facts. Pure."""

import math
import re
from collections.abc import Mapping, Set
from typing import Any

from nearmetal import cpu_lists
from nearmetal.lab.networks.network import INSIDE
from nearmetal.model import Description, Family, Handle, Hardware, MachineSpec, Readback, Warned
from nearmetal.model.hypervisor import name_hypervisor

RAM_SHARE = (0.98, 1.001)
"""Of a guest's memory as its kernel found it: what is missing is the firmware's, less than a MiB of it."""
MEMORY_SHARE = (0.80, 1.02)
"""Of memory as a kernel has it to give, where nothing better is told: without what it and the firmware keep to
themselves, up to a fifth of 256 MiB."""

DRIVERS = {
    "virtio-net": "virtio_net",
    "e1000": "e1000",
    "e1000e": "e1000e",
    "rtl8139": "8139cp",
    "vmxnet3": "vmxnet3",
}
"""Model of a virtual network card to the driver that a guest's kernel has for it."""

DISKS = {"virtio-blk": "vd", "ide": "sd"}
"""Model of a disk to how a guest's kernel calls it."""

_RAM = re.compile(r"[0-9a-f]+-[0-9a-f]+ : System RAM$")
"""What is indented is part of another."""

QUOTA_STEP = 0.001
"""CPUs by which a quota may be off: kernels count it in microseconds of a period."""


def verify_resources(
    spec: MachineSpec,
    facts: Mapping[str, Any],
    handle: Handle,
    ram: int | None = None,
    kept: Set[int] = frozenset(),
) -> Readback:
    """CPUs and their quota, memory and, of a virtual machine, its hardware against the study.

    `facts` are the probe's, from inside; `handle` is what the environment wrote down when it made the machine. `ram`:
    the memory that a virtual machine's kernel found, if it tells.
    `kept`: CPUs of the host that are the machine's, but from which all was moved that is not measured.
    """
    made, image = handle.hardware, handle.image
    # In a guest all that are online are the machine's, also one that its kernel keeps its programs away from.
    processor = facts["processor"]
    online, allowed = (cpu_lists.parse(processor[name]) for name in ("online", "allowed"))
    cpus = len(online if made else {*allowed, *kept})
    # The least of what the kernel has and what the control group allows.
    total, limit = int(facts["memory"]["total_bytes"]), facts["limits"].get("memory_bytes")
    memory = min(total, int(limit)) if limit else total
    # A guest does not see what its monitor may use.
    quota = made.quota if made else facts["limits"].get("cpu_quota")
    values: dict[str, Any] = {"vcpus": cpus, "memory": memory, "quota": quota, "accel": made.accel if made else None}
    problems: list[str] = []
    warnings: tuple[Warned, ...] = ()
    if image.storage_driver is not None:
        values["storage_driver"] = image.storage_driver
        if image.storage_driver_asked not in (None, image.storage_driver):
            problems.append(f"its storage driver is {image.storage_driver} instead of {image.storage_driver_asked}")
    if handle.network is not None:
        values["network"] = handle.network
        if handle.network != spec.network:
            problems.append(f"its network is {handle.network} instead of {spec.network}")
    if cpus != spec.vcpus:
        problems.append(f"it may use {cpus} CPUs instead of {spec.vcpus}")
    found_memory, (least, most) = (memory, MEMORY_SHARE) if ram is None else (ram, RAM_SHARE)
    if not handle.is_limited:
        values["limited"], most = False, math.inf
    if not least * spec.memory <= found_memory <= most * spec.memory:
        problems.append(f"it has {found_memory} bytes of memory instead of {spec.memory}")
    if not _is_quota(quota, spec):
        asked = "no limit" if spec.quota is None else f"{spec.quota * spec.vcpus:g} CPUs"
        problems.append(f"it may use {'any' if quota is None else f'{quota:g} CPUs'} of their time instead of {asked}")
    if made:
        if lacking := lacking_arguments(spec, facts):
            problems.append(f"its kernel was started without {' '.join(lacking)}")
        found = verify_hardware(spec, facts, made)
        values |= found.values
        problems += [found.reason] if found.reason else []
        warnings = found.warnings
    return Readback(values=values, ok=not problems, reason="; ".join(problems), warnings=warnings)


def lacking_arguments(spec: MachineSpec, facts: Mapping[str, Any]) -> list[str]:
    """Words of `kernel_arguments` that the kernel's command line does not have."""
    words = [word for argument in spec.kernel_arguments for word in argument.split()]
    found = str(facts["kernel"]["command_line"]).split() if words else []
    return [word for word in words if word not in found]


def observe_family(description: Description, facts: Mapping[str, Any], shares_kernel: bool) -> Family | None:
    """What a machine is by its own word. None if nothing in it can tell: pretended or imitated ones.

    `shares_kernel`: with the host that it lies on. If so it is no guest of that host, whatever lies below the host.
    """
    if description.family == "pretended" or description.kernel == "emulated":
        return None
    if shares_kernel and description.placement != "host":
        # A chroot is its host as it is; nothing but its environment tells one from a container.
        return "container" if description.family == "container" else "metal"
    return "metal" if name_hypervisor(facts) is None else "guest"


def _is_quota(found: float | None, spec: MachineSpec) -> bool:
    """One that was not asked for, such as that of a container which all of this is in, matters only where it bites."""
    if spec.quota is None:
        return found is None or found >= spec.vcpus
    return found is not None and abs(found - spec.quota * spec.vcpus) < QUOTA_STEP


def verify_hardware(spec: MachineSpec, facts: Mapping[str, Any], made: Hardware) -> Readback:
    """What a virtual machine is made of: its monitor's word, and what the guest's kernel has drivers for."""
    model, disk = made.cpu_model, made.disk
    pairs = {
        "accel": (made.accel, made.accel if spec.accel == "auto" else spec.accel, "accelerator"),
        "cpu_model": (model.name, spec.cpu_model, "CPU model"),
        "nic": (_find_driver(facts), DRIVERS.get(spec.nic), "network card's driver"),
        "disk": (_root_disk(facts), DISKS.get(spec.disk), "disk"),
        "disk_format": (disk.format, spec.disk_format, "disk's format"),
        "disk_cache": (disk.cache, spec.disk_cache, "disk's cache mode"),
    }
    problems = [
        *_list_unknown("network card", spec.nic, DRIVERS),
        *_list_unknown("disk", spec.disk, DISKS),
        *(
            f"its {name} is {found} instead of {asked}"
            for found, asked, name in pairs.values()
            if asked is not None and found != asked
        ),
    ]
    problems += made.monitoring.unlike if made.monitoring else ()
    problems += _other_kernel(made.kernel, facts)
    warnings: tuple[Warned, ...] = ()
    if model.lacking:
        text = f"the CPU model {model.name} is without {', '.join(model.lacking)}, which this host cannot give"
        warnings = (Warned(code="cpu-model-partial", text=text),)
    values: dict[str, Any] = {key: found for key, (found, _, _) in pairs.items()}
    values["kernel"] = facts["kernel"]["release"]
    if made.monitoring:
        values |= {
            "vmm": f"{made.monitoring.program}, {made.monitoring.version}",
            "board": made.monitoring.board,
            "vmm_power": made.monitoring.power,
            "vmm_arguments": " ".join(spec.vmm_arguments),
        }
    return Readback(values=values, ok=not problems, reason="; ".join(problems), warnings=warnings)


def _other_kernel(asked: str | None, facts: Mapping[str, Any]) -> list[str]:
    """Why it is not the kernel that was started, whose version says when and by whom it was built."""
    release, version = facts["kernel"]["release"], facts["kernel"]["version"]
    if asked is None or (asked.startswith(f"Linux version {release} ") and asked.endswith(version)):
        return []
    return [f"its kernel is {release} {version} instead of {asked.removeprefix('Linux version ')}"]


def _list_unknown(what: str, model: str, known: Mapping[str, str]) -> list[str]:
    """Why a model cannot be read back, if its table lacks it."""
    if model in known:
        return []
    return [f"its {what} {model!r} cannot be read back: known are {', '.join(known)}"]


def _root_disk(facts: Mapping[str, Any]) -> str | None:
    """What the guest's kernel calls the disk of its root, but for its letter: "vd" is virtio's, "sd" all others'."""
    source = str(facts["filesystems"].get("/", {}).get("source", ""))
    return source.removeprefix("/dev/")[:2] or None


def _find_driver(facts: Mapping[str, Any]) -> str | None:
    """What drives the data NIC; None where there is none, or its driver does not say."""
    driver = facts["interfaces"].get(INSIDE, {}).get("driver")
    return None if driver is None else str(driver)


def ram_of(iomem: str) -> int | None:
    """Bytes of RAM that a kernel found, from /proc/iomem; None where it hides addresses from whoever asked."""
    ranges = [line.partition(" : ")[0].split("-") for line in iomem.splitlines() if _RAM.match(line)]
    total = sum(int(last, 16) - int(first, 16) + 1 for first, last in ranges)
    return total if total > len(ranges) else None
