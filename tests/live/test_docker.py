"""The environment `docker` with an engine of the tests' own."""

import asyncio
import contextlib
import json
import os
import signal
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import pytest

from nearmetal.config import LIMITS
from nearmetal.environments.docker import DockerEnvironment
from nearmetal.errors import HostCannot, MachineLost, NotProvisioned, TimedOut, ToolFailed
from nearmetal.lab.changes.ledger import ledgers_folder, outstanding
from nearmetal.lab.clean import clean
from nearmetal.lab.containers import config
from nearmetal.lab.containers.api import ContainerEngine
from nearmetal.lab.containers.container import Container
from nearmetal.lab.containers.private_engine import run_private_engine
from nearmetal.lab.image import Image
from nearmetal.lab.local_site import LocalSite
from nearmetal.lab.machines.init_process import FirstProcess
from nearmetal.lab.process_locks import hold_exclusive_lock
from nearmetal.lab.qemu import process_privileges
from nearmetal.model import EnvironmentSpec, Handle, MachineSpec, Order
from nearmetal.run import pause_detection
from nearmetal.run.machine_state import read_states
from tests import own_image

from .conftest import Make, Notes
from .leftovers import remains, stays
from .orphan import ORPHAN, controller

pytestmark = pytest.mark.live

MEBIBYTE = 2**20


@pytest.fixture
def environment(engine: str, monkeypatch: pytest.MonkeyPatch) -> DockerEnvironment:
    monkeypatch.setenv("DOCKER_HOST", engine)
    return DockerEnvironment()


async def test_check_finds_what_this_host_has(
    environment: DockerEnvironment, site: LocalSite, lab_image: Image
) -> None:
    findings = await environment.check(EnvironmentSpec(kind="docker"), MachineSpec(image=lab_image.name), site)
    assert [finding for finding in findings if not finding.ok] == []


async def test_check_names_a_runtime_that_the_engine_has_not(environment: DockerEnvironment, site: LocalSite) -> None:
    spec = EnvironmentSpec.model_validate({"kind": "docker", "runtime": "none"})
    bad = [finding for finding in await environment.check(spec, MachineSpec(), site) if not finding.ok]
    assert [finding.what for finding in bad] == ["runtime none"]
    assert "runc" in bad[0].detail


@pytest.mark.parametrize("address", ["unix:///nowhere/docker.sock", "tcp://127.0.0.1:1"])
async def test_without_an_engine_check_says_so(
    address: str, environment: DockerEnvironment, site: LocalSite, notes: Notes
) -> None:
    spec = EnvironmentSpec.model_validate({"kind": "docker", "engine": address})
    bad = [finding for finding in await environment.check(spec, MachineSpec(), site) if not finding.ok]
    assert [finding.what for finding in bad] == ["Docker engine"]
    assert bad[0].remedy
    order = Order(
        name="never", role="server", spec=MachineSpec(), options=spec.options, provision="boot", port=None, cpus=""
    )
    with pytest.raises(HostCannot):
        await environment.create(order, site, notes)
    assert notes.handles == {}


async def test_a_command_tells_its_status_and_both_streams(make: Make) -> None:
    machine = await make()
    ended = await machine.exec(["sh", "-c", "cat; echo err >&2; exit 7"], stdin=b"\0in\xff")
    assert (ended.status, ended.stdout, ended.stderr) == (7, b"\0in\xff", b"err\n")
    assert (await machine.exec(["no-such-program"])).status == 127
    assert (await machine.exec(["/etc/passwd"])).status == 126
    assert (await machine.exec(["sh", "-c", "kill -9 $$"])).status == 137
    large = bytes(range(256)) * 12_000
    assert (await machine.exec(["cat"], stdin=large)).stdout == large
    assert (await machine.exec(["true"], stdin=large)).status == 0


async def test_the_environment_is_clean(make: Make) -> None:
    machine = await make()
    lines = (await machine.exec(["env"], env={"ODD": "a b'c\n$d"})).text
    assert sorted(line.partition("=")[0] for line in lines.splitlines()) == ["$d", "HOME", "LC_ALL", "ODD", "PATH"]
    assert "ODD=a b'c\n$d\n" in lines


