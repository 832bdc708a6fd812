"""A switch and machines on this host, and what must be gone when a test is over."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from nearmetal.config import Paths
from nearmetal.errors import HostCannot
from nearmetal.lab import image as images
from nearmetal.lab import machine_image
from nearmetal.lab.image import Image
from nearmetal.lab.local_site import LocalSite
from nearmetal.lab.networks import network
from nearmetal.model import Environment, Handle, Machine, MachineSpec, Order
from nearmetal.run import plan_execution, study_execution
from tests.conftest import OWN_CPU
from tests.order.in_process import InProcess
from tests.ports import free_port

from .far_host import FarHost, far_host, user
from .leftovers import stays
from .two_hosts import FAR_CACHE, Login, Pair, joined

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
        return machine_image.find_image("lab")
    except HostCannot:
        return await images.build(images.Recipe(), Paths.default().cache, print)


@pytest.fixture(autouse=True)
def in_process(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs that a test starts itself are in its process, but for those that are about processes. Those of commands have
    a process for each block, as users' have."""
    if request.node.get_closest_marker("processes") is None:
        monkeypatch.setattr(study_execution, "BlockProcesses", InProcess)


@pytest.fixture
def one_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block that is bad is not run again: what is asked is seen at the first."""
    monkeypatch.setattr(plan_execution, "MOST_ATTEMPTS", 1)


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
            port=network.make_port(token, made),
            cpus=cpus,
        )
        return await environment.attach(await environment.create(order, site, notes), site)

    try:
        yield one
    finally:
        for handle in notes.handles.values():
            await environment.destroy(handle, site)
        await network.destroy_switch(switch, site)
    assert stays(token) == []


@pytest.fixture
def login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Login:
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return user(tmp_path / "user")


@pytest.fixture
def far(lab_image: Image, tmp_path: Path, login: Login) -> Iterator[FarHost]:
    """On loopback; its key is known."""
    someone, key = login
    with far_host(lab_image, tmp_path / "far", key, port=free_port(), cache=FAR_CACHE) as host:
        someone.know(host)
        yield host


@pytest.fixture
def pair(lab_image: Image, tmp_path: Path, login: Login) -> Iterator[Pair]:
    with joined(lab_image, tmp_path / "far", login) as two:
        yield two


@pytest.fixture
def room(lab_image: Image, tmp_path: Path, login: Login) -> Iterator[Pair]:
    """The near host and five others, as a server and its clients."""
    with joined(lab_image, tmp_path / "far", login, number=5) as six:
        yield six


@pytest.fixture
def pair_with_qemu(lab_image: Image, tmp_path: Path, login: Login) -> Iterator[Pair]:
    with joined(lab_image, tmp_path / "far", login, programs_of_this_host=True) as two:
        yield two
