"""Every test has a home of its own; only the image, which takes a minute to build, is shared."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from nearmetal import cli
from nearmetal.config import Paths
from tests import libvirt_service, live_test_schedule, vcenter
from tests.one_engine import one_engine as drawn_by_one_engine
from tests.one_picture import OnePicture
from tests.podman_service import podman_service
from tests.shared_engine import shared_engine

if TYPE_CHECKING:
    from tests.libvirt_network import LibvirtNetwork

_UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""What took long says nothing of what is right: guests are emulated beside these tests."""
# What fails for one fails for all. The same examples each time find only what a change breaks, for which fifty, or a
# few times as many where a test says so, will do: --hypothesis-profile=exploring, in `make long-test`, looks further.
settings.register_profile("repeatable", _UNHURRIED, derandomize=True, max_examples=50)
settings.register_profile("exploring", _UNHURRIED, max_examples=500)
settings.load_profile("repeatable")

pytest.register_assert_rewrite(
    *(f"tests.live.{name}" for name in ("laboratory", "leftovers", "snapshot", "task_placement"))
)

# Under nohup all that tests start would have it ignored, and some of it is to be told to end by it.
signal.signal(signal.SIGHUP, signal.SIG_DFL)

SHARED_CACHE = Paths.default().cache.resolve()
"""Without links on the way to it: Podman keeps to the path of its storage, by whatever name that was found."""

TESTS = Path(__file__).parent

WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
"""The number of this test process among those that share the tests."""

CPUS = sorted(os.sched_getaffinity(0))
OWN_CPU = CPUS[-1 - WORKER % len(CPUS)]
"""Where machines of this test process run: workers do not crowd onto one CPU. The last if there is one process, because
the first serves most of the host's interrupts."""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "home"
    folder.mkdir()
    SHARED_CACHE.mkdir(parents=True, exist_ok=True)
    (folder / "cache").symlink_to(SHARED_CACHE)
    monkeypatch.setenv("NEARMETAL_HOME", str(folder))
    monkeypatch.setenv("NEARMETAL_LOCKS", str(tmp_path))  # tests run beside others, and need not say so
    yield folder


@pytest.fixture(autouse=True)
def end_in_good_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that was interrupted, and that a test calls in its own process, ends that at once if threads are at
    work: also threads of another test."""
    monkeypatch.setattr(cli, "_end_process", sys.exit)


@pytest.fixture
def one_engine() -> Iterator[None]:
    """Reports that this process writes are drawn by it, where what draws them is not what is tested."""
    with drawn_by_one_engine():
        yield


@pytest.fixture
def one_picture() -> Iterator[None]:
    """Reports that this process writes have one picture for all, where nobody looks at them."""
    with drawn_by_one_engine(OnePicture):
        yield


@pytest.fixture(scope="session")
def engine() -> Iterator[str]:
    """The URL of a Docker engine of the tests' own. Its data are kept, so that the image is imported only once."""
    with shared_engine(SHARED_CACHE / "engine-of-tests") as url:
        yield url


@pytest.fixture(scope="session")
def podman() -> Iterator[str]:
    """The URL of a Podman service of this test process' own."""
    with podman_service(SHARED_CACHE / f"podman-of-tests-{WORKER}") as url:
        yield url


@pytest.fixture(scope="session")
def libvirt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URI of a libvirtd of this test process' own. Skips, loudly, where none is installed."""
    if lacking := libvirt_service.lacking():
        pytest.skip(f"libvirt cannot run here: {lacking}: apt-get install libvirt-daemon libvirt-clients")
    with libvirt_service.libvirt_service(tmp_path_factory.mktemp("libvirt")) as uri:
        yield uri


@pytest.fixture(scope="session")
def guests_network(tmp_path_factory: pytest.TempPathFactory) -> Iterator["LibvirtNetwork"]:
    """A libvirtd with a network whose guests this host reaches, of this test process' own. Skips as `libvirt` does."""
    from tests import libvirt_network

    if lacking := libvirt_network.lacking():
        pytest.skip(f"libvirt's networks cannot run here: {lacking}: apt-get install libvirt-daemon dnsmasq-base")
    with libvirt_network.libvirt_network(tmp_path_factory.mktemp("guests")) as network:
        yield network


@pytest.fixture(scope="session")
def vcenter_program() -> Path:
    """The simulated vCenter, built. Skips, loudly, where that cannot be."""
    return vcenter.program(SHARED_CACHE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave files without a live test unread if only live tests are asked for: each worker would read all of them.

    A file may have live tests if the mark is in it, or in a `conftest.py` on the way to it.
    """
    if not _asks_live_tests_alone(config) or collection_path.suffix != ".py":
        return None
    between = [folder for folder in collection_path.parents if folder.is_relative_to(TESTS) and folder != TESTS]
    read = [collection_path, *(folder / "conftest.py" for folder in between)]
    return None if any(file.exists() and "mark.live" in file.read_text("utf-8") for file in read) else True


def _asks_live_tests_alone(config: pytest.Config) -> bool:
    asked = config.getoption("markexpr").split()
    return asked[:1] == ["live"] and "or" not in asked


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `--dist loadscope`, groups are not files. None leaves it to xdist."""
    if config.getoption("dist") != "loadscope":
        return None
    from xdist.scheduler.loadscope import LoadScopeScheduling

    config.option.loadscopereorder = False  # they come in their order, and not by how many tests a group has
    scheduler = LoadScopeScheduling(config, log)
    scheduler._split_scope = live_test_schedule.find_group
    return scheduler


def pytest_report_header() -> list[str]:
    return [f"images: {SHARED_CACHE}", f"root: {'yes' if os.geteuid() == 0 else 'no: live tests are skipped'}"]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Live tests need root; skipped loudly, never silently passed. Those that take longest begin first."""
    if _asks_live_tests_alone(config):
        items.sort(key=lambda item: live_test_schedule.find_place(item.nodeid))
    if os.geteuid() == 0:
        return
    for item in items:
        if item.get_closest_marker("live"):
            item.add_marker(pytest.mark.skip(reason="needs root: namespaces, control groups, QEMU"))
