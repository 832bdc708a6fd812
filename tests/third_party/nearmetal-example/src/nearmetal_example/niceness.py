"""The treatment `niceness`: with which priority a machine's programs run, from 0 (as all others) to 19 (last).

It must be so before the machine exists, so it shapes what the environment is asked for. An environment that does not
know `niceness` leaves it at 0, and the readback makes the trial invalid: nothing is measured under a false name.
"""

from typing import ClassVar

from nearmetal.model import Change, Level, MachineSpec, Readback, Stage, Treatment


class Niceness:
    name: ClassVar[str] = "niceness"

    def problem(self, level: Level) -> str | None:
        possible = isinstance(level, int) and not isinstance(level, bool) and 0 <= level <= 19
        return None if possible else "it is a whole number from 0 to 19"

    def shape(self, spec: MachineSpec, level: Level) -> MachineSpec:
        return spec.model_copy(update={"niceness": level})

    def changes(self, stage: Stage, level: Level) -> list[Change]:
        return []

    async def verify(self, stage: Stage, level: Level) -> Readback:
        found = []
        for server in stage.servers:
            ended = await server.exec(["nice"])
            if ended.status != 0:  # 127 where there is no such program
                return Readback(ok=False, reason=f"{server.name} does not tell its niceness: {ended.complaint}")
            found.append(ended.text.strip())
        wrong = [niceness for niceness in found if niceness != str(level)]
        return Readback(
            values={"niceness": found},
            ok=not wrong,
            reason=f"a program runs with niceness {wrong[0]} instead of {level}" if wrong else "",
        )


plugin: Treatment = Niceness()
