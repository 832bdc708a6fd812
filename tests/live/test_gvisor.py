"""The environment `docker` by gVisor's runtime: a kernel and a network stack of its own between program and host.

What it does as by any other runtime is tested by the same tests. The engine is one of this file's own: that of the
other tests knows no such runtime.
"""

import asyncio
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from nearmetal.environments.docker import DockerEnvironment
from nearmetal.errors import MachineLost
from nearmetal.lab import cgroup
from nearmetal.lab.containers.api import ContainerEngine
from nearmetal.lab.containers.private_engine import run_private_engine
from nearmetal.lab.containers.sandboxed_container import SandboxedContainer
from nearmetal.lab.image import Image
from nearmetal.lab.local_site import LocalSite
from nearmetal.lab.machines import kernel
from nearmetal.lab.networks import network
from nearmetal.model import EnvironmentSpec, Machine, MachineSpec, Order, TrialRecord
from nearmetal.run import verify
from tests.conftest import OWN_CPU, SHARED_CACHE, WORKER
from tests.podman_service import podman_service

from .by_hand import command, done, nearmetal, up
from .conftest import Make, Notes
from .laboratory import study
from .leftovers import after_a_moment, stays
from .orphan import controller
from .test_docker import (
    test_a_command_over_its_time_is_killed_with_its_children,
    test_a_command_tells_its_status_and_both_streams,
    test_destroy_is_idempotent_and_leaves_nothing,
    test_every_container_starts_fresh_from_one_image,
    test_files_go_in_and_out_whole,
    test_orphans_are_reaped,
    test_the_environment_is_clean,
    test_the_probe_runs_from_where_it_lies,
    test_what_runs_in_the_background_can_be_stopped,
)

__all__ = [
    "test_a_command_over_its_time_is_killed_with_its_children",
    "test_a_command_tells_its_status_and_both_streams",
    "test_destroy_is_idempotent_and_leaves_nothing",
    "test_every_container_starts_fresh_from_one_image",
    "test_files_go_in_and_out_whole",
    "test_orphans_are_reaped",
    "test_the_environment_is_clean",
    "test_the_probe_runs_from_where_it_lies",
    "test_what_runs_in_the_background_can_be_stopped",
]

TOOLS = SHARED_CACHE / "tools"
RUNSC = shutil.which("runsc", path=f"{os.environ['PATH']}:{TOOLS}")

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(
        RUNSC is None,
        reason=f"no runsc in PATH or {TOOLS}: make runsc",
    ),
]

STUDY = """
name = "gvisor"
[factors]
{factors}
[environments.sandboxed]
kind = "{kind}"
runtime = "{runtime}"
[machine]
memory = "256MiB"
cpus = "{cpu}"
[[workloads]]
name = "pages"
kind = "http"
workers = 2
path = "/1k"
requests = 200
[design]
blocks = 1
"""


@pytest.fixture(scope="module")
def engine() -> Iterator[str]:
    """It is brought up once: between the two calls its event loop stands still."""
    folder = SHARED_CACHE / f"gvisor-of-tests-{WORKER}"
    folder.mkdir(parents=True, exist_ok=True)
    context = run_private_engine(folder, {"runsc": Path(str(RUNSC))})
    with asyncio.Runner() as runner:
        yield runner.run(context.__aenter__())
        runner.run(context.__aexit__(None, None, None))


@pytest.fixture
def environment(engine: str, monkeypatch: pytest.MonkeyPatch) -> DockerEnvironment:
    monkeypatch.setenv("DOCKER_HOST", engine)
    return DockerEnvironment()


@pytest.fixture
def make(make: Make) -> Make:
    """One more machine on the switch, by gVisor unless told otherwise."""

    async def one(spec: MachineSpec | None = None, cpus: str = str(OWN_CPU), **options: object) -> Machine:
        return await make(spec, cpus, **{"runtime": "runsc", **options})

    return one


async def test_check_finds_the_runtime(environment: DockerEnvironment, site: LocalSite, lab_image: Image) -> None:
    spec = EnvironmentSpec.model_validate({"kind": "docker", "runtime": "runsc"})
    findings = await environment.check(spec, MachineSpec(image=lab_image.name), site)
    assert [finding for finding in findings if not finding.ok] == []


