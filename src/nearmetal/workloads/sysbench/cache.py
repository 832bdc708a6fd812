"""The page cache before a run of files: written back and dropped, so that what is read comes from the disk.

A machine without a kernel of its own has its host's cache: that one is dropped, with all that others have in it. A
virtual machine's is its own; what its host keeps of its disk is another cache, and is left as it is.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

from nearmetal.lab.machines import kernel
from nearmetal.model import Commands, Completed, Machine, MachineSpec, Warned
from nearmetal.units import show_size
from nearmetal.workloads._stage import last_words
from nearmetal.workloads.sysbench.parameters import SysbenchParameters

REMAINS = 0.01
"""Share of the files. More than this still in memory is no dropped cache; single pages may be in use."""
_DROP = "/proc/sys/vm/drop_caches"
_EVERYTHING = b"3\n"
"""Pages, and what the kernel knows of folders and files."""
_PAST_THE_HOSTS = ("none", "directsync")
"""Of `machine.disk_cache`: those with which the host keeps nothing of a guest's disk."""
_REMEDY = 'it takes root and a kernel that lets go of files; cache = "direct" reads past the cache without'


@dataclass(frozen=True)
class Cache:
    """What was found before and after: of the files, and of all that the kernel has. In bytes."""

    kernel: str
    """Whose: the machine's "own", or its "host"'s."""
    files_before: int | None = None
    files_after: int | None = None
    cached_before: int | None = None
    cached_after: int | None = None
    problem: str | None = None
    """Why the run would not begin at the disk."""

    @property
    def document(self) -> bytes:
        return json.dumps(asdict(self), indent=1).encode()


async def drop_cache(server: Machine, folder: str, size: int, limit: float) -> Cache:
    """Drop it, and look whether the files in the folder are out of it. MachineLost, TimedOut."""
    of_host = kernel.is_its_hosts(server)
    keeper: Commands = server.site if of_host else server
    found = Cache("host" if of_host else "own")

    async def run_step(commands: Commands, argv: list[str], stdin: bytes = b"") -> Completed:
        ended = await commands.exec(argv, stdin=stdin, timeout=limit)
        if ended.status != 0:
            raise _StepFailure(f"{' '.join(argv[:2])} ended with status {ended.status}: {last_words(ended)}")
        return ended

    async def count_resident() -> int:
        fincore = ["fincore", "--bytes", "--noheadings", "--output", "RES"]
        return _sum_sizes((await run_step(server, ["find", folder, "-type", "f", "-exec", *fincore, "{}", "+"])).text)

    async def read_cached() -> int:
        return _parse_cached((await run_step(keeper, ["cat", "/proc/meminfo"])).text)

    try:
        await run_step(keeper, ["sync"])
        found = replace(found, files_before=await count_resident(), cached_before=await read_cached())
        await run_step(keeper, ["tee", _DROP], _EVERYTHING)
        left = await count_resident()
        found = replace(found, files_after=left, cached_after=await read_cached())
    except _StepFailure as refused:
        return replace(found, problem=f"{server.name}: {_name_cache(found)} was not dropped: {refused}; {_REMEDY}")
    if left <= REMAINS * size:
        return found
    remains = f"{show_size(left)} of {show_size(size)} of files are still in memory"
    return replace(found, problem=f"{server.name}: {_name_cache(found)} was dropped, and {remains}; {_REMEDY}")


class _StepFailure(Exception):
    """A step did not do what it was to do; its text says which, and why."""


def list_warnings(server: Machine, spec: MachineSpec, given: SysbenchParameters) -> list[Warned]:
    """What a reader should know of a run that goes to the disk of a virtual machine, and not to its memory alone."""
    if kernel.is_its_hosts(server) or spec.disk_cache in _PAST_THE_HOSTS:
        return []
    if given.cache != "page":
        why = "a virtual machine passes by its own kernel's page cache"
    elif given.total_size >= spec.memory:
        files = f"{show_size(given.total_size)} of files"
        why = f"a virtual machine's {show_size(spec.memory)} of memory cannot hold {files}"
    else:
        return []
    text = (
        f"{why}; its host may have its disk in memory, a second cache, which a container has not: "
        'where nearmetal makes the disk, machine.disk_cache = "none" keeps it out'
    )
    return [Warned(code="host-cache", text=text)]


def _name_cache(cache: Cache) -> str:
    return "the page cache of its host" if cache.kernel == "host" else "the page cache of its kernel"


def _sum_sizes(sizes: str) -> int:
    try:
        return sum(map(int, sizes.split()))
    except ValueError:
        raise _StepFailure(f"fincore printed no sizes: {sizes[:100]!r}") from None


def _parse_cached(meminfo: str) -> int:
    values: Mapping[str, str] = dict(line.split(":", 1) for line in meminfo.splitlines() if ":" in line)
    number, _, unit = values.get("Cached", "").strip().partition(" ")
    if not number.isdigit() or unit != "kB":
        raise _StepFailure("/proc/meminfo has no `Cached`")
    return int(number) * 1024
