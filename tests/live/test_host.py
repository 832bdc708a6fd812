"""The environment `host` with real namespaces, control groups and links."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from nearmetal.environments.host import HostEnvironment, HostMachine
from nearmetal.errors import HostCannot, MachineLost, NotProvisioned, TimedOut, ToolFailed
from nearmetal.lab.image import Image
from nearmetal.lab.local_site import LocalSite
from nearmetal.model import EnvironmentSpec, Handle, Machine, MachineSpec, Order

from .conftest import Make, Notes
from .leftovers import stays
from .orphan import controller

pytestmark = pytest.mark.live

MEBIBYTE = 2**20


@pytest.fixture
def environment() -> HostEnvironment:
    return HostEnvironment()


async def test_check_finds_what_this_host_has(
    environment: HostEnvironment, site: LocalSite, lab_image: Image, token: str
) -> None:
    findings = await environment.check(EnvironmentSpec(kind="host"), MachineSpec(image=lab_image.name), site)
    assert [finding for finding in findings if not finding.ok] == []
    assert stays(token) == []


async def test_check_names_what_is_missing(environment: HostEnvironment, site: LocalSite) -> None:
    findings = await environment.check(EnvironmentSpec(kind="host"), MachineSpec(image="none", vcpus=4096), site)
    bad = {finding.what: finding for finding in findings if not finding.ok}
    assert bad.keys() == {"image none", "4096 CPUs"}
    assert all(finding.detail and finding.remedy for finding in bad.values())


async def test_a_command_tells_its_status_and_both_streams(make: Make) -> None:
    machine = await make()
    ended = await machine.exec(["sh", "-c", "cat; echo err >&2; exit 7"], stdin=b"\0in\xff")
    assert (ended.status, ended.stdout, ended.stderr) == (7, b"\0in\xff", b"err\n")
    assert (await machine.exec(["no-such-program"])).status == 127
    assert (await machine.exec(["/etc/passwd"])).status == 126
    assert (await machine.exec(["sh", "-c", "kill -9 $$"])).status == 137


async def test_the_environment_is_clean(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAKED", "1")
    machine = await make()
    lines = (await machine.exec(["env"], env={"ODD": "a b'c\n$d"})).text
    assert "LEAKED" not in lines
    assert "LEAKED" not in (await machine.exec(["cat", "/proc/1/environ"])).text
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


async def test_limits_are_what_was_ordered(make: Make) -> None:
    machine = await make(MachineSpec.model_validate({"vcpus": 1, "memory": "64MiB"}), cpus="0")
    assert (await machine.exec(["nproc"])).stdout == b"1\n"
    shown = "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"
    limits = (await machine.exec(["sh", "-c", f"cat {shown[0]} {shown[1]} 2>/dev/null"])).text
    assert limits == f"{64 * MEBIBYTE}\n"
    # tail keeps what it reads when there are no lines in it.
    hungry = ["sh", "-c", "head -c 200M /dev/zero | tail"]
    assert (await machine.exec(hungry)).status == 137
    cost = await machine.cost()
    assert cost is not None
    assert cost.cpu_seconds > 0
    assert cost.memory_bytes is not None and 0 < cost.memory_bytes < 64 * MEBIBYTE


async def test_cost_counts_what_a_command_burns(make: Make) -> None:
    machine = await make()
    before = await machine.cost()
    spun = await machine.exec(["sh", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; times"])
    after = await machine.cost()
    assert before and after
    told = spun.text.splitlines()[0].split()  # 0m0.350s 0m0.010s
    seconds = sum(float(word.partition("m")[2].rstrip("s")) for word in told)
    assert seconds > 0.05
    assert after.cpu_seconds - before.cpu_seconds >= 0.9 * seconds


async def test_two_machines_meet_on_the_switch(make: Make) -> None:
    one, other = await make(), await make()
    ended = await one.exec(["ping", "-c", "1", "-W", "5", other.address])
    assert ended.status == 0, ended.text
    assert (await one.exec(["cat", f"/sys/class/net/{one.interface}/operstate"])).stdout == b"up\n"
    namespace, interface = str(one.peer).split("/")
    outside = await one.site.exec(["ip", "-netns", namespace, "link", "show", interface])
    assert outside.status == 0


async def test_every_machine_starts_fresh(make: Make, lab_image: Image) -> None:
    one = await make()
    await one.put(b"mine", "/root/mark")
    other = await make()
    assert one.boot_id != other.boot_id
    assert (await other.exec(["test", "-e", "/root/mark"])).status == 1
    assert not (lab_image.root / "root/mark").exists()


async def test_only_in_the_machine_do_others_than_root_get_at_its_programs(
    make: Make, site: LocalSite, lab_image: Image
) -> None:
    lab_image.root.chmod(0o755)  # as earlier versions left it
    machine = await make()
    assert (await machine.exec(["stat", "-c", "%a", "/"])).text == "755\n"
    as_server = ["setpriv", "--reuid=www-data", "--regid=www-data", "--clear-groups", "--", "cat", "/etc/hostname"]
    assert (await machine.exec(as_server)).text == "nearmetal\n"
    for folder in (Path(site.state, "machines", machine.name), lab_image.root):
        assert folder.stat().st_mode & 0o777 == 0o700


async def test_a_command_over_its_time_is_killed_with_its_children(make: Make) -> None:
    machine = await make()
    with pytest.raises(TimedOut):
        await machine.exec(["sh", "-c", "sleep 4321 & sleep 4321"], timeout=0.3)
    await _until_gone(machine, "4321")


async def test_what_runs_in_the_background_can_be_stopped(make: Make) -> None:
    machine = await make()
    running = await machine.spawn(["sh", "-c", "trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.02; done"])
    with pytest.raises(TimedOut):
        await running.wait(0.3)
    ended = await running.stop()
    assert (ended.status, ended.stdout) == (3, b"up\nbye\n")
    assert await running.stop() == ended


async def test_a_machine_that_is_killed_is_lost(make: Make) -> None:
    machine = await make()
    assert isinstance(machine, HostMachine)
    waiting = asyncio.ensure_future(machine.exec(["sleep", "60"]))
    await asyncio.sleep(0.2)
    os.kill(machine.first.pid, signal.SIGKILL)
    with pytest.raises(MachineLost):
        await waiting
    with pytest.raises(MachineLost):
        await machine.exec(["true"])
    with pytest.raises(MachineLost):
        await machine.spawn(["true"])


async def test_reboot_is_refused(make: Make) -> None:
    with pytest.raises(HostCannot):
        await (await make()).reboot()


async def test_destroy_is_idempotent_and_leaves_nothing(
    make: Make, environment: HostEnvironment, site: LocalSite, notes: Notes
) -> None:
    machine = await make()
    await machine.spawn(["sleep", "60"])
    handle = notes.handles[machine.name]
    await environment.destroy(handle, site)
    assert stays(machine.name) == []
    await environment.destroy(handle, site)
    with pytest.raises(NotProvisioned):
        await environment.attach(handle, site)


async def test_a_creation_that_fails_can_be_removed(
    make: Make, environment: HostEnvironment, site: LocalSite, notes: Notes, token: str
) -> None:
    with pytest.raises(HostCannot, match="out of range"):
        await make(cpus="4000")
    for handle in notes.handles.values():
        await environment.destroy(handle, site)
    assert stays(f"{token}-1") == []


async def test_machines_die_with_their_controller_and_can_be_removed_by_another(
    environment: HostEnvironment, site: LocalSite, lab_image: Image, token: str
) -> None:
    name = f"{token}-orphan"
    order = Order(name=name, role="server", spec=MachineSpec(), options={}, provision="boot", port=None, cpus="0")
    async with controller(order, environment.kind) as handle:
        pass
    assert await _dies(environment, handle, site)
    await environment.destroy(handle, site)
    assert stays(name) == []


async def _dies(environment: HostEnvironment, handle: Handle, site: LocalSite) -> bool:
    """Whether the machine dies by itself within a few seconds."""
    for _ in range(100):
        try:
            await environment.attach(handle, site)
        except NotProvisioned:
            return True
        await asyncio.sleep(0.05)
    return False


async def _until_gone(machine: Machine, mark: str) -> None:
    for _ in range(100):
        listed = (await machine.exec(["ps", "-eo", "args"])).text
        if not any(mark in line and "ps -eo" not in line for line in listed.splitlines()):
            return
        await asyncio.sleep(0.05)
    pytest.fail(f"still there:\n{listed}")
