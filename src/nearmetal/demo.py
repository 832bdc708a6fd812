"""`make demo`: the study quickstart on this host, with a Docker engine of its own where none answers."""

import asyncio
import os
import sys

from nearmetal.config import Paths
from nearmetal.errors import ExitCode, HostCannot


async def main() -> int:
    from nearmetal.lab.engine import own_engine
    from nearmetal.lab.engine_api import Engine, address

    try:
        await Engine.connect(address({}))
        return await _run({})
    except HostCannot:
        print("no Docker engine answers here: the demo starts one, and stops it at its end", flush=True)
    try:
        async with own_engine(Paths.default().cache / "engine") as url:
            return await _run({"DOCKER_HOST": url})
    except HostCannot as error:
        print(f"{error}\nthe demo goes on without containers", file=sys.stderr, flush=True)
        return await _run({})


async def _run(environment: dict[str, str]) -> int:
    """The command that a person would type; what this host cannot run is left out visibly."""
    command = [sys.executable, "-m", "nearmetal", "run", "quickstart", "--available"]
    process = await asyncio.create_subprocess_exec(*command, env={**os.environ, **environment})
    return await process.wait()


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(main()))
    except KeyboardInterrupt:
        sys.exit(ExitCode.INTERRUPTED)