@pytest.mark.parametrize(("runtime", "told"), [("runsc", ["a CPU of its own for what is measured"]), ("runc", [])])
async def test_a_cpu_of_its_own_inside_is_refused(
    environment: DockerEnvironment, site: LocalSite, lab_image: Image, runtime: str, told: list[str]
) -> None:
    """gVisor takes note of an affinity, and does not keep to it."""
    spec = EnvironmentSpec.model_validate({"kind": "docker", "runtime": runtime})
    findings = await environment.check(spec, MachineSpec(image=lab_image.name, vcpus=1, alone=True), site)
    assert [finding.what for finding in findings if not finding.ok] == told


async def test_it_has_a_kernel_of_its_own_and_limits_that_hold(make: Make, notes: Notes) -> None:
    spec = MachineSpec.model_validate({"vcpus": 1, "memory": "256MiB"})
    machine = await make(spec, cpus="0")
    assert isinstance(machine, SandboxedContainer)
    assert not kernel.is_its_hosts(machine)
    handle = notes.handles[machine.name]
    assert handle.data["runtime"] == "runsc"
    facts = json.loads((await machine.exec([machine.probe, "facts", "--json"])).stdout)
    assert facts["kernel"]["boot_id"] == machine.boot_id
    assert "gvisor" in facts["kernel"]["release"].lower()
    assert verify.verify_resources(spec, facts, handle) == verify.verify_resources(spec, facts, handle).model_copy(
        update={"ok": True}
    )
    group = await machine.group()
    assert (await machine.site.get(f"{group.cpuset}/cpuset.cpus")).strip() == b"0"
    cost = await machine.cost()
    assert cost is not None and cost.cpu_seconds > 0
    assert cost.memory_bytes is not None and 0 < cost.memory_bytes < spec.memory


async def test_a_quota_holds(make: Make) -> None:
    machine = await make(MachineSpec.model_validate({"vcpus": 1, "quota": 0.5, "memory": "256MiB"}))
    assert isinstance(machine, SandboxedContainer)
    assert await cgroup.read_quota(await machine.group(), machine.site) == 0.5


async def test_pages_cross_the_switch_both_ways(make: Make) -> None:
    """Between gVisor and the usual runtime, each one's page fetched by the other."""
    one, other = await make(), await make(runtime="runc")
    for server, client in ((one, other), (other, one)):
        serving = await server.spawn([server.probe, "serve", "--listen", "0.0.0.0:9001"])
        for _ in range(100):
            if await _replies(client, server, 1) == 1:
                break
            await asyncio.sleep(0.05)
        assert await _replies(client, server, 20) == 20
        await serving.stop()
    assert (await other.exec(["ping", "-c", "1", "-W", "5", one.address])).status == 0


async def _replies(client: Machine, server: Machine, requests: int) -> int:
    """Pages that were had, of so many."""
    load = [client.probe, "load", f"http://{server.address}:9001/", "--mode", "closed", "--workers", "1", "--json"]
    told = await client.exec([*load, "--requests", str(requests)])
    return int(json.loads(told.stdout)["status"]["2xx"])


async def test_one_that_is_killed_is_lost(make: Make) -> None:
    machine = await make()
    assert isinstance(machine, SandboxedContainer)
    waiting = [asyncio.ensure_future(machine.exec(["sleep", "60"])) for _ in range(2)]
    await asyncio.sleep(0.5)
    os.kill(machine.first.pid, signal.SIGKILL)
    for one in waiting:
        with pytest.raises(MachineLost):
            await asyncio.wait_for(one, 10)
    with pytest.raises(MachineLost):
        await machine.exec(["true"])


async def test_too_much_memory_ends_the_whole_container(make: Make) -> None:
    """The host sees one process where the container has many."""
    machine = await make(MachineSpec.model_validate({"memory": "64MiB"}))
    with pytest.raises(MachineLost):
        await machine.exec(["sh", "-c", "head -c 400M /dev/zero | tail"])


