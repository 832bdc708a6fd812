"""The observer `noise`: how often, and for how long, a program that wants a CPU does not run. Before and after a trial.

It keeps the CPUs busy that it listens to, so that it never runs while a trial measures.
"""

from typing import Any, ClassVar

from nearmetal.lab.hearing import heard, last_words, listening
from nearmetal.model import Machine, Observation, Running, Stage

SECONDS = 1.0
"""How long it listens each time."""
SLACK = 20.0
"""Seconds beyond that for the probe to start and to tell."""


class Noise:
    name: ClassVar[str] = "noise"
    around: ClassVar[bool] = True

    def __init__(self, setting: bool) -> None:
        if setting is not True:
            raise ValueError("it is true or false")

    async def start(self, stage: Stage) -> "NoiseWatch":
        watch = NoiseWatch()
        for server in stage.servers:
            argv = listening(server.probe, stage.cpus[server.name], SECONDS)
            watch.listening.append((server, await server.spawn(argv)))
        return watch


class NoiseWatch:
    """A probe that listens in each server, on all its CPUs."""

    def __init__(self) -> None:
        self.listening: list[tuple[Machine, Running]] = []

    async def stop(self) -> Observation:
        """A noise.v1 for each server; and of each of its CPUs the gaps: how many, their share, the longest in s."""
        artifacts: dict[str, bytes] = {}
        counters: dict[str, Any] = {}
        for index, (server, running) in enumerate(self.listening):
            ended = await running.wait(SECONDS + SLACK)
            if ended.status != 0:
                raise last_words(ended.stderr, server)
            artifacts[f"noise-{index}.json"] = ended.stdout
            on_cpu = heard(ended.stdout, server.name)
            counters[f"server-{index}"] = {str(cpu): one.counters for cpu, one in on_cpu.items()}
        return Observation(artifacts=artifacts, counters=counters)


plugin = Noise
