"""Room on the servers' disks beside services: a log that fills one is told, before its trial fails of it or when.

Asked before services start and after they ended, never while a trial measures.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence

from nearmetal.errors import NearmetalError
from nearmetal.model import Cause, Machine, Warned
from nearmetal.run.blame import Fault
from nearmetal.units import show_size

Room = Mapping[str, int]
"""By a server's name the bytes that are left for it on its root file system; without those that do not tell."""

LEAST = 16 * 2**20
"""Bytes with which a disk counts as full: programs fail at various amounts."""
_NOTICED = 64 * 2**20
_SHARE = 0.05
"""Of what was left: a trial that takes so much may not be followed by twenty others."""
_REMEDY = "bound the service's log, or send it to /dev/null: docs/services.md"


async def read_room(servers: Sequence[Machine]) -> Room:
    """MachineLost passes by: whoever works with the machine next says so."""
    found = await asyncio.gather(*map(_read, servers))
    return {server.name: left for server, left in zip(servers, found, strict=True) if left is not None}


async def _read(server: Machine) -> int | None:
    try:
        ended = await server.exec(["df", "-P", "-k", "/"])
    except NearmetalError:
        return None
    return parse_df(ended.text)


def parse_df(text: str) -> int | None:
    """Bytes that are left, from what `df -P -k` prints of one file system. None if it prints something else. Pure."""
    fields = text.strip().rpartition("\n")[2].split()
    return int(fields[3]) * 1024 if len(fields) >= 6 and fields[3].isdecimal() else None


def warn_of_filling(before: Room, after: Room) -> Iterator[Warned]:
    for name, left in after.items():
        taken = before.get(name, left) - left
        if taken >= max(_NOTICED, _SHARE * (left + taken)):
            text = f"a trial took {show_size(taken)} of the disk of {name}, of which {show_size(left)} are left"
            yield Warned(code="disk-filling", text=f"{text}: {_REMEDY}")


def find_full(after: Room) -> Fault | None:
    """Why a trial failed in which a server's disk became full. Pure."""
    for name, left in after.items():
        if left < LEAST:
            return Fault(Cause.WORKLOAD_FAILED, f"the disk of {name} is full, with {show_size(left)} left: {_REMEDY}")
    return None
