"""What a machine tells of itself, as `facts.v1` (schemas/facts.v1.json) has it: what does not fit is left out. Pure.

Facts come from machines that may be anybody's, and from journals of any age. Whoever reads them here may rely on types;
a section or a key may be missing, as earlier probes had fewer. Sections that nobody foresaw stay, if they are plain.
"""

import math
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, NonNegativeInt, TypeAdapter, ValidationError

from nearmetal.study.key_paths import join_path, path_of, show_value

Facts = dict[str, Any]

_DEEPEST = 8
"""Levels of a section; the probe's have three."""
_PROBLEMS = 5
"""Of one machine, so many are told."""


class _Section(BaseModel):
    model_config = ConfigDict(strict=True)  # keys that later probes add are passed over


class _Kernel(_Section):
    release: str | None = None
    version: str | None = None
    architecture: str | None = None
    command_line: str | None = None
    boot_id: str | None = None
    uptime_seconds: float | None = None


class _Processor(_Section):
    vendor: str | None = None
    model: str | None = None
    flags: list[str] = []
    online: str | None = None
    allowed: str | None = None
    allowed_count: NonNegativeInt | None = None


class _Virtualization(_Section):
    hypervisor: str | None = None
    hypervisor_flag: bool | None = None
    hypervisor_signature: str | None = None
    hypervisor_type: str | None = None
    vendor: str | None = None
    product: str | None = None


class _Memory(_Section):
    total_bytes: NonNegativeInt | None = None
    available_bytes: NonNegativeInt | None = None
    swap_bytes: NonNegativeInt | None = None


class _ResourceLimit(_Section):
    soft: NonNegativeInt | None = None
    hard: NonNegativeInt | None = None


class _Limits(_Section):
    cpu_quota: float | None = None
    memory_bytes: NonNegativeInt | None = None
    processes: NonNegativeInt | None = None
    resources: dict[str, _ResourceLimit] = {}


class _Clock(_Section):
    source: str | None = None
    available: list[str] = []


class _Confinement(_Section):
    seccomp: str | None = None
    seccomp_filters: NonNegativeInt | None = None
    no_new_privileges: bool | None = None
    capabilities: NonNegativeInt | None = None
    capability_mask: str | None = None


class _Scheduling(_Section):
    nice: int | None = None
    policy: str | None = None


class _Filesystem(_Section):
    type: str | None = None
    source: str | None = None
    mounted_at: str | None = None
    options: list[str] = []


class _BlockDevice(_Section):
    bytes: NonNegativeInt | None = None
    model: str | None = None
    rotational: bool | None = None
    scheduler: str | None = None
    write_cache: str | None = None


class _Interface(_Section):
    mac: str | None = None
    mtu: NonNegativeInt | None = None
    up: bool | None = None
    driver: str | None = None
    kind: str | None = None
    qdisc: str | None = None
    queue_length: NonNegativeInt | None = None
    receive_queues: NonNegativeInt | None = None
    transmit_queues: NonNegativeInt | None = None
    speed_mbit: NonNegativeInt | None = None
    features: dict[str, str] = {}


class _Disk(_Section):
    lies_on: str | None = None


class _Container(_Section):
    lacks: list[str] = []


_KINDS: Mapping[str, Any] = {
    "schema": Literal["facts.v1"],
    "probe": str,
    "kernel": _Kernel,
    "processor": _Processor,
    "virtualization": _Virtualization,
    "memory": _Memory,
    "limits": _Limits,
    "clock": _Clock,
    "confinement": _Confinement,
    "scheduling": _Scheduling,
    "mitigations": dict[str, str],
    "sysctls": dict[str, str],
    "settings": dict[str, str],
    "filesystems": dict[str, _Filesystem],
    "block_devices": dict[str, _BlockDevice],
    "interfaces": dict[str, _Interface],
    "hashes": dict[str, str | None],
    # What nearmetal adds: the image that the machine is made of, what its disk lies on, and what the container that
    # nearmetal runs in keeps from it.
    "image": str,
    "disk": _Disk,
    "container": _Container,
}
_ADAPTERS: Mapping[str, TypeAdapter[Any]] = {
    name: TypeAdapter(kind, config=None if isinstance(kind, type) and issubclass(kind, BaseModel) else {"strict": True})
    for name, kind in _KINDS.items()
}


def sift_facts(told: object) -> tuple[Facts, tuple[str, ...]]:
    """The sections of a document that are as they should be, and of the others what is wrong."""
    if not isinstance(told, Mapping):
        return {}, ("it is no JSON object",)
    kept: Facts = {}
    problems: list[str] = []
    for name, section in told.items():
        if problem := _find_problem(name, section):
            problems.append(problem)
        else:
            kept[name] = section
    if (more := len(problems) - _PROBLEMS) > 0:
        problems[_PROBLEMS:] = [f"and {more} more"]
    return kept, tuple(problems)


def _find_problem(name: str, section: object) -> str | None:
    if not _is_text(name):
        return "a section's name is no Unicode text"
    if (problem := _find_unprintable(section, _DEEPEST)) is not None:
        return f"`{name}` {problem}"
    if name not in _ADAPTERS:
        return None
    try:
        _ADAPTERS[name].validate_python(section)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = join_path(path_of({**first, "loc": (name, *first["loc"])}, {name: section}))
        return f"`{place}` cannot be {'null' if first['input'] is None else show_value(first['input'])}"
    return None


def _find_unprintable(value: object, levels: int) -> str | None:
    """What of a value no page could show."""
    if isinstance(value, float):
        return None if math.isfinite(value) else "holds a number that is not finite"
    if isinstance(value, int):
        return None if abs(value) < 2**64 else "holds a number of more than 64 bits"
    if isinstance(value, str):
        return None if _is_text(value) else "holds what is no Unicode text"
    if isinstance(value, Mapping | list):
        if not levels:
            return f"has more than {_DEEPEST} levels"
        parts = [*value.keys(), *value.values()] if isinstance(value, Mapping) else value
        return next(filter(None, (_find_unprintable(part, levels - 1) for part in parts)), None)
    return None


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
