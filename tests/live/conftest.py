"""A switch and machines on this host, and what must be gone when a test is over."""

import os
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from nearmetal.config import Paths
from nearmetal.errors import HostCannot
from nearmetal.lab import image as images
from nearmetal.lab import machine, network
from nearmetal.lab.image import Image
from nearmetal.lab.site import LocalSite
from nearmetal.model import Environment, Handle, Machine, MachineSpec, Order
from tests.conftest import OWN_CPU

Make = Callable[..., Awaitable[Machine]]


class Notes:
    """A ledger that only remembers: by name, the last that was said of each."""

    def __init__(self) -> None:
        self.handles: dict[str, Handle] = {}

    def creating(self, handle: Handle) -> None:
        self.handles[handle.name] = handle


@pytest.fixture(scope="session")
def token() -> str:
    """What everything that a test session makes carries in its name."""
    return f"nmt{os.getpid()}"


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def lab_image() -> Image:
    try:
        return machine.image("lab")
    except HostCannot:
        return await images.build(images.Recipe(), Paths.default().cache, print)


@pytest.fixture
def site() -> LocalSite:
    return LocalSite()


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest_asyncio.fixture
async def make(
    environment: Environment, lab_image: Image, site: LocalSite, notes: Notes, token: str
) -> AsyncIterator[Make]:
    """Make a machine on one switch, attached; all are destroyed when the test is over, and nothing may remain."""
    switch = await network.create_switch(token, site, Notes())
    made = 0

    async def one(spec: MachineSpec | None = None, cpus: str = str(OWN_CPU), **options: Any) -> Machine:
        nonlocal made
        made += 1
        order = Order(
            name=f"{token}-{made}",
            role="server",
            spec=spec or MachineSpec(),
            options=options,
            provision="boot",
            port=network.port(token, made),
            cpus=cpus,
        )
        return await environment.attach(await environment.create(order, site, notes), site)

    try:
        yield one
    finally:
        for handle in notes.handles.values():
            await environment.destroy(handle, site)
        await network.destroy_switch(switch, site)
    assert remains(token) == []


def remains(token: str) -> list[str]:
    """Everything on this host that carries the token: processes, mounts, namespaces, links, groups, folders."""
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if any(token.encode() in word for word in words) and process.name != str(os.getpid()):
            found.append(f"process {process.name}: {b' '.join(words)[:200]!r}")
    found += [f"mount {line}" for line in Path("/proc/mounts").read_text().splitlines() if token in line]
    found += [f"group {path}" for path in Path("/sys/fs/cgroup").glob(f"*/nearmetal-{token}*")]
    found += [f"group {path}" for path in Path("/sys/fs/cgroup").glob(f"nearmetal-{token}*")]
    found += [f"folder {path}" for path in Paths.default().state.glob(f"machines/*{token}*")]
    for argv in (["ip", "netns", "list"], ["ip", "link"]):
        listed = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
        found += [f"{argv[1]} {line}" for line in listed.splitlines() if token in line]
    return found
