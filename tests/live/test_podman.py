"""The environment `podman` with a service of the tests' own; what it does as `docker` does, by the same tests.

What conformance tests ask of it too is in `test_podman_alike.py`.
"""

import asyncio
import shutil
import subprocess
from pathlib import Path

import pytest

from nearmetal.environments.podman import PodmanEnvironment
from nearmetal.lab.containers.api import PODMAN, ContainerEngine
from nearmetal.lab.local_site import LocalSite
from nearmetal.model import EnvironmentSpec, MachineSpec

from .test_docker import (
    test_a_container_has_the_capabilities_and_processes_that_it_may_have,
    test_a_creation_that_fails_is_told_and_can_be_removed,
    test_a_pause_is_told_although_its_clock_goes_on,
    test_a_strangers_container_of_the_same_name_stays,
    test_containers_die_with_their_controller_and_can_be_removed_by_another,
    test_every_container_starts_fresh_from_one_image,
    test_limits_are_what_was_ordered,
    test_orphans_are_reaped,
)

__all__ = [
    "test_a_container_has_the_capabilities_and_processes_that_it_may_have",
    "test_a_creation_that_fails_is_told_and_can_be_removed",
    "test_a_pause_is_told_although_its_clock_goes_on",
    "test_a_strangers_container_of_the_same_name_stays",
    "test_containers_die_with_their_controller_and_can_be_removed_by_another",
    "test_every_container_starts_fresh_from_one_image",
    "test_limits_are_what_was_ordered",
    "test_orphans_are_reaped",
]

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(shutil.which("podman") is None, reason="there is no podman: apt-get install podman runc"),
]


@pytest.fixture
def engine(podman: str) -> str:
    return podman


@pytest.fixture
def environment(engine: str, monkeypatch: pytest.MonkeyPatch) -> PodmanEnvironment:
    monkeypatch.setenv("CONTAINER_HOST", engine)
    return PodmanEnvironment()


async def test_check_finds_what_this_host_has(environment: PodmanEnvironment, site: LocalSite) -> None:
    findings = await environment.check(EnvironmentSpec(kind="podman"), MachineSpec(), site)
    assert [finding for finding in findings if not finding.ok] == []


async def test_another_runtime_than_the_services_is_told(environment: PodmanEnvironment, site: LocalSite) -> None:
    """Podman tells of every runtime that it has ever heard of, and passes over the one that a container asks for."""
    spec = EnvironmentSpec.model_validate({"kind": "podman", "runtime": "crun"})
    (bad,) = [finding for finding in await environment.check(spec, MachineSpec(), site) if not finding.ok]
    assert (bad.what, bad.detail) == ("runtime crun", "the engine knows runc")
    assert "podman --runtime" in bad.remedy


async def test_of_one_that_was_never_started_nothing_is_left(
    engine: str, environment: PodmanEnvironment, site: LocalSite
) -> None:
    """As when the program that is about to start it is killed."""

    def run_podman(*words: str) -> str:
        return subprocess.run(["podman", "--url", engine, *words], capture_output=True, text=True, check=True).stdout

    await environment.prepare(EnvironmentSpec(kind="podman"), MachineSpec(), site)
    image = run_podman("images", "--quiet").split()[0]
    container = run_podman("create", "--network", "none", image, "true").strip()
    run_podman("init", container)
    await (await ContainerEngine.connect(engine, PODMAN)).remove_container(container)
    assert container not in run_podman("ps", "--all", "--quiet", "--no-trunc")
    await asyncio.sleep(0.5)  # its monitor writes after it has gone
    assert container not in [file.name for file in Path("/run/libpod/exits").iterdir()]


async def test_of_one_that_only_its_runtime_knows_nothing_is_left(
    environment: PodmanEnvironment, site: LocalSite, tmp_path: Path
) -> None:
    """As when Podman is killed before it has noted that its runtime made the container."""
    number = "ab12" * 16
    _make_with_runc(number, tmp_path)
    assert Path("/run/runc", number).exists()
    for _ in range(2):  # one that is gone is nothing to do
        await environment.clear_runtime(number, site)
    assert not Path("/run/runc", number).exists()


def _make_with_runc(number: str, bundle: Path) -> None:
    shell = bundle / "rootfs" / "bin" / "sh"  # it has to be there
    shell.parent.mkdir(parents=True)
    shutil.copy("/bin/busybox", shell)
    subprocess.run(["runc", "spec"], cwd=bundle, check=True)
    spec = bundle / "config.json"
    spec.write_text(spec.read_text().replace('"terminal": true', '"terminal": false'))
    subprocess.run(["runc", "create", number], cwd=bundle, stdin=subprocess.DEVNULL, check=True)


async def test_without_a_service_check_says_so(environment: PodmanEnvironment, site: LocalSite) -> None:
    spec = EnvironmentSpec.model_validate({"kind": "podman", "engine": "unix:///nowhere/podman.sock"})
    (bad,) = [finding for finding in await environment.check(spec, MachineSpec(), site) if not finding.ok]
    assert bad.what == "Podman service"
    assert "no Podman service answers" in bad.detail and "CONTAINER_HOST" in bad.remedy
