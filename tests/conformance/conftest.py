"""Machines of every environment that is installed, third parties' included, for one set of tests."""

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from nearmetal import plugins
from nearmetal.config import Paths
from nearmetal.lab import clean
from nearmetal.lab.lab import Lab
from nearmetal.lab.ledger import Ledger
from nearmetal.lab.sites import opener
from nearmetal.model import Environment, EnvironmentSpec, Handle, Machine, MachineSpec, Provision
from tests.conftest import OWN_CPU
from tests.restored import share_cache

SPEC = MachineSpec(vcpus=1, memory=512 * 2**20)

Make = Callable[[], Awaitable[tuple[Handle, Machine]]]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each test over each environment, and over its restored machines. Those that make real machines are live."""
    if "kind" not in metafunc.fixturenames:
        return
    marked = []
    for name in plugins.names("environments"):
        environment: Environment = plugins.load("environments", name)
        marks = [pytest.mark.live] if environment.on_switch else []
        marked.append(pytest.param(name, environment.provisions[0], marks=marks, id=name))
        if "restore" in environment.provisions:
            marked.append(pytest.param(name, "restore", marks=marks, id=f"{name}-restored"))
    metafunc.parametrize(("kind", "provision"), marked, scope="module")


@pytest.fixture(scope="module")
def environment(kind: str) -> Environment:
    found: Environment = plugins.load("environments", kind)
    return found


@pytest.fixture(autouse=True)
def home() -> None:
    """Not one for each test, as elsewhere: machines outlive a test here, and stay in the home they were made in."""


@pytest.fixture(scope="module")
def needs(kind: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A home for the lab, and what an environment needs beside it: a Docker engine of the tests' own."""
    with pytest.MonkeyPatch.context() as patch:
        home = tmp_path_factory.mktemp("home")
        share_cache(home / "cache")
        patch.setenv("NEARMETAL_HOME", str(home))
        if kind == "docker" and shutil.which("dockerd"):
            patch.setenv("DOCKER_HOST", request.getfixturevalue("engine"))
        yield
        shutil.rmtree(home / "cache")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def lab(kind: str, environment: Environment, needs: None) -> AsyncIterator[Lab]:
    """One lab for an environment. Skips, with the reason, where this host lacks what the environment needs."""
    if environment.on_switch:
        from nearmetal.lab.image import Recipe, build

        await build(Recipe(), Paths.default().cache, print)
    open_site = opener({})
    findings = await environment.check(EnvironmentSpec(kind=kind), SPEC, await open_site("local"))
    lacking = [finding for finding in findings if not finding.ok and finding.fatal]
    if lacking:
        pytest.skip(f"{kind} cannot run here: {lacking[0].what}: {lacking[0].detail}. {lacking[0].remedy}")
    token = clean.new_token()
    ledger = Ledger(clean.ledgers_folder() / f"{token}.jsonl")
    host_boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    lab = Lab(token, ledger, open_site, host_boot_id)
    try:
        yield lab
    finally:
        left = await lab.close()
        ledger.close()
    assert left == []
    assert not ledger.path.exists()


@pytest.fixture(scope="module")
def make(lab: Lab, kind: str, provision: Provision) -> Make:
    """Make and attach one more machine."""

    async def one() -> tuple[Handle, Machine]:
        spec = EnvironmentSpec(kind=kind)
        site = await lab.site("local")
        handle = await lab.create(spec, SPEC, "server", provision, str(OWN_CPU), site)
        return handle, await lab.attach(handle)

    return one


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def made(make: Make) -> tuple[Handle, Machine]:
    """A machine for all tests that leave it as it was; an emulated guest takes seconds to boot."""
    return await make()


@pytest.fixture
def machine(made: tuple[Handle, Machine]) -> Machine:
    return made[1]
