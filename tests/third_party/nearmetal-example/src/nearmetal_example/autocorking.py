"""The treatment `autocorking`: whether the kernel holds a small write back while an earlier one waits in the card.

It is a value of the machine's kernel that can be set while it runs, so it is a change, and is put back afterwards.
"""

from typing import ClassVar

from nearmetal.model import Change, Level, MachineSpec, Readback, Stage, Treatment

_SYSCTL = "net.ipv4.tcp_autocorking"


class Autocorking:
    name: ClassVar[str] = "autocorking"

    def problem(self, level: Level) -> str | None:
        return None if isinstance(level, bool) else "it is true or false"

    def shape(self, spec: MachineSpec, level: Level) -> MachineSpec:
        return spec

    def changes(self, stage: Stage, level: Level) -> list[Change]:
        return [
            Change(on=server.name, kind="sysctl", target=_SYSCTL, after=str(int(level))) for server in stage.servers
        ]

    async def verify(self, stage: Stage, level: Level) -> Readback:
        asked = {server.name: await server.exec(["sysctl", "-n", _SYSCTL]) for server in stage.servers}
        found = {name: said.text.strip() if said.status == 0 else said.complaint for name, said in asked.items()}
        wrong = [name for name, value in found.items() if value != str(int(level))]
        reason = f"{_SYSCTL} of {wrong[0]} is {found[wrong[0]]!r}" if wrong else ""
        return Readback(values=found, ok=not wrong, reason=reason)


plugin: Treatment = Autocorking()
