"""The factor `contention`: what else wants the servers' processors, disk or memory while they are measured.

Beside each server runs a machine of its own, on the same CPUs, with as many workers as the server has vCPUs, or as the
level says: "cpu:4". Several kinds at once are written with commas, "cpu,io:2". docs/treatments.md says what each does.
"""

import re
from collections.abc import Callable, Mapping
from typing import ClassVar

from nearmetal.model import Change, Level, MachineSpec, Readback, Stage

NONE = "none"

_MEMORY = 512
"""MiB that all workers together write through: far beyond any cache, and half of what a neighbour may have."""


def _make_stress(*argv: str) -> tuple[str, ...]:
    """Without an end; its own notes are no error."""
    return ("stress-ng", "--quiet", "--timeout", "0", *argv)


KINDS: Mapping[str, Callable[[int], tuple[str, ...]]] = {
    "cpu": lambda workers: _make_stress("--cpu", f"{workers}", "--cpu-method", "int64"),
    # Each write goes to the disk before the next: what a page cache swallows disturbs nobody's disk.
    "io": lambda workers: _make_stress(
        *("--hdd", f"{workers}", "--hdd-bytes", "64m", "--hdd-opts", "wr-rnd,fsync", "--temp-path", "/var/tmp")
    ),
    "memory": lambda workers: _make_stress(
        *("--vm", f"{workers}", "--vm-bytes", f"{max(1, _MEMORY // workers)}m", "--vm-keep", "--vm-method", "write64")
    ),
}
"""Kind to the program that goes on beside a server, by its number of workers."""

_MOST = 1000
_LEVEL = re.compile(rf"({'|'.join(KINDS)})(?::([1-9][0-9]{{0,3}}))?")


def _parse(level: str) -> list[tuple[str, int | None]] | None:
    """Each kind with its number of workers, None for as many as the server has vCPUs. None if it is no such level."""
    found = [_LEVEL.fullmatch(word) for word in level.split(",")]
    wanted = [(one[1], int(one[2]) if one[2] else None) for one in found if one]
    return wanted if len(wanted) == len(found) and all((workers or 1) <= _MOST for _, workers in wanted) else None


class Contention:
    name: ClassVar[str] = "contention"

    def problem(self, level: Level) -> str | None:
        if level == NONE:
            return None
        wanted = _parse(level) if isinstance(level, str) else None
        if wanted is None or len({kind for kind, _ in wanted}) < len(wanted):
            kinds = ", ".join(KINDS)
            workers = f'with 1 to {_MOST} workers, like "cpu:4"'
            return f'write "none" for no neighbour, or one or more of {kinds}, each once, like "cpu,io", or {workers}'
        return None

    def shape(self, spec: MachineSpec, level: Level) -> MachineSpec:
        if level == NONE:
            return spec
        programs = [KINDS[kind](workers or spec.vcpus) for kind, workers in _parse(str(level)) or ()]
        return spec.model_copy(update={"neighbours": (*spec.neighbours, *programs)})

    def changes(self, stage: Stage, level: Level) -> list[Change]:
        return []

    async def verify(self, stage: Stage, level: Level) -> Readback:
        """Nothing of its own: whether the neighbours run is read back with whatever else surrounds the machines."""
        return Readback()


plugin = Contention()