async def test_files_go_in_and_out_whole(make: Make) -> None:
    machine = await make()
    content = bytes(range(256)) * 12_000
    path = "/tmp/new folder/a'b\n$(id)/-rf"
    await machine.put(content, path, mode=0o750)
    assert await machine.get(path) == content
    assert (await machine.exec(["stat", "-c", "%a", path])).stdout == b"750\n"
    with pytest.raises(ToolFailed, match="No such file"):
        await machine.get("/nowhere")
    with pytest.raises(HostCannot, match="cannot write"):
        await machine.put(b"", "/etc/passwd/below")


async def test_limits_are_what_was_ordered(make: Make, notes: Notes) -> None:
    machine = await make(MachineSpec.model_validate({"vcpus": 1, "memory": "64MiB"}), cpus="0", runtime="runc")
    assert (await machine.exec(["nproc"])).stdout == b"1\n"
    # tail keeps what it reads when there are no lines in it.
    hungry = ["sh", "-c", "head -c 200M /dev/zero | tail"]
    assert (await machine.exec(hungry)).status == 137
    cost = await machine.cost()
    assert cost is not None
    assert cost.cpu_seconds > 0
    assert cost.memory_bytes is not None and 0 < cost.memory_bytes < 64 * MEBIBYTE
    assert notes.handles[machine.name].data["runtime"] == "runc"
    assert notes.handles[machine.name].image.storage_driver


_KEPT = {"CHOWN": 0, "DAC_OVERRIDE": 1, "FOWNER": 3, "FSETID": 4, "KILL": 5, "SETGID": 6, "SETUID": 7, "SETPCAP": 8,
         "NET_BIND_SERVICE": 10, "NET_RAW": 13, "SYS_CHROOT": 18}  # fmt: skip
"""Capabilities that a machine's programs may have at most, by their numbers in linux/capability.h."""


async def test_a_container_has_the_capabilities_and_processes_that_it_may_have(make: Make) -> None:
    machine = await make()
    status = process_privileges.read_status((await machine.exec(["cat", "/proc/self/status"])).text)
    for name in ("CapEff", "CapBnd"):
        beyond = int(status[name], 16) & ~sum(1 << number for number in _KEPT.values())
        assert beyond == 0, f"{name} has {beyond:x} beyond what it may have"
    # Version 2 of control groups has no folder for each controller.
    limit = await machine.exec(["sh", "-c", "cat /sys/fs/cgroup/pids.max || cat /sys/fs/cgroup/pids/pids.max"])
    assert int(limit.text) == config.PROCESSES


async def test_a_pause_is_told_although_its_clock_goes_on(make: Make, engine: str) -> None:
    machine, other = await make(), await make()
    assert isinstance(machine, Container) and isinstance(other, Container)
    client = (await ContainerEngine.connect(engine)).client
    client.pause(machine.id)
    client.unpause(machine.id)
    machines = [other, machine]
    before, since = await read_states(machines, {}), time.time()
    await asyncio.sleep(0.5)
    assert await pause_detection.explain_stall(machines, before, await read_states(machines, {}), since) is None
    client.pause(machine.id)
    await asyncio.sleep(1.5)
    client.unpause(machine.id)
    assert f"{machine.name} stood still for 1." in str(
        await pause_detection.explain_stall(machines, before, before, since)
    )


async def test_two_containers_meet_on_the_switch(make: Make) -> None:
    one, other = await make(), await make()
    ended = await one.exec(["ping", "-c", "1", "-W", "5", other.address])
    assert ended.status == 0, ended.text
    assert (await one.exec(["ls", "/sys/class/net"])).text.split() == ["data", "lo"]
    assert (await one.exec(["ethtool", "-K", one.interface, "tso", "off"])).status != 0, "that takes NET_ADMIN"


