"""Machines of every environment that is installed, third parties' included, for one set of tests."""

import contextlib
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence

import pytest
import pytest_asyncio

from nearmetal import plugins
from nearmetal.config import Paths
from nearmetal.lab.changes.ledger import Ledger, ledgers_folder, new_token
from nearmetal.lab.image import Recipe, build
from nearmetal.lab.lab import Lab
from nearmetal.lab.site_registry import Sites
from nearmetal.model import Environment, EnvironmentSpec, Handle, Machine, MachineSpec, Provision
from nearmetal.study.resolve import resolve_alone
from tests.conftest import OWN_CPU
from tests.live.leftovers import stays
from tests.restored_guests import share_cache

from . import existing_machines

SPEC = MachineSpec(vcpus=1, memory=512 * 2**20)

PLACE = "there"
"""The site of machines that are hosts of their own."""

HAVE_THE_HOST = ("host", "ssh")
"""What has the whole host to itself in `make test`: of machines that share its kernel, and of somebody's, the ones that
are made soonest. Those with a kernel of their own are isolated in `tests/live/test_isolation.py`."""

ALL_IS_ASKED_OF = ("mock", "host")
"""Machines that are made in a moment. Of the others `make test` asks what is marked `everywhere`."""

Made = tuple[Handle, Machine]
Make = Callable[..., Awaitable[Made]]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each test over each environment, and over the other ways that some have. Those with real machines are live."""
    if "kind" not in metafunc.fixturenames:
        return
    is_alone = metafunc.definition.get_closest_marker("alone") is not None
    is_everywhere = metafunc.definition.get_closest_marker("everywhere") is not None
    marked = []
    for name in plugins.list_names("environments"):
        environment: Environment = plugins.load("environments", name)
        is_real = name != "mock"
        if is_alone and not is_real:
            continue
        marks = [pytest.mark.live] if is_real else []
        for provision, whose, own, more in _ways(name, environment):
            if "rebooted" in metafunc.fixturenames and provision != "restart":
                continue
            if own not in HAVE_THE_HOST if is_alone else not (is_everywhere or name in ALL_IS_ASKED_OF):
                more = (*more, pytest.mark.long)
            marked.append(pytest.param(name, provision, whose, marks=[*marks, *more], id=own))
    metafunc.parametrize(("kind", "provision", "whose"), marked, scope="module")


def _ways(name: str, environment: Environment) -> Iterator[tuple[Provision, str, str, Sequence[pytest.MarkDecorator]]]:
    """How it is provisioned, whose machine it is, what the tests are called, and marks."""
    if name != "vagrant":
        yield environment.provisions[0], "ours", name, ()
    if "restore" in environment.provisions:
        yield "restore", "ours", f"{name}-restored", ()
    if name == "mock":
        yield "restart", "ours", f"{name}-restarted", ()
    if name in ("libvirt", "vagrant"):
        yield "reuse", "somebody's", name if name == "vagrant" else f"{name}-existing", (pytest.mark.long,)
    if name == "libvirt":
        yield "restart", "somebody's", f"{name}-existing-restarted", (pytest.mark.long,)


REACHED = ("ssh",)
"""Kinds whose machines are hosts of the user's: `tests/conformance/existing_machines.py` makes one."""


def place(environment: Environment) -> str:
    return PLACE if environment.kind in REACHED else "local"


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
        with (
            existing_machines.vagrant(network, image)
            if kind == "vagrant"
            else existing_machines.domain(network, image) as options
        ):
            yield EnvironmentSpec.model_validate({"kind": kind, "provision": provision, **options})
    elif kind in ("ssh", "vmware"):
        image = await build(Recipe(), Paths.default().cache, print)
        folder = tmp_path_factory.mktemp("far")
        with contextlib.ExitStack() as there:
            host = there.enter_context(existing_machines.by_ssh(image, folder))
            options = {"address": host.ssh}
            if kind == "vmware":
                options = there.enter_context(
                    existing_machines.behind_vcenter(host, request.getfixturevalue("vcenter_program"), folder)
                )
            yield EnvironmentSpec.model_validate({"kind": kind, **options})
    elif kind == "libvirt":
        yield EnvironmentSpec.model_validate({"kind": kind, "uri": request.getfixturevalue("libvirt")})
    elif environment.kind in REACHED:
        pytest.skip(f"{kind}: there is no such machine to reach")
    else:
        yield EnvironmentSpec(kind=kind)


@contextlib.asynccontextmanager
async def laboratory(environment: Environment, spec: EnvironmentSpec) -> AsyncIterator[Lab]:
    """A lab for an environment, of which nothing remains. Skips, with the reason, where this host lacks something."""
    described = environment.describe(spec.options, SPEC)
    if described.is_on_switch:
        await build(Recipe(), Paths.default().cache, print)
    hosts = {PLACE: described.host} if described.host is not None else {}
    open_site = Sites(hosts)
    findings = await environment.check(spec, SPEC, await open_site(place(environment)))
    lacking = [finding for finding in findings if not finding.ok and finding.fatal]
    if lacking:
        pytest.skip(f"{environment.kind} cannot run here: {lacking[0].what}: {lacking[0].detail}. {lacking[0].remedy}")
    token = new_token()
    ledger = Ledger(ledgers_folder() / f"{token}.jsonl")
    lab = Lab(token, ledger, open_site)
    try:
        yield lab
    finally:
        left = await lab.close()
        ledger.close()
        await open_site.aclose()
    assert left == []
    assert not ledger.path.exists()
    assert stays(f"nm-{token}") == []


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def lab(environment: Environment, spec: EnvironmentSpec) -> AsyncIterator[Lab]:
    """One for all tests of an environment."""
    async with laboratory(environment, spec) as made:
        yield made


def maker(lab: Lab, spec: EnvironmentSpec, environment: Environment, provision: Provision) -> Make:
    """Make and attach one more machine."""

    async def one(machine: MachineSpec = SPEC, cpus: str = str(OWN_CPU)) -> Made:
        site = await lab.site(place(environment))
        handle = await lab.create(
            resolve_alone(spec.model_copy(update={"provision": provision}), machine), machine, "server", cpus, site
        )
        return handle, await lab.attach(handle)

    return one


@pytest.fixture(scope="module")
def make(lab: Lab, spec: EnvironmentSpec, environment: Environment, provision: Provision) -> Make:
    return maker(lab, spec, environment, provision)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def made(make: Make) -> Made:
    """A machine for all tests that leave it as it was; an emulated guest takes seconds to boot."""
    return await make()


@pytest.fixture
def machine(made: Made) -> Machine:
    return made[1]


@pytest_asyncio.fixture(loop_scope="module")
async def rebooted(machine: Machine) -> tuple[str, Machine]:
    """The shared one, and which boot it was before; only where a study may ask for it."""
    before = machine.boot_id
    await machine.reboot()
    return before, machine


class Others:
    """Machines beside the one that all tests share, made when one is wanted and none is there."""

    def __init__(self, make: Make) -> None:
        self._make = make
        self._there: list[Made] = []

    async def one(self) -> Made:
        """To be left as it was."""
        if not self._there:
            self._there.append(await self._make())
        return self._there[-1]

    async def last(self) -> Made:
        """To be killed: nobody else gets it."""
        found = await self.one()
        self._there.remove(found)
        return found


@pytest.fixture(scope="module")
def others(make: Make) -> Others:
    return Others(make)
