"""The observer `noise`: how often, and for how long, a program that wants a CPU does not run. Before and after a trial.

It keeps the CPUs busy that it listens to, so that it never runs while a trial measures. Of a guest its host is heard at
once: what a second program that wants the same CPU would change, the host's scheduler has counted already.
"""

from typing import Any, ClassVar

from nearmetal.lab.cpus import run_queue
from nearmetal.lab.cpus.noise import SLACK, build_listen_command, read_heard
from nearmetal.lab.cpus.run_queue import Accounts
from nearmetal.lab.machines import kernel
from nearmetal.model import Machine, Observation, Running, Stage

SECONDS = 1.0
"""How long it listens each time."""


class NoiseObserver:
    name: ClassVar[str] = "noise"
    around: ClassVar[bool] = True
    takes: ClassVar[float] = 2 * SECONDS + 0.5

    def __init__(self, setting: bool) -> None:
        if setting is not True:
            raise ValueError("it is true or false")

    async def start(self, stage: Stage) -> "NoiseWatch":
        watch = NoiseWatch()
        for server in stage.servers:
            argv = build_listen_command(server.probe, stage.cpus[server.name], SECONDS)
            # Where the kernel is the host's, it is the host that is listened to.
            host = {} if kernel.is_its_hosts(server) else await run_queue.read_accounts(server)
            watch.listening.append((server, await server.spawn(argv), host))
        return watch


class NoiseWatch:
    """A probe that listens in each server, on all its CPUs."""

    def __init__(self) -> None:
        self.listening: list[tuple[Machine, Running, Accounts]] = []

    async def stop(self) -> Observation:
        """A noise.v1 for each server; and of each of its CPUs the gaps: how many, their share, the longest in s.

        Of a guest of ours also "host": for how many seconds its threads waited for a CPU there, and how often.
        """
        artifacts: dict[str, bytes] = {}
        counters: dict[str, Any] = {}
        for index, (server, running, before) in enumerate(self.listening):
            ended = await running.wait(SECONDS + SLACK)
            told: dict[str, Any] = {str(cpu): one.counters for cpu, one in read_heard(ended, server).items()}
            artifacts[f"noise-{index}.json"] = ended.stdout
            if before and (waited := run_queue.find_totals(before, await run_queue.read_accounts(server))):
                told["host"] = waited.counters
            counters[f"server-{index}"] = told
        return Observation(artifacts=artifacts, counters=counters)


plugin = NoiseObserver