async def test_the_probe_runs_from_where_it_lies(make: Make) -> None:
    machine = await make()
    assert (await machine.exec([machine.probe, "--version"])).status == 0
    assert (await machine.exec(["sh", "-c", f"echo >>{machine.probe}"])).status != 0
    assert (await machine.exec(["stat", "-f", "-c", "%T", "/run", "/tmp"])).text.split() == ["tmpfs", "tmpfs"]


async def test_a_record_says_which_engine_made_it(environment: DockerEnvironment, site: LocalSite) -> None:
    told = await environment.versions({}, site)
    assert told["Docker engine"][0].isdigit()
    assert "Docker engine's runc" in told


async def test_every_container_starts_fresh_from_one_image(make: Make, engine: str, lab_image: Image) -> None:
    one = await make()
    await one.put(b"mine", "/root/mark")
    other = await make()
    assert one.boot_id != other.boot_id
    assert (await other.exec(["test", "-e", "/root/mark"])).status == 1
    client = (await ContainerEngine.connect(engine)).client
    labelled = [image["Labels"] or {} for image in client.images()]
    assert len([labels for labels in labelled if labels.get("nearmetal.digest") == lab_image.digest]) == 1


async def test_a_command_over_its_time_is_killed_with_its_children(make: Make) -> None:
    machine = await make()
    with pytest.raises(TimedOut):
        await machine.exec(["sh", "-c", "sleep 4321 & sleep 4321"], timeout=0.5)
    for _ in range(100):
        listed = (await machine.exec(["ps", "-eo", "args"])).text
        if "sleep 4321" not in listed:
            break
        await asyncio.sleep(0.05)
    assert "sleep 4321" not in listed


async def test_orphans_are_reaped(make: Make) -> None:
    machine = await make()
    await machine.exec(["sh", "-c", "(sleep 0.1 >/dev/null 2>&1 &)"])
    for _ in range(100):
        listed = (await machine.exec(["ps", "-eo", "stat,args"])).text
        if "sleep" not in listed:
            break
        await asyncio.sleep(0.05)
    assert "sleep" not in listed


async def test_what_runs_in_the_background_can_be_stopped(make: Make) -> None:
    machine = await make()
    running = await machine.spawn(["sh", "-c", "trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.02; done"])
    with pytest.raises(TimedOut):
        await running.wait(0.5)
    ended = await running.stop()
    assert (ended.status, ended.stdout) == (3, b"up\nbye\n")
    assert await running.stop() == ended


async def test_a_container_that_is_killed_is_lost(make: Make) -> None:
    machine = await make()
    assert isinstance(machine, Container)
    waiting = asyncio.ensure_future(machine.exec(["sleep", "60"]))
    await asyncio.sleep(0.5)
    os.kill(machine.first.pid, signal.SIGKILL)
    with pytest.raises(MachineLost):
        await waiting
    with pytest.raises(MachineLost):
        await machine.exec(["true"])
    with pytest.raises(MachineLost):
        await machine.cost()


async def test_destroy_is_idempotent_and_leaves_nothing(
    make: Make, environment: DockerEnvironment, site: LocalSite, notes: Notes, engine: str
) -> None:
    machine = await make()
    await machine.spawn(["sleep", "60"])
    handle = notes.handles[machine.name]
    await environment.destroy(handle, site)
    assert await _containers(engine, machine.name) == []
    await environment.destroy(handle, site)
    with pytest.raises(NotProvisioned):
        await environment.attach(handle, site)


async def test_a_creation_that_fails_is_told_and_can_be_removed(
    make: Make, environment: DockerEnvironment, site: LocalSite, notes: Notes, engine: str, token: str
) -> None:
    with pytest.raises(NotProvisioned, match="CPUs are not available"):
        await make(cpus="4000")
    with pytest.raises(NotProvisioned, match="runtime"):
        await make(runtime="none")
    for handle in notes.handles.values():
        await environment.destroy(handle, site)
    assert await _containers(engine, token) == []


