"""Machines of every environment that is installed, third parties' included, for one set of tests."""

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from nearmetal import plugins
from nearmetal.config import Paths
from nearmetal.lab import clean
from nearmetal.lab.lab import Lab
from nearmetal.lab.ledger import Ledger
from nearmetal.lab.sites import opener
from nearmetal.model import Environment, EnvironmentSpec, Handle, Machine, MachineSpec

SPEC = MachineSpec(vcpus=1, memory=512 * 2**20)

Make = Callable[[], Awaitable[tuple[Handle, Machine]]]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each test over each environment. Those that make real machines are live."""
    if "kind" not in metafunc.fixturenames:
        return
    marked = []
    for name in plugins.names("environments"):
        marks = [pytest.mark.live] if plugins.load("environments", name).on_switch else []
        marked.append(pytest.param(name, marks=marks))
    metafunc.parametrize("kind", marked)


@pytest.fixture
def environment(kind: str) -> Environment:
    found: Environment = plugins.load("environments", kind)
    return found


@pytest.fixture
def needs(kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an environment needs beside it: a Docker engine of the tests' own."""
    if kind == "docker" and shutil.which("dockerd"):
        monkeypatch.setenv("DOCKER_HOST", request.getfixturevalue("engine"))


@pytest_asyncio.fixture
async def lab(kind: str, environment: Environment, needs: None) -> AsyncIterator[Lab]:
    """A lab of the test's own. Skips, with the reason, where this host lacks what the environment needs."""
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
    yield lab
    left = await lab.close()
    ledger.close()
    assert left == []
    assert not ledger.path.exists()


@pytest.fixture
def make(lab: Lab, kind: str) -> Make:
    """Make and attach one more machine."""

    async def one() -> tuple[Handle, Machine]:
        spec = EnvironmentSpec(kind=kind)
        provision = plugins.load("environments", kind).provisions[0]
        site = await lab.site("local")
        cpus = str((await lab.available_cpus(site))[-1])
        handle = await lab.create(spec, SPEC, "server", provision, cpus, site)
        return handle, await lab.attach(handle)

    return one
