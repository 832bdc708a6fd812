"""Docker's API where Podman is, as the package podman-docker has it, and the other way round.

Both answer to most of it, so that without a look nothing is amiss before machines are made.
"""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nearmetal import plugins
from nearmetal.environments.docker import DockerEnvironment
from nearmetal.environments.podman import PodmanEnvironment
from nearmetal.errors import HostCannot
from nearmetal.lab.containers import api
from nearmetal.lab.containers.api import BRANDS, Brand
from nearmetal.lab.local_site import LocalSite
from nearmetal.model import Environment, EnvironmentSpec, Finding, HostSpec, MachineSpec
from tests.unit.test_unavailable_treatments import KeepingFree

_INFO = {
    "ServerVersion": "1",
    "Driver": "overlay",
    "DefaultRuntime": "runc",
    "Runtimes": {"runc": {}},
    "MemoryLimit": True,
    "CPUSet": True,
}


@contextlib.asynccontextmanager
async def answering(socket: Path, component: str, **told: object) -> AsyncIterator[str]:
    """An engine that tells what it is, as far as is asked before machines are made; its address."""
    version = {"Version": "1", "ApiVersion": "1.41", "Components": [{"Name": component, "Version": "1"}]}

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1]
        body = json.dumps(_INFO | told if asked.endswith(b"/info") else version).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        writer.write(f"{head}Connection: close\r\n\r\n".encode() + body)
        writer.close()

    async with await asyncio.start_unix_server(reply, socket):
        yield f"unix://{socket}"


async def found(kind: str, address: str) -> Finding:
    """What is said of the engine itself."""
    environment: Environment = plugins.load("environments", kind)
    spec = EnvironmentSpec.model_validate({"kind": kind, "engine": address})
    return (await environment.check(spec, MachineSpec(), LocalSite()))[0]


@pytest.mark.parametrize(
    ("kind", "component"), [("docker", "Engine"), ("podman", "Podman Engine"), ("docker", "other")]
)
async def test_the_right_one_will_do_and_so_will_one_that_nobody_knows(
    tmp_path: Path, kind: str, component: str
) -> None:
    async with answering(tmp_path / "s", component) as address:
        assert (await found(kind, address)).ok


@pytest.mark.parametrize(
    ("kind", "component", "detail", "remedy"),
    [
        (
            "docker",
            "Podman Engine",
            "a Podman service answers at {}, and no Docker engine",
            'for that one the kind is "podman"; or name a Docker engine: DOCKER_HOST, or engine in [environments.NAME]',
        ),
        (
            "podman",
            "Engine",
            "a Docker engine answers at {}, and no Podman service",
            'for that one the kind is "docker"; '
            "or name a Podman service: CONTAINER_HOST, or engine in [environments.NAME]",
        ),
    ],
)
async def test_the_other_one_is_told_before_anything_is_made(
    tmp_path: Path, kind: str, component: str, detail: str, remedy: str
) -> None:
    async with answering(tmp_path / "s", component) as address:
        finding = await found(kind, address)
        assert (finding.ok, finding.fatal) == (False, True)
        assert (finding.detail, finding.remedy) == (detail.format(address), remedy)
        environment: Environment = plugins.load("environments", kind)
        spec = EnvironmentSpec.model_validate({"kind": kind, "engine": address})
        with pytest.raises(HostCannot, match="answers at"):  # a run that goes on is not checked again
            await environment.prepare(spec, MachineSpec(), LocalSite())


@pytest.mark.parametrize(
    ("told", "detail"),
    [
        ({"KernelVersion": "6.10.14-linuxkit"}, f"release 6.10.14-linuxkit (host: {os.uname().release})"),
        ({"KernelVersion": os.uname().release, "MemTotal": 4096}, "bytes of memory 4096 (host: "),
    ],
)
@pytest.mark.parametrize(("kind", "component"), [("docker", "Engine"), ("podman", "Podman Engine")])
async def test_an_engine_on_another_kernel_is_refused_before_anything_is_made(
    tmp_path: Path, kind: str, component: str, told: dict[str, object], detail: str
) -> None:
    async with answering(tmp_path / "s", component, **told) as address:
        finding = await found(kind, address)
        assert (finding.ok, finding.fatal) == (False, True)
        assert "on another kernel than its host's" in finding.detail
        assert detail in finding.detail
        assert "place them on the host of that engine" in finding.remedy
        environment: Environment = plugins.load("environments", kind)
        spec = EnvironmentSpec.model_validate({"kind": kind, "engine": address})
        with pytest.raises(HostCannot, match="another kernel"):
            await environment.prepare(spec, MachineSpec(), LocalSite())