async def test_a_strangers_container_of_the_same_name_stays(
    make: Make, environment: DockerEnvironment, site: LocalSite, notes: Notes, engine: str, token: str
) -> None:
    await make()  # so that the image is there
    client = (await ContainerEngine.connect(engine)).client
    image = client.inspect_container(f"{token}-1")["Image"]
    stranger = client.create_container(image, command=["true"], name=f"{token}-2")["Id"]
    try:
        with pytest.raises(NotProvisioned, match="already in use"):
            await make()
        await environment.destroy(notes.handles[f"{token}-2"], site)
        assert client.inspect_container(stranger)["Id"] == stranger
    finally:
        client.remove_container(stranger)


async def test_containers_die_with_their_controller_and_can_be_removed_by_another(
    environment: DockerEnvironment, site: LocalSite, lab_image: Image, token: str, engine: str
) -> None:
    name = f"{token}-orphan"
    order = Order(name=name, role="server", spec=MachineSpec(), options={}, provision="boot", port=None, cpus="0")
    async with controller(order, environment.kind) as handle:
        machine = await environment.attach(handle, site)  # it lives, and another process reaches it
        assert (await machine.exec(["true"])).status == 0
    assert await _dies(machine)
    await environment.destroy(handle, site)
    assert await _containers(engine, name) == []
    assert stays(name) == []


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For an engine of one's own: sockets lie in it, whose paths have to be short."""
    return tmp_path_factory.mktemp("engine")


@pytest.mark.alone
async def test_an_engine_of_ones_own_leaves_nothing(folder: Path) -> None:
    before = {
        path: Path(path).exists() for path in ("/etc/docker", "/run/docker", "/run/containerd", "/opt/containerd")
    }
    async with run_private_engine(folder) as url:
        assert (await ContainerEngine.connect(url)).client.ping()
    assert not (folder / "docker.sock").exists()
    assert {path: Path(path).exists() for path in before} == before
    assert stays(str(folder)) == []


