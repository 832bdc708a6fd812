"""The factor `isolation`: a CPU of the machine, its last, kept for what is measured (docs/treatments.md).

With each level what is measured runs on that CPU and on no other, since else isolation would only take a CPU away from
it. `user`, of a machine without a kernel of its own, is done on its host.
"""

import json
from collections.abc import Iterator
from typing import Any, ClassVar

from nearmetal import cpu_lists
from nearmetal.errors import BadInput
from nearmetal.lab.cpus.free_cpus import find_bystanders
from nearmetal.lab.machines import kernel
from nearmetal.model import Change, Commands, Level, Machine, MachineSpec, Readback, Stage, Warned
from nearmetal.shortened_list import shorten_list

LEVELS = ("none", "user", "kernel", "kernel+user")
NAMED = 8
"""Tasks that stayed which a warning names; more are counted."""

SYSCTLS = {
    "kernel.timer_migration": "0",
    "kernel.sched_rt_runtime_us": "-1",
    "kernel.numa_balancing": "0",
    "kernel.hung_task_timeout_secs": "600",
    "vm.stat_interval": "10",
}
"""No timer of an idle CPU moves here, real-time work is not throttled, no page is unmapped to see who uses it, and what
looks after each CPU from time to time does so seldom or not at all. As in the profiles cpu-partitioning and realtime
of tuned, and in network-latency, on which both rest."""


def kernel_arguments(cpu: int | str) -> tuple[str, ...]:
    """Scheduler, tick and RCU leave the CPU, or a list, alone (Documentation/admin-guide/kernel-parameters.txt)."""
    return (f"isolcpus={cpu}", f"nohz_full={cpu}", f"rcu_nocbs={cpu}")


def _by_kernel(level: Level) -> bool:
    return str(level).startswith("kernel")


def _by_user(level: Level) -> bool:
    return str(level).endswith("user")


class Isolation:
    name: ClassVar[str] = "isolation"

    def problem(self, level: Level) -> str | None:
        return None if level in LEVELS else f"it is one of {', '.join(LEVELS)}"

    def shape(self, spec: MachineSpec, level: Level) -> MachineSpec:
        if level == "none":
            return spec
        if spec.vcpus < 2:
            raise BadInput(
                f"of one CPU none can be kept free, as {level!r} wants it",
                "machine.vcpus",
                "set it to 2 or more, or give the factor `isolation` a `when`",
            )
        arguments = kernel_arguments(spec.vcpus - 1) if _by_kernel(level) else ()
        return spec.model_copy(update={"alone": True, "kernel_arguments": (*spec.kernel_arguments, *arguments)})

    def changes(self, stage: Stage, level: Level) -> list[Change]:
        if level == "none":
            return []
        return [change for server in stage.servers for change in _list_changes(stage, server, level)]

    async def verify(self, stage: Stage, level: Level) -> Readback:
        """The kernel's own word: which CPUs are isolated, which tick only when they must, who may still run there."""
        if level == "none":
            return Readback()
        values: dict[str, Any] = {}
        warnings: list[Warned] = []
        for server in stage.servers:
            cpu = str(max(stage.cpus[server.name]))
            files = {name: f"/sys/devices/system/cpu/{name}" for name in ("isolated", "nohz_full")}
            said = {name: (await server.exec(["cat", file])).text.strip() for name, file in files.items()}
            found = values[server.name] = {"cpu": cpu, **said}
            if _by_kernel(level) and int(cpu) not in cpu_lists.parse(found["isolated"]):
                reason = f"CPU {cpu} is not isolated by the kernel; that takes a kernel of the machine's own"
                return Readback(values=values, ok=False, reason=f"{server.name}: {reason}")
            if _by_user(level):
                stayed = found["stayed"] = await _list_stayed(*_find_mover(server), cpu)
                if stayed:
                    text = f"{server.name}: these may still run on CPU {cpu}: {shorten_list(stayed, NAMED)}"
                    warnings.append(Warned(code="isolation-stayed", text=text))
        return Readback(values=values, warnings=tuple(warnings))


def _list_changes(stage: Stage, server: Machine, level: Level) -> Iterator[Change]:
    cpu = str(max(stage.cpus[server.name]))
    if _by_kernel(level) and not server.owned:
        arguments = " ".join(kernel_arguments(int(cpu)))
        yield Change(on=server.name, kind="boot", target="kernel arguments", after=arguments)
    if not _by_user(level):
        return
    commands, probe = _find_mover(server)
    on = server.name if commands is server else f"site:{server.site.name}"
    for name, value in SYSCTLS.items():
        yield Change(on=on, kind="sysctl", target=name, after=value, required=False)
    yield Change(on=on, kind="bystanders", target=f"{probe} {cpu}", after="clear", required=False)


def _find_mover(server: Machine) -> tuple[Commands, str]:
    """What bystanders are moved on, and the probe there: the host of a machine that shares its kernel."""
    if kernel.is_its_hosts(server):
        return server.site, server.site.probe
    return server, server.probe


async def _list_stayed(commands: Commands, probe: str, cpu: str) -> list[str]:
    """Names of all that could be moved, and still may run there."""
    ended = await commands.exec([probe, "bystanders", "list", "--json", "--cpus", cpu])
    return find_bystanders(json.loads(ended.stdout)) if ended.status == 0 else []


plugin = Isolation()
