"""Machines of every environment that is installed, third parties' included, for one set of tests."""

import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path

import pytest
import pytest_asyncio

from nearmetal import plugins
from nearmetal.config import Paths
from nearmetal.lab import clean
from nearmetal.lab.image import Recipe, build
from nearmetal.lab.lab import Lab
from nearmetal.lab.ledger import Ledger
from nearmetal.lab.sites import opener
from nearmetal.model import Elsewhere, Environment, EnvironmentSpec, Handle, Machine, MachineSpec, Provision, Reached
from tests import vcenter
from tests.conftest import OWN_CPU
from tests.live.far_host import far_host, user
from tests.live.two_hosts import FAR_CACHE, free_port
from tests.restored import share_cache

from . import elsewhere

SPEC = MachineSpec(vcpus=1, memory=512 * 2**20)

PLACE = "there"
"""The site of machines that are hosts of their own."""

Make = Callable[[], Awaitable[tuple[Handle, Machine]]]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each test over each environment, and over the other ways that some have. Those with real machines are live."""
    if "kind" not in metafunc.fixturenames:
        return
    marked = []
    for name in plugins.names("environments"):
        environment: Environment = plugins.load("environments", name)
        marks = [pytest.mark.live] if environment.on_switch or isinstance(environment, Reached | Elsewhere) else []
        for provision, whose, own, more in _ways(name, environment):
            marked.append(pytest.param(name, provision, whose, marks=[*marks, *more], id=own))
    metafunc.parametrize(("kind", "provision", "whose"), marked, scope="module")


def _ways(name: str, environment: Environment) -> Iterator[tuple[Provision, str, str, Sequence[pytest.MarkDecorator]]]:
    """How it is provisioned, whose machine it is, what the tests are called, and marks."""
    if name != "vagrant":
        yield environment.provisions[0], "ours", name, ()
    if "restore" in environment.provisions:
        yield "restore", "ours", f"{name}-restored", ()
    if name in ("libvirt", "vagrant"):
        yield "reuse", "somebody's", name if name == "vagrant" else f"{name}-existing", (pytest.mark.long,)


def place(environment: Environment) -> str:
    return PLACE if isinstance(environment, Reached) else "local"


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
        if kind == "podman" and shutil.which("podman"):
            patch.setenv("CONTAINER_HOST", request.getfixturevalue("podman"))
        yield
        shutil.rmtree(home / "cache")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def spec(
    kind: str,
    whose: str,
    provision: Provision,
    environment: Environment,
    needs: None,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[EnvironmentSpec]:
    """What a study would say of the environment: nothing, but for one whose machines exist already."""
    if whose == "somebody's":
        image = await build(Recipe(), Paths.default().cache, print)
        network = request.getfixturevalue("guests_network")
        with elsewhere.vagrant(network, image) if kind == "vagrant" else elsewhere.domain(network, image) as options:
            yield EnvironmentSpec.model_validate({"kind": kind, "provision": provision, **options})
        return
    if kind == "libvirt":
        yield EnvironmentSpec.model_validate({"kind": kind, "uri": request.getfixturevalue("libvirt")})
        return
    if not isinstance(environment, Reached) and kind != "vmware":
        yield EnvironmentSpec(kind=kind)
        return
    if os.geteuid() != 0 or kind not in ("ssh", "vmware"):
        pytest.skip(f"{kind}: there is no such machine to reach")
    folder = tmp_path_factory.mktemp("far")
    someone, key = user(folder / "user")
    image = await build(Recipe(), Paths.default().cache, print)
    with (
        pytest.MonkeyPatch.context() as patch,
        far_host(image, folder, key, port=free_port(), cache=FAR_CACHE) as host,
    ):
        patch.setenv("HOME", str(someone.home))
        patch.delenv("SSH_AUTH_SOCK", raising=False)
        someone.know(host)
        if kind == "ssh":
            yield EnvironmentSpec.model_validate({"kind": kind, "address": host.ssh})
            return
        # Its machines have no insides: SSH leads to this one, whichever clone it is.
        patch.setenv(vcenter.PASSWORD_ENV, vcenter.PASSWORD)
        program = request.getfixturevalue("vcenter_program")
        with vcenter.vcenter(program, [vcenter.machine("golden", template=True)]) as simulated:
            given = simulated.options(folder, template="golden", address=host.address, port=host.port)
            yield EnvironmentSpec.model_validate(given)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def lab(kind: str, environment: Environment, spec: EnvironmentSpec) -> AsyncIterator[Lab]:
    """One lab for an environment. Skips, with the reason, where this host lacks what the environment needs."""
    if environment.on_switch:
        await build(Recipe(), Paths.default().cache, print)
    hosts = {PLACE: environment.host(spec.options)} if isinstance(environment, Reached) else {}
    open_site = opener(hosts)
    findings = await environment.check(spec, SPEC, await open_site(place(environment)))
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
        await open_site.aclose()
    assert left == []
    assert not ledger.path.exists()


@pytest.fixture(scope="module")
def make(lab: Lab, spec: EnvironmentSpec, environment: Environment, provision: Provision) -> Make:
    """Make and attach one more machine."""

    async def one() -> tuple[Handle, Machine]:
        site = await lab.site(place(environment))
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
