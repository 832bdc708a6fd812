"""What each machine of a trial tells of itself at one instant: its boot, its network, its memory, its clocks.

By one exchange with each machine that has a kernel of its own, and by one reading of each host for all that share its
kernel: to begin a command in a container takes longer than all the rest. An agent reads the files itself, since an
emulated guest takes a tenth of a second to start programs; elsewhere the probe's `at` starts one. Either exchange also
compares the machine's clock with the controller's, as NTP does (RFC 5905, section 8).
"""

import asyncio
import base64
import contextlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nearmetal.errors import MALFORMED, MachineLost, NearmetalError, ToolFailed
from nearmetal.lab.local_site import LocalSite
from nearmetal.lab.machines import kernel
from nearmetal.lab.read_files import FilesRead, MachineFileReader
from nearmetal.lab.read_lines import Lines, build_grep, choose_lines, parse_grep, read_lines
from nearmetal.model import Machine, Site

BOOT, VMSTAT, UPTIME = "/proc/sys/kernel/random/boot_id", "/proc/vmstat", "/proc/uptime"
ONLINE, MEMORY, PRESSURE = "/sys/devices/system/cpu/online", "/proc/meminfo", "/proc/pressure/memory"
_OF_A_KERNEL = (BOOT, VMSTAT, UPTIME, ONLINE, MEMORY, PRESSURE)
_OF_A_CARD = ("operstate", "carrier", "carrier_changes")
_OF_A_NETWORK = ("fib_trie", "route")

_PATTERN = (
    "^[0-9a-z,-]+$"  # a file of one word
    "|^[0-9.]+ [0-9.]+$"  # the uptime
    "|^oom_kill |^MemTotal:|^full "
    "|[-]- [0-9.]+$"  # an address
    "|\t[0-9A-F]{8}\t[0-9A-F]{8}\t"  # a route
)


@dataclass(frozen=True)
class Clock:
    """What a machine's clocks told, between two instants of the controller's monotonic clock in seconds."""

    asked: float
    answered: float
    uptime: float | None
    """Seconds since its kernel booted."""
    least_ns: int = 0
    most_ns: int = 0
    """Its CLOCK_REALTIME is ahead of the controller's by no less and no more than this."""

    @property
    def ahead_ns(self) -> float:
        return (self.least_ns + self.most_ns) / 2

    @property
    def uncertainty_ns(self) -> float:
        return (self.most_ns - self.least_ns) / 2


@dataclass(frozen=True)
class MachineState:
    lines: Lines | None = None
    """None of a machine that cannot be asked, or has no `grep`."""
    clock: Clock | None = None
    """None if it does not tell."""


async def read_clocks(machines: Sequence[Machine], shared: Mapping[str, int]) -> tuple[MachineState, ...]:
    """What their clocks tell, and nothing else: an emulated guest reads the rest in 5 to 10 ms. MachineLost."""
    return await read_states(machines, shared, only_clocks=True)


async def read_states(
    machines: Sequence[Machine], shared: Mapping[str, int], *, only_clocks: bool = False
) -> tuple[MachineState, ...]:
    """Of each. `shared`: by name the first process of those that share their host's kernel. MachineLost."""
    own = [machine for machine in machines if machine.name not in shared]
    sites = {machine.site.name: machine.site for machine in machines if machine.name in shared}
    of_own, of_sites = await asyncio.gather(
        asyncio.gather(*(_ask_vitals(machine, [UPTIME] if only_clocks else _list_files(machine)) for machine in own)),
        asyncio.gather(
            *(_read_shared(site, _find_shared(machines, shared, site), only_clocks) for site in sites.values())
        ),
    )
    found = {machine.name: vitals for machine, vitals in zip(own, of_own, strict=True)}
    for vitals in of_sites:
        found |= vitals
    return tuple(found[machine.name] for machine in machines)


def _find_shared(machines: Sequence[Machine], shared: Mapping[str, int], site: Site) -> dict[str, int]:
    here = (machine.name for machine in machines if machine.site.name == site.name)
    return {name: shared[name] for name in here if name in shared}


def _list_files(machine: Machine) -> list[str]:
    """Of one that has a kernel of its own."""
    card = (f"/sys/class/net/{machine.interface}/{name}" for name in _OF_A_CARD)
    return [*_OF_A_KERNEL, *card, *(f"/proc/net/{name}" for name in _OF_A_NETWORK)]


async def _read_shared(site: Site, processes: Mapping[str, int], only_clocks: bool) -> dict[str, MachineState]:
    """Of machines that share this host's kernel: what they have is the host's, but for their networks."""
    folders = {name: f"/proc/{pid}/net/" for name, pid in processes.items()}
    paths = [folder + name for folder in folders.values() for name in _OF_A_NETWORK]
    told = await _ask_vitals(site, [UPTIME] if only_clocks else [UPTIME, ONLINE, MEMORY, *paths])
    return {name: MachineState(_select_lines(told.lines, folder), told.clock) for name, folder in folders.items()}


def _select_lines(lines: Lines | None, folder: str) -> Lines | None:
    if lines is None:
        return None
    return {path: one for path, one in lines.items() if path.startswith(folder) or not path.endswith(_OF_A_NETWORK)}


async def _ask_vitals(where: Machine | Site, paths: Sequence[str]) -> MachineState:
    try:
        if isinstance(where, LocalSite):
            asked = time.monotonic()
            lines = await read_lines(where, _PATTERN, paths)
            return MachineState(lines, Clock(asked, time.monotonic(), _find_uptime(lines)))
        if isinstance(where, MachineFileReader):
            with contextlib.suppress(ToolFailed):
                return _make_vitals(where, await where.read_files(paths))
        return await _run(where, paths)
    except MachineLost:
        raise
    except (NearmetalError, *MALFORMED):
        return MachineState()


def _make_vitals(where: Machine | Site, read: FilesRead) -> MachineState:
    lines = choose_lines(_PATTERN, read.texts)
    bounds = _compare_clocks(where, read.least_ns, read.most_ns)
    return MachineState(lines, Clock(read.asked, read.answered, _find_uptime(lines), *bounds))


async def _run(where: Machine | Site, paths: Sequence[str]) -> MachineState:
    """By programs there. Raises NearmetalError, and what `MALFORMED` names."""
    asked, asked_ns = time.monotonic(), time.time_ns()
    ended = await where.exec([where.probe, "at", "now", "--json", "--", *build_grep(_PATTERN, paths)])
    answered, answered_ns = time.monotonic(), time.time_ns()
    document = json.loads(ended.stdout)
    text = base64.b64decode(document["stdout"]).decode("utf-8", "replace")
    lines = parse_grep(int(document["status"]), text, paths)
    bounds = _compare_clocks(where, int(document["ended_ns"]) - answered_ns, int(document["started_ns"]) - asked_ns)
    return MachineState(lines, Clock(asked, answered, _find_uptime(lines), *bounds))


def _compare_clocks(where: Machine | Site, least_ns: int, most_ns: int) -> tuple[int, int]:
    if kernel.boot_of(where) == LocalSite().boot_id:
        return 0, 0  # it is one clock
    return min(least_ns, most_ns), max(least_ns, most_ns)


def _find_uptime(lines: Lines | None) -> float | None:
    (words,) = (lines or {}).get(UPTIME, ("",))[:1]
    return float(words.split()[0]) if words else None
