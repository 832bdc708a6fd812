"""How long a container of ours takes from nothing to its first command, against `docker run` of the same image.

    .venv/bin/python bench/docker_run.py [--rounds 10]

Both end when `true` has run inside. Ours hangs on the lab's switch then, and is ready for more; the other has no
network and is gone. Rounds alternate; the medians' ratio is printed, never judged. As root; starts an engine of its
own where none answers.
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from nearmetal.config import Paths
from nearmetal.environments.docker import plugin
from nearmetal.errors import HostCannot, NearmetalError
from nearmetal.lab.changes import ledger
from nearmetal.lab.changes.ledger import Ledger
from nearmetal.lab.containers.api import DOCKER, ContainerEngine
from nearmetal.lab.containers.private_engine import run_private_engine
from nearmetal.lab.lab import remove
from nearmetal.lab.local_site import LocalSite, run_checked
from nearmetal.lab.networks import network
from nearmetal.model import MachineSpec, Order


@asynccontextmanager
async def some_engine() -> AsyncIterator[str]:
    """One that answers, else one for this run."""
    try:
        url = (await ContainerEngine.connect(DOCKER.address({}))).address
    except HostCannot:
        with tempfile.TemporaryDirectory(prefix="nearmetal-bench-") as folder:
            async with run_private_engine(Path(folder)) as url:
                yield url
    else:
        yield url


async def ours(engine: str, name: str, lab: Ledger) -> tuple[float, float]:
    """Seconds to make and attach, and to the end of the first command."""
    site = LocalSite()
    await network.create_switch(name, site, lab)
    order = Order(
        name=f"{name}-1",
        role="server",
        spec=MachineSpec(),
        options={"engine": engine},
        provision="boot",
        port=network.make_port(name, 1),
        cpus="0",
    )
    try:
        begin = time.monotonic()
        machine = await plugin.attach(await plugin.create(order, site, lab), site)
        attached = time.monotonic()
        await run_checked(machine, "true")
        return attached - begin, time.monotonic() - begin
    finally:
        for left in lab.outstanding().handles:
            await remove(left, site)
            lab.destroyed(left)


async def theirs(engine: str, image: str) -> float:
    limits = ("--network", "none", "--cpuset-cpus", "0", "--memory", "512m", "--memory-swap", "512m")
    begin = time.monotonic()
    await run_checked(LocalSite(), "docker", "--host", engine, "run", "--rm", *limits, image, "true")
    return time.monotonic() - begin


async def measure(rounds: int) -> None:
    made: list[tuple[float, float]] = []
    run: list[float] = []
    async with some_engine() as engine:
        for number in range(rounds + 1):
            name = f"nm-bench-{os.getpid()}-{number}"
            with ledger.held(Paths.default().state / "ledgers" / f"{name}.jsonl") as lab:
                made.append(await ours(engine, name, lab))
            client = (await ContainerEngine.connect(engine)).client
            tags = [tag for one in client.images() for tag in one["RepoTags"] or () if tag.startswith("nearmetal/lab:")]
            run.append(await theirs(engine, tags[0]))
    del made[0], run[0]  # the image was taken over, and programs were read for the first time
    attach, first = (statistics.median(column) for column in zip(*made, strict=True))
    other = statistics.median(run)
    print(f"create+attach {attach:.3f} s, to the end of `true` {first:.3f} s, docker run {other:.3f} s")
    print(f"create+attach / docker run = {attach / other:.2f}, with the command {first / other:.2f}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    try:
        asyncio.run(measure(parser.parse_args().rounds))
    except NearmetalError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