async def test_it_and_its_network_die_with_their_controller(
    environment: DockerEnvironment, site: LocalSite, lab_image: Image, token: str, engine: str
) -> None:
    name, options = f"{token}-orphan", {"runtime": "runsc"}
    switch = await network.create_switch(name, site, Notes())
    port = network.make_port(name, 1)
    order = Order(name=name, role="server", spec=MachineSpec(), options=options, provision="boot", port=port, cpus="0")
    async with controller(order, environment.kind) as handle:
        pass
    client = (await ContainerEngine.connect(engine)).client
    for _ in range(100):
        if not [one for one in client.containers() if any(name in called for called in one["Names"])]:
            break
        await asyncio.sleep(0.05)
    assert [one for one in client.containers() if any(name in called for called in one["Names"])] == []
    await environment.destroy(handle, site)
    assert [one for one in client.containers(all=True) if any(name in called for called in one["Names"])] == []
    await network.destroy_switch(switch, site)
    assert stays(name) == []


@pytest.mark.usefixtures("environment")
async def test_a_study_compares_it_with_the_usual_runtime(tmp_path: Path, lab_image: Image) -> None:
    """Served by lighttpd over the switch, with every observer."""
    observed = 'observe = { usage = "0.5s", noise = true, capture = { snap = 128 } }'
    records = await _records(tmp_path, 'environment = ["docker", "sandboxed"]', observed)
    assert {record.trial.treatment["environment"] for record in records} == {"docker", "sandboxed"}
    for record in records:
        assert (record.status, record.reason) == ("ok", None)
        assert record.responses["transactions"].value == 200
        assert record.responses["errors"].value == 0
        assert record.observers["capture"]["server-0"]["captured"] > 400
        assert record.observers["usage"]["host"]["group.server-0.cpu"] > 0


@pytest.mark.usefixtures("environment")
async def test_offloads_that_cannot_be_read_back_make_a_trial_invalid(tmp_path: Path, lab_image: Image) -> None:
    records = await _records(tmp_path, 'environment = ["sandboxed"]\noffload = [false]')
    assert {record.status for record in records} == {"invalid"}
    assert "ethtool tells no features" in str(records[0].reason)


@pytest.mark.skipif(shutil.which("podman") is None, reason="there is no podman: apt-get install podman runc")
async def test_a_service_of_podmans_with_that_runtime(
    tmp_path: Path, lab_image: Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whose containers all have it, also the one that keeps the network."""
    with podman_service(SHARED_CACHE / f"podman-gvisor-of-tests-{WORKER}", str(RUNSC)) as url:
        monkeypatch.setenv("CONTAINER_HOST", url)
        (record,) = await _records(tmp_path, 'environment = ["sandboxed"]', kind="podman", runtime=str(RUNSC))
    assert (record.status, record.reason) == ("ok", None)
    assert record.responses["errors"].value == 0
    assert all("+" not in one.boot_id for one in record.machines if one.role == "server"), "it has a kernel of its own"


@pytest.mark.skipif(shutil.which("podman") is None, reason="there is no podman: apt-get install podman runc")
def test_what_exec_started_ends_with_it_where_the_host_sees_no_programs(
    lab_image: Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But not what a program left in the background."""
    stubborn = ["sh", "-c", "trap '' TERM; sleep 5432.1 & echo there; wait; sleep 5432.1"]
    with podman_service(SHARED_CACHE / f"podman-gvisor-of-tests-{WORKER}", str(RUNSC)) as url:
        monkeypatch.setenv("CONTAINER_HOST", url)
        told = up("podman")
        try:
            left = nearmetal("exec", "m", "--", "sh", "-c", "setsid sleep 1234.5 >/dev/null 2>&1 </dev/null & exit 3")
            assert left.returncode == 3
            for number in (signal.SIGKILL, signal.SIGTERM):
                with subprocess.Popen(command("exec", "m", "--", *stubborn), stdout=subprocess.PIPE) as running:
                    assert running.stdout is not None and running.stdout.readline() == b"there\n"
                    assert b"5432.1" in _programs()
                    running.send_signal(number)
                assert running.returncode in (-number, 128 + number)
                assert after_a_moment(lambda: ["it goes on"] if b"5432.1" in _programs() else [], 30) == []
            assert b"sleep 1234.5" in _programs()
        finally:
            nearmetal("down", "m")
    assert stays(told["switch"].removeprefix("nm-")) == []


def _programs() -> bytes:
    """The command lines of all that runs in the machine."""
    return done("exec", "m", "--", "sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")


async def _records(
    folder: Path, factors: str, observed: str = "", kind: str = "docker", runtime: str = "runsc"
) -> list[TrialRecord]:
    return await study(
        folder / "run", observed + STUDY.format(factors=factors, cpu=OWN_CPU, kind=kind, runtime=runtime)
    )
