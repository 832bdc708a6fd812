"""Lists of CPUs in the kernel's notation, as in cpusets and affinities. Pure."""

import re
from collections.abc import Iterable

_RUN = re.compile(r"([0-9]+)(?:-([0-9]+))?")
_MOST = 8192
"""More CPUs than the kernel can be built for (NR_CPUS)."""


def parse(text: str) -> list[int]:
    """CPUs of a list in the kernel's notation: "0-2,4" is [0, 1, 2, 4], "" is []. ValueError when it is none."""
    cpus: set[int] = set()
    for part in text.strip().split(",") if text.strip() else ():
        run = _RUN.fullmatch(part)
        if run is None:
            raise ValueError(f'{text!r} is not a list of CPUs; write it like "0-2,4"')
        first, last = int(run[1][:9]), int((run[2] or run[1])[:9])
        if not first <= last < _MOST:
            raise ValueError(f"{part!r} in {text!r} names no CPUs: they count upwards, and below {_MOST}")
        cpus.update(range(first, last + 1))
    return sorted(cpus)


def show(cpus: Iterable[int]) -> str:
    """The kernel's notation of a list of CPUs, runs joined: [0, 1, 2, 4] is "0-2,4"."""
    runs: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if runs and cpu == runs[-1][-1] + 1:
            runs[-1].append(cpu)
        else:
            runs.append([cpu])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
