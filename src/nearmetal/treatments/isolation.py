"""The factor `isolation`: a CPU of the machine kept free for what is measured.

`kernel`: the last CPU is taken from the scheduler, its tick and its RCU callbacks by kernel arguments. On a machine
of ours these stand on its command line before it boots; a borrowed machine is told by its boot loader and rebooted.
"""

from typing import ClassVar

from nearmetal.model import Change, Level, MachineSpec, Readback, Stage

LEVELS = ("none", "kernel")


def kernel_arguments(cpu: int) -> tuple[str, ...]:
    """Scheduler, tick and RCU leave the CPU alone (Documentation/admin-guide/kernel-parameters.txt)."""
    return (f"isolcpus={cpu}", f"nohz_full={cpu}", f"rcu_nocbs={cpu}")


class Isolation:
    name: ClassVar[str] = "isolation"

    def problem(self, level: Level) -> str | None:
        return None if level in LEVELS else f"it is one of {', '.join(LEVELS)}"

    def shape(self, spec: MachineSpec, level: Level) -> MachineSpec:
        if level == "none" or spec.vcpus < 2:
            return spec
        return spec.model_copy(update={"kernel_arguments": (*spec.kernel_arguments, *kernel_arguments(spec.vcpus - 1))})

    def changes(self, stage: Stage, level: Level) -> list[Change]:
        if level == "none" or stage.spec.vcpus < 2:
            return []
        arguments = " ".join(kernel_arguments(stage.spec.vcpus - 1))
        return [
            Change(on=server.name, kind="boot", target="kernel arguments", after=arguments)
            for server in stage.servers
            if not server.owned
        ]

    async def verify(self, stage: Stage, level: Level) -> Readback:
        """The kernel's own word: /sys/devices/system/cpu/isolated."""
        isolated = {
            server.name: (await server.exec(["cat", "/sys/devices/system/cpu/isolated"])).text.strip()
            for server in stage.servers
        }
        empty = [name for name, cpus in isolated.items() if not cpus]
        if level == "kernel" and empty:
            return Readback(
                values=isolated,
                ok=False,
                reason=f"{', '.join(empty)}: no CPU is isolated; it needs a kernel of its own and 2 CPUs",
            )
        return Readback(values=isolated)


plugin = Isolation()