async def test_an_engine_whose_process_is_seen_from_here_is_of_these(tmp_path: Path) -> None:
    code = (
        "import socket, sys, time; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); "
        "print('up', flush=True); time.sleep(60)"
    )
    listening = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, tmp_path / "s", stdout=asyncio.subprocess.PIPE
    )
    try:
        assert listening.stdout is not None and await listening.stdout.readline()
        assert not api._is_of_other_processes(str(tmp_path / "s"))
        assert not api._is_of_other_processes(str(tmp_path / "gone"))
    finally:
        listening.kill()
        await listening.wait()


@pytest.mark.parametrize(("controllers", "ok"), [(b"cpuset cpu memory pids\n", True), (b"memory pids\n", False)])
async def test_what_systemd_would_give_it_an_engine_can_limit(tmp_path: Path, controllers: bytes, ok: bool) -> None:
    """Podman 4 tells of its own group, to which systemd gives a controller when a container asks for it."""

    class OfVersion2(LocalSite):
        async def get(self, path: str) -> bytes:
            return controllers if path == "/sys/fs/cgroup/cgroup.controllers" else await super().get(path)

    async with answering(tmp_path / "s", "Podman Engine", MemoryLimit=False, CPUSet=False) as address:
        spec = EnvironmentSpec.model_validate({"kind": "podman", "engine": address})
        findings = await plugins.load("environments", "podman").check(spec, MachineSpec(), OfVersion2())
    assert [one.ok for one in findings if one.what == "limits"] == [ok]


@pytest.mark.parametrize("brand", BRANDS)
def test_the_environment_names_engines_of_this_host_alone(brand: Brand, monkeypatch: pytest.MonkeyPatch) -> None:
    here, far = LocalSite(), LocalSite()
    far.name, far.spec = "far", HostSpec(ssh="root@far")
    monkeypatch.setenv(brand.variable, "unix:///here")
    assert (brand.address({}, here), brand.address({}, far)) == ("unix:///here", brand.usual)
    assert brand.address({"engine": "unix:///named"}, far) == "unix:///named"


@pytest.mark.parametrize("kind", ["docker", "podman"])
async def test_a_sandbox_on_another_host_is_refused(tmp_path: Path, kind: str) -> None:
    """Whether it lives is seen on its own host alone."""
    far = LocalSite()
    far.name, far.spec = "far", HostSpec(ssh="root@far")
    async with answering(tmp_path / "s", "Podman Engine" if kind == "podman" else "Engine") as address:
        spec = EnvironmentSpec.model_validate({"kind": kind, "engine": address, "runtime": "runsc"})
        findings = await plugins.load("environments", kind).check(spec, MachineSpec(), far)
    assert "containers with a kernel of their own on far" in [one.what for one in findings if not one.ok]


@pytest.mark.parametrize(
    ("arguments", "vcpus", "ok"),
    [(("isolcpus=3",), 4, True), (("isolcpus=4",), 5, False), ((), 2, True), ((), 3, False)],
)
async def test_cpus_that_the_hosts_kernel_keeps_free_count_where_they_are_asked_for(
    tmp_path: Path, arguments: tuple[str, ...], vcpus: int, ok: bool
) -> None:
    async with answering(tmp_path / "s", "Engine") as address:
        spec = EnvironmentSpec.model_validate({"kind": "docker", "engine": address})
        machine = MachineSpec(vcpus=vcpus, kernel_arguments=arguments)
        found = await plugins.load("environments", "docker").check(spec, machine, KeepingFree())
    assert [one.ok for one in found if one.what == f"{vcpus} CPUs"] == [ok]


@pytest.mark.parametrize(
    "what",
    [
        "runc create failed: unable to start container process: error setting rlimit type 7: operation not permitted",
        "crun: setrlimit `RLIMIT_NOFILE`: Operation not permitted: OCI permission denied",
    ],
)
def test_limits_that_podman_may_not_raise_are_told_with_where_they_are_set(what: str) -> None:
    podman = PodmanEnvironment()
    assert "default_ulimits = []" in podman.remedy(what) and "docs/environments.md" in podman.remedy(what)
    assert podman.remedy("no space left on device") == DockerEnvironment().remedy(what) == ""
