"""The probe's agent on loopback, and a machine behind it."""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nearmetal.lab import probe
from nearmetal.lab.local_site import LocalSite
from nearmetal.lab.remote import agent

SECRET = b"what both sides know"

needs_probe = pytest.mark.skipif(
    not Path(os.environ.get("NEARMETAL_PROBE") or Path(sys.executable).parent / "nearmetal-probe").is_file(),
    reason="the probe has not been built: make setup",
)


@contextlib.asynccontextmanager
async def agent_process(folder: Path) -> AsyncIterator[tuple[asyncio.subprocess.Process, agent.AgentEndpoint]]:
    (folder / "secret").write_bytes(SECRET)
    serving = await asyncio.create_subprocess_exec(
        *(str(probe.path()), "agent", "--listen", "127.0.0.1:0", "--secret", str(folder / "secret")),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        assert serving.stdout is not None
        line = (await serving.stdout.readline()).decode()
        yield serving, agent.AgentEndpoint("127.0.0.1", int(line.rpartition(":")[2]), SECRET)
    finally:
        with contextlib.suppress(ProcessLookupError):
            serving.kill()
        await serving.wait()


@contextlib.asynccontextmanager
async def agent_serving(folder: Path) -> AsyncIterator[agent.AgentEndpoint]:
    async with agent_process(folder) as (_, endpoint):
        yield endpoint


def agent_machine(endpoint: agent.AgentEndpoint) -> agent.AgentMachine:
    machine = agent.AgentMachine(
        name="far",
        role="server",
        site=LocalSite(),
        endpoint=endpoint,
        owned=False,
        address="127.0.0.1",
        peer=None,
    )
    machine.probe = str(probe.path())
    return machine