async def test_an_engine_of_ones_own_keeps_to_itself_when_another_ends(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """What it covers was made for the other, which would take it along."""
    one, other = tmp_path_factory.mktemp("engine"), tmp_path_factory.mktemp("engine")
    async with contextlib.AsyncExitStack() as first:
        await first.enter_async_context(run_private_engine(one))
        async with run_private_engine(other) as url:
            daemon = int((other / "docker.pid").read_text())
            before = _mounted(daemon)
            await first.aclose()
            assert _mounted(daemon) == before >= {"/etc/docker", "/run/docker", "/run/containerd", "/opt/containerd"}
            assert (await ContainerEngine.connect(url)).client.ping()


def _mounted(process: int) -> set[str]:
    """Without networks, which others make and remove meanwhile."""
    places = {line.split()[4] for line in Path(f"/proc/{process}/mountinfo").read_text().splitlines()}
    return {place for place in places if not place.startswith("/run/netns")}


async def _on_an_own_engine(folder: Path, name: str) -> tuple[asyncio.subprocess.Process, Handle]:
    """A process with an engine of our own in `folder`, and the container that it made: of an image that the engine has
    taken over in a moment."""
    options = {"engine": f"unix://{folder}/docker.sock"}
    image = own_image.docker_archive(folder.with_suffix(".tar"), [own_image.layer(own_image.busybox())])
    spec = MachineSpec(image=str(image))
    order = Order(
        name=name, role="server", spec=spec, options=options, provision="boot", port=None, cpus="0"
    ).model_dump_json()
    script = textwrap.dedent("""
        from pathlib import Path
        from nearmetal.lab.containers.private_engine import run_private_engine

        async def main():
            async with run_private_engine(Path(sys.argv[2])):
                await orphan()
                await asyncio.sleep(600)

        asyncio.run(main())
    """)
    controller = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", ORPHAN + script, order, str(folder), "docker"), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert controller.stdout
        handle = Handle.from_json(json.loads(await asyncio.wait_for(controller.stdout.readline(), 240)))
    except BaseException:
        controller.kill()
        raise
    return controller, handle


@pytest.mark.usefixtures("engine")  # places that both cover are there before either and after
async def test_what_an_engine_that_was_killed_left_is_removed_by_the_next(
    folder: Path, site: LocalSite, lab_image: Image, token: str
) -> None:
    name = f"{token}-swept"
    controller, handle = await _on_an_own_engine(folder, name)
    controller.kill()
    await controller.wait()
    first = FirstProcess.in_ledger(handle)
    for _ in range(100):
        if not await first.is_alive(site):
            break
        await asyncio.sleep(0.05)
    assert not await first.is_alive(site)
    async with run_private_engine(folder) as url:
        assert await _containers(url, "") == []
        await DockerEnvironment().destroy(handle, site)
    assert stays(str(folder)) == []
    assert stays(name) == []


@pytest.mark.usefixtures("engine")  # places that both cover are there before either and after
async def test_clean_removes_what_an_engine_that_was_killed_left(folder: Path, lab_image: Image, token: str) -> None:
    """Its control groups too, which are named after its folder and nothing else would look for."""
    controller, handle = await _on_an_own_engine(folder, f"{token}-cleaned")
    daemon = int((folder / "docker.pid").read_text())
    os.kill(daemon, signal.SIGKILL)
    controller.kill()
    await controller.wait()
    engine = next(one for path in ledgers_folder().glob("engine-*.jsonl") for one in outstanding(path).handles)
    assert remains(engine.name) != []
    cleaned = await clean()
    assert (cleaned.removed, cleaned.left) == ((f"engine {engine.name}",), ())
    assert stays(engine.name) == []
    assert stays(str(folder)) == []
    assert stays(handle.name) == []


@pytest.mark.usefixtures("engine")  # places that both cover are there before either and after
@pytest.mark.parametrize("at_once", [True, False], ids=["engine killed", "starter killed"])
async def test_the_containers_of_an_own_engine_that_died_can_be_destroyed(
    folder: Path, site: LocalSite, lab_image: Image, token: str, at_once: bool
) -> None:
    name = f"{token}-buried"
    controller, handle = await _on_an_own_engine(folder, name)
    if at_once:
        os.kill(int((folder / "docker.pid").read_text()), signal.SIGKILL)
    controller.kill()
    await controller.wait()
    environment = DockerEnvironment()
    await asyncio.gather(environment.destroy(handle, site), environment.destroy(handle, site))
    stays(str(folder))  # one that still answered ends by itself
    await environment.destroy(handle, site)
    assert not await FirstProcess.in_ledger(handle).is_alive(site)
    assert not (folder / "docker.sock").exists()
    assert stays(str(folder)) == []
    assert stays(name) == []


@pytest.mark.parametrize("lock", [None, "folder", "held"])
async def test_a_silent_engine_that_may_live_keeps_its_containers(
    tmp_path: Path, site: LocalSite, lock: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearmetal.environments.docker.LIMITS", replace(LIMITS, stop=0.2))
    (tmp_path / "data").mkdir()
    (tmp_path / "exec").mkdir()
    if lock == "folder":
        (tmp_path / "lock").mkdir()
    handle = Handle(kind="docker", name="kept", site="local", data={"engine": f"unix://{tmp_path}/docker.sock"})
    with contextlib.ExitStack() as stack:
        if lock == "held":
            stack.enter_context(hold_exclusive_lock(tmp_path / "lock", "held"))
        with pytest.raises(HostCannot):
            await DockerEnvironment().destroy(handle, site)
    assert (tmp_path / "exec").exists()


async def _dies(machine: Container) -> bool:
    """Whether a container ends by itself within a few seconds."""
    for _ in range(100):
        if not await machine.first.is_alive(machine.site):
            return True
        await asyncio.sleep(0.05)
    return False


async def _containers(engine: str, token: str) -> list[str]:
    client = (await ContainerEngine.connect(engine)).client
    return [name for one in client.containers(all=True) for name in one["Names"] if token in name]
