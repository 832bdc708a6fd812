"""What a host is, as far as isolating CPUs of it is concerned: its CPUs, its knobs, and who may run where."""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from nearmetal import cpu_lists
from nearmetal.errors import BadInput, HostCannot
from nearmetal.lab.changes.kinds import KINDS
from nearmetal.lab.cpus import free_cpus
from nearmetal.lab.local_site import run_checked
from nearmetal.model import Commands
from nearmetal.treatments.isolation import SYSCTLS

_WATCHDOG = "kernel.nmi_watchdog"
KNOBS: Mapping[str, str] = {**SYSCTLS, _WATCHDOG: "0"}
"""Those of the treatment, and one that few guests have, with the values that isolate."""

_COUNTERS = ("/sys/bus/event_source/devices/cpu/type", "/sys/bus/event_source/devices/cpu_core/type")
"""Of the hardware, one of which makes the watchdog's interrupts: a kernel without shows the knob and takes no value."""

_FOLDER = "/sys/devices/system/cpu"
_ABOUT_A_CPU = (
    f"{_FOLDER}/cpu{{cpu}}/topology/thread_siblings_list",
    f"{_FOLDER}/cpu{{cpu}}/topology/physical_package_id",
    f"{_FOLDER}/cpu{{cpu}}/cpufreq/scaling_governor",
    "/sys/devices/system/machinecheck/machinecheck{cpu}/ignore_ce",
)
_LINE = re.compile(r"/sys/devices/system/\w+/[a-z]+([0-9]+)/(?:\w+/)?(\w+):(.*)")


@dataclass(frozen=True)
class HostCpu:
    number: int
    siblings: tuple[int, ...]
    """CPUs of the same core, itself included: what one of them does slows the others."""
    package: str
    governor: str | None
    """How its clock rate is chosen; None where the kernel does not choose it."""
    counts_errors: bool = False
    """Whether it looks for corrected errors of its hardware every few minutes."""


@dataclass(frozen=True)
class Bystanders:
    """Who may run on the CPUs that are to be kept free: by key, the name."""

    movable: Mapping[str, str]
    fixed: Mapping[str, str]

    def count_movable(self) -> Mapping[str, int]:
        """Threads and interrupt lines that can be moved, and threads that the kernel has bound."""
        lines = [key for key in self.movable if re.fullmatch("irq:[0-9]+", key)]
        threads = [key for key in self.movable if key.startswith("task:")]
        return {"threads": len(threads), "interrupts": len(lines), "bound": len(self.fixed)}

    def leave_out(self, others: Collection[str]) -> "Bystanders":
        """Without those of these keys, who are moved otherwise."""
        return Bystanders({key: name for key, name in self.movable.items() if key not in others}, self.fixed)


@dataclass(frozen=True)
class Cpusets:
    """How far the kernel's cpusets can keep CPUs free here."""

    listed: str
    """What the probe told, as it printed it: what `on` sets."""
    unfit: str
    """Why they cannot, in words; "" when they can."""
    version: str
    """Of the control groups: "first" or "second"; "" where there are none."""
    tasks: frozenset[str]
    """Who is moved by them: keys as those of bystanders."""
    groups: int
    """Control groups that lose the CPUs."""


@dataclass(frozen=True)
class Host:
    cpus: tuple[HostCpu, ...]
    """Those online."""
    knobs: Mapping[str, str]
    """Of KNOBS, those that this kernel has, as they are."""
    isolated: str
    """By the kernel since it booted, in its notation."""
    nohz_full: str
    arguments: tuple[str, ...]
    """The running kernel's command line."""
    can_tell_grub: bool

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(cpu.number for cpu in self.cpus)


async def survey_host(commands: Commands) -> Host:
    """Read it all; changes nothing."""
    online = cpu_lists.parse((await run_checked(commands, "cat", f"{_FOLDER}/online")).decode())
    knobs = {name: await KINDS["sysctl"].read(commands, name) for name in KNOBS}
    if not any([await _read_told(commands, file) for file in _COUNTERS]):
        knobs[_WATCHDOG] = None
    return Host(
        cpus=await _read_cpus(commands, online),
        knobs={name: value for name, value in knobs.items() if value is not None},
        isolated=await _read_told(commands, f"{_FOLDER}/isolated"),
        nohz_full=await _read_told(commands, f"{_FOLDER}/nohz_full"),
        arguments=tuple((await run_checked(commands, "cat", "/proc/cmdline")).decode().split()),
        can_tell_grub=(await commands.exec(["which", "update-grub"])).status == 0,
    )


async def _read_told(commands: Commands, file: str) -> str:
    """ "" where the kernel has no such file; "(null)" is how nohz_full says that there is none."""
    text = (await commands.exec(["cat", file])).text.strip()
    return "" if text == "(null)" else text


async def _read_cpus(commands: Commands, online: Sequence[int]) -> tuple[HostCpu, ...]:
    files = [name.format(cpu=number) for number in online for name in _ABOUT_A_CPU]
    # A kernel has not all of these files; grep goes on without those that are missing.
    lines = (await commands.exec(["grep", "-H", ".", *files])).text.splitlines()
    told = {(int(one[1]), one[2]): one[3].strip() for one in map(_LINE.fullmatch, lines) if one}
    return tuple(
        HostCpu(
            number=number,
            siblings=tuple(cpu_lists.parse(told.get((number, "thread_siblings_list"), str(number)))),
            package=told.get((number, "physical_package_id"), "0"),
            governor=told.get((number, "scaling_governor")),
            counts_errors=told.get((number, "ignore_ce")) == "0",
        )
        for number in online
    )


def choose_cpus(text: str | None, host: Host) -> tuple[int, ...]:
    """The CPUs to isolate, the last one by default. BadInput or HostCannot for what cannot be kept free."""
    if len(host.cpus) < 2:
        remedy = "isolate a CPU of a machine that has two or more"
        raise HostCannot("of one CPU none can be kept free", "this host", remedy)
    if text is None:
        return (host.numbers[-1],)
    remedy = f"those online are {cpu_lists.show(host.numbers)}: --cpus {host.numbers[-1]}"
    try:
        wanted = cpu_lists.parse(text)
    except ValueError as error:
        raise BadInput(str(error), "--cpus", remedy) from None
    missing = [cpu for cpu in wanted if cpu not in host.numbers]
    if missing:
        raise BadInput(f"there is no CPU {cpu_lists.show(missing)}", "--cpus", remedy)
    if not wanted:
        raise BadInput("no CPU is named", "--cpus", remedy)
    if len(wanted) == len(host.cpus):
        raise BadInput("these are all CPUs: at least one is needed for everything else", "--cpus", remedy)
    return tuple(wanted)


async def read_cpusets(commands: Commands, probe: str, cpus: Sequence[int]) -> Cpusets:
    listed = await free_cpus.list_cpuset(commands, probe, cpu_lists.show(cpus))
    told = json.loads(listed)
    return Cpusets(
        listed=listed,
        unfit=told.get("unfit", ""),
        version=told.get("hierarchy", {}).get("version", ""),
        tasks=frozenset(told["tasks"]),
        groups=sum("apart" in group for group in told["groups"].values()),
    )


async def find_bystanders(commands: Commands, probe: str, cpus: Sequence[int]) -> Bystanders:
    words = (probe, "bystanders", "list", "--json", "--cpus", cpu_lists.show(cpus))
    told = json.loads(await run_checked(commands, *words))
    movable, fixed = ({key: one["name"] for key, one in told[kind].items()} for kind in ("movable", "fixed"))
    return Bystanders(movable, fixed)
