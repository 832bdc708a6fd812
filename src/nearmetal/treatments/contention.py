"""The factor `contention`: what else wants the servers' processors, disk or memory while they are measured.

Beside each server runs a machine of its own, on the same CPUs, with as many workers as the server has vCPUs. Several
kinds at once are written with commas, "cpu,io". docs/treatments.md says what each does.
"""

from collections.abc import Callable, Mapping
from typing import ClassVar

from nearmetal.model import Change, Level, MachineSpec, Readback, Stage

NONE = "none"

_MEMORY = 512
"""MiB that all workers together write through: far beyond any cache, and half of what a neighbour may have."""


def _stress(*argv: str) -> tuple[str, ...]:
    """Without an end; its own notes are no error."""
    return ("stress-ng", "--quiet", "--timeout", "0", *argv)


KINDS: Mapping[str, Callable[[int], tuple[str, ...]]] = {
    "cpu": lambda workers: _stress("--cpu", f"{workers}", "--cpu-method", "int64"),
    # Each write goes to the disk before the next: what a page cache swallows disturbs nobody's disk.
    "io": lambda workers: _stress(
        *("--hdd", f"{workers}", "--hdd-bytes", "64m", "--hdd-opts", "wr-rnd,fsync", "--temp-path", "/var/tmp")
    ),
    "memory": lambda workers: _stress(
        *("--vm", f"{workers}", "--vm-bytes", f"{max(1, _MEMORY // workers)}m", "--vm-keep", "--vm-method", "write64")
    ),
}
"""Kind to the program that goes on beside a server, by its number of workers."""


class Contention:
    name: ClassVar[str] = "contention"

    def problem(self, level: Level) -> str | None:
        if level == NONE:
            return None
        kinds = level.split(",") if isinstance(level, str) else []
        if not kinds or set(kinds) - KINDS.keys() or len(set(kinds)) < len(kinds):
            return f'it is "none", or one or more of {", ".join(KINDS)}, each once, like "cpu,io"'
        return None

    def shape(self, spec: MachineSpec, level: Level) -> MachineSpec:
        if level == NONE:
            return spec
        programs = [KINDS[kind](spec.vcpus) for kind in str(level).split(",")]
        return spec.model_copy(update={"neighbours": (*spec.neighbours, *programs)})

    def changes(self, stage: Stage, level: Level) -> list[Change]:
        return []

    async def verify(self, stage: Stage, level: Level) -> Readback:
        """Nothing of its own: whether the neighbours run is read back with whatever else surrounds the machines."""
        return Readback()


plugin = Contention()
