"""The environment `qemu` with real guests. Emulation is what every host can do, so that is what runs here."""

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
import textwrap
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from nearmetal.config import Paths
from nearmetal.environments.qemu import QemuEnvironment
from nearmetal.errors import MachineLost, NotProvisioned, TimedOut
from nearmetal.lab import probe
from nearmetal.lab.changes.ledger import ledgers_folder
from nearmetal.lab.image import Image
from nearmetal.lab.keys import lab_keys
from nearmetal.lab.local_site import LocalSite, run_checked
from nearmetal.lab.qemu import (
    accelerator,
    arguments,
    files,
    machine_type,
    monitor,
    process_privileges,
    requirements,
    template,
)
from nearmetal.lab.qemu.guest import QemuMachine
from nearmetal.model import EnvironmentSpec, Handle, Machine, MachineSpec, Order, TrialStatus
from nearmetal.run import pause_detection
from nearmetal.run.events import Step
from nearmetal.run.machine_state import read_states
from nearmetal.store.events import Event
from tests.conformance import machine_kill
from tests.conftest import OWN_CPU
from tests.guests import GUEST
from tests.order import mock_run

from . import laboratory
from .conftest import Make, Notes
from .leftovers import stays

pytestmark = pytest.mark.live

MEBIBYTE = 2**20


@pytest.fixture
def environment() -> QemuEnvironment:
    return QemuEnvironment()


def spec(**settings: object) -> MachineSpec:
    return MachineSpec.model_validate({"accel": "tcg", "memory": "256MiB", **settings})


def monitors(name: str) -> list[int]:
    """Processes of QEMU that carry this machine's name."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            if words[0].endswith(arguments.PROGRAM.encode()) and f"{name},debug-threads=on".encode() in words:
                found.append(int(process.name))
    return found


# ── What it finds out ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_check_boots_a_guest_on_what_is_asked_for(
    environment: QemuEnvironment, site: LocalSite, lab_image: Image
) -> None:
    findings = await environment.check(EnvironmentSpec(kind="qemu"), spec(image=lab_image.name), site)
    assert [finding for finding in findings if not finding.ok] == []
    assert findings[-1].what == "tcg boots a guest"


async def test_check_names_what_is_missing(environment: QemuEnvironment, site: LocalSite, lab_image: Image) -> None:
    findings = await environment.check(EnvironmentSpec(kind="qemu"), spec(image="none", memory="900TiB"), site)
    bad = [finding for finding in findings if not finding.ok]
    assert [finding.what for finding in bad] == ["image none", "943718400 MiB of memory"]
    assert all(finding.detail and finding.remedy for finding in bad)
    (bad_accel,) = (
        finding
        for finding in await environment.check(EnvironmentSpec(kind="qemu"), spec(accel="hvf"), site)
        if not finding.ok
    )
    assert "tcg" in bad_accel.remedy


@pytest.mark.parametrize(
    ("machine_type", "detail", "remedy"),
    [
        ("q99", "this QEMU does not have it", "set it to 'q35'"),
        ("isapc", "no PCI bus", 'machine.board = "q35"'),
        ("none", "no PCI bus", 'machine.board = "q35"'),
    ],
)
async def test_a_machine_type_that_guests_do_not_fit_is_told_before_any_is_made(
    environment: QemuEnvironment, site: LocalSite, lab_image: Image, machine_type: str, detail: str, remedy: str
) -> None:
    asked = EnvironmentSpec.model_validate({"kind": "qemu", "machine": machine_type})
    (bad,) = [one for one in await environment.check(asked, spec(), site) if not one.ok]
    assert (bad.what, bad.fatal) == (f"machine type {machine_type}", True)
    assert detail in bad.detail
    assert remedy in bad.remedy


async def test_a_guest_boots_on_another_machine_type_that_has_what_it_needs(
    environment: QemuEnvironment, site: LocalSite, lab_image: Image
) -> None:
    asked = EnvironmentSpec.model_validate({"kind": "qemu", "machine": "pc"})
    findings = await environment.check(asked, spec(), site)
    assert [one for one in findings if not one.ok] == []
    assert findings[-1].what == "machine type pc"
    assert not (await machine_type.check_express("pc", site)).ok
    assert (await machine_type.check_express("q35", site)).ok


async def test_a_nic_that_a_machine_type_has_no_place_for_is_told(
    environment: QemuEnvironment, site: LocalSite, lab_image: Image
) -> None:
    asked = EnvironmentSpec.model_validate({"kind": "qemu", "machine": "pc"})
    (bad,) = [one for one in await environment.check(asked, spec(nic="tulip2"), site) if not one.ok]
    assert "it has no place for the NIC tulip2: 'tulip2' is not a valid device model" in bad.detail


async def test_an_accelerator_on_which_a_guest_hangs_does_not_work(lab_image: Image) -> None:
    """A guest that has no time to boot looks the same as one that hangs."""
    proof = await accelerator.boot_guest("tcg", lab_image, 0.3, LocalSite())
    assert (proof.works, "hangs" in proof.detail) == (False, True)
    nonsense = await accelerator.boot_guest("no-such-accelerator", lab_image, 30, LocalSite())
    assert (nonsense.works, "no-such-accelerator" in nonsense.detail) == (False, True)


async def test_a_proof_whose_qemu_is_killed_is_not_remembered(
    lab_image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = LocalSite()
    monkeypatch.setattr(accelerator, "_file", lambda site: tmp_path / "accelerators.json")
    proving = asyncio.create_task(accelerator.find_proof("tcg", lab_image, site))
    while not (booting := [pid for pid in _children() if b"qemu" in (words := _command(pid)) and b"-kernel" in words]):
        assert not proving.done(), "its QEMU is a child of ours while it boots"
        await asyncio.sleep(0.01)
    os.kill(int(booting[0]), signal.SIGKILL)
    killed = await proving
    assert (killed.works, "ended by SIGKILL" in killed.detail) == (False, True)
    assert (await accelerator.find_proof("tcg", lab_image, site)).works


def _children() -> list[str]:
    threads = Path("/proc/self/task").glob("*/children")
    return [pid for thread in threads for pid in thread.read_text().split()]


def _command(pid: str) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


# ── A machine's life ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.long
async def test_a_guest_is_what_was_ordered(make: Make, notes: Notes, token: str) -> None:
    machine = await make(spec(kernel_arguments=["nearmetal.test=1"]), cpus=str(OWN_CPU))
    assert isinstance(machine, QemuMachine)
    told = await machine.exec(
        ["sh", "-c", "nproc; grep MemTotal /proc/meminfo; cat /proc/cmdline /proc/sys/kernel/hostname; ip -o -4 addr"]
    )
    cpus, memory, command_line, hostname, *addresses = told.text.splitlines()
    assert cpus == "1"
    assert 200 * MEBIBYTE < int(memory.split()[1]) * 1024 <= 256 * MEBIBYTE
    assert command_line.endswith("nearmetal.test=1")
    assert hostname == machine.name
    assert any(f" {machine.interface} " in line and f" {machine.address}/16 " in line for line in addresses)
    assert (machine.arch, machine.accel, machine.owned) == ("x86_64", "tcg", True)

    handle = notes.handles[machine.name]
    assert handle.hardware is not None
    assert handle.hardware.accel == "tcg"
    assert handle.hardware.pinned == {0: OWN_CPU}
    (pid,) = monitors(machine.name)
    affinity = {thread.name: os.sched_getaffinity(int(thread.name)) for thread in Path(f"/proc/{pid}/task").iterdir()}
    assert set(map(frozenset, affinity.values())) == {frozenset({OWN_CPU})}

    # The probe came with the guest.
    hashed = await machine.exec(["sha256sum", machine.probe])
    assert hashed.text.split()[0] == probe.sha256()
    assert (await machine.exec(["no-such-program"])).status == 127
    assert (await machine.exec(["a=b"])).status == 127
    with pytest.raises(TimedOut):
        await machine.exec(["sleep", "300"], timeout=1)
    assert "sleep 300" not in (await machine.exec(["ps", "ax"])).text
    server = await machine.spawn(["lighttpd", "-D", "-f", "/etc/nearmetal/lighttpd.conf"])
    fetch = ["ip", "netns", "exec", token, sys.executable, "-c", FETCH, machine.address]
    await machine.site.exec(["ip", "-netns", token, "address", "add", "10.111.255.254/16", "dev", "switch"])
    assert (await machine.site.exec(fetch, timeout=60)).text == "200 402\n"
    await server.stop()
    cost = await machine.cost()
    assert cost.cpu_seconds > 0.5
    assert cost.memory_bytes is not None and cost.memory_bytes > 64 * MEBIBYTE


async def test_a_guest_has_a_user_and_a_secret_of_its_own(make: Make, notes: Notes) -> None:
    machines = [await make(spec()), await make(spec(share="/root:/mnt"))]
    users, secrets = set(), set()
    for machine in machines:
        (pid,) = monitors(machine.name)
        status = process_privileges.read_status(Path(f"/proc/{pid}/status").read_text())
        users.add(status["Uid"])
        hardware = notes.handles[machine.name].hardware
        assert hardware is not None and hardware.monitoring is not None and hardware.monitoring.unlike == ()
        reads = machine is machines[1]
        assert hardware.monitoring.power == (
            f"as a user of its own, {'reads any file, ' if reads else ''}system calls filtered"
        )
        secret = (await machine.exec(["cat", "/run/nearmetal/agent.secret"])).stdout
        assert secret == lab_keys(Paths.default().state).agent_of(machine.name)
        secrets.add(secret)
    assert (len(users), len(secrets)) == (2, 2)
    assert not any("0" in user.split() for user in users)


async def test_what_only_root_may_open_is_opened_for_qemu(site: LocalSite, lab_image: Image, tmp_path: Path) -> None:
    """A disk over a disk over a disk, below a folder that is closed to all others."""
    folder, below = tmp_path / "machine", [tmp_path / name for name in ("nearer", "base")]
    folder.mkdir(mode=0o700)
    await run_checked(site, "qemu-img", "create", "-q", "-f", "qcow2", str(below[1]), "64M")
    await run_checked(site, *arguments.build_disk_command("qcow2", str(below[1]), "qcow2", str(below[0])))
    await run_checked(site, *arguments.build_disk_command("qcow2", str(below[0]), "qcow2", f"{folder}/disk.qcow2"))
    (folder / arguments.INITRD).write_bytes(b"no archive")
    for file in (*below, folder / arguments.INITRD):
        file.chmod(0o600)
    backing = tuple(map(str, below))
    guest = replace(GUEST, port=None, kernel=str(lab_image.kernel), backing=backing, disk_cache="none")
    await files.hand_folder_over(str(folder), guest, guest.privilege.owner(guest.name), site)
    command = files.build_launch(guest, guest.name, arguments.build_saved(guest), site, "--chdir", str(folder))
    running = await site.spawn(command)
    try:
        async with monitor.open_monitor(site, str(folder), 30, partial(template.find_last_words, running)) as qemu:
            assert (await qemu.disk(str(folder))).cache == "none"
            (pid,) = monitors(guest.name)
            status = process_privileges.read_status(Path(f"/proc/{pid}/status").read_text())
            assert guest.privilege.find_difference(guest.name, status) is None
    finally:
        await running.stop()
    made = {file.name: (file.stat().st_uid == 0, file.stat().st_mode & 0o077) for file in folder.iterdir()}
    assert made == {
        "disk.qcow2": (False, 0),
        "console": (False, 0),
        "sockets": (False, 0),
        "initrd": (True, 0o040),
    }


@pytest.mark.long
async def test_a_monitor_that_was_stopped_is_told_and_one_that_is_killed_is_lost(make: Make) -> None:
    """The guest's clock goes on while it is stopped, and jumps: it lacks nothing afterwards."""
    machine = await make(spec())
    (pid,) = monitors(machine.name)
    before, since = await read_states([machine], {}), time.time()
    assert await pause_detection.explain_stall([machine], before, await read_states([machine], {}), since) is None
    os.kill(pid, signal.SIGSTOP)
    await asyncio.sleep(1.5)
    os.kill(pid, signal.SIGCONT)
    told = await pause_detection.explain_stall([machine], before, await read_states([machine], {}), since)
    assert told and f"the server {machine.name} stood still" in told
    before, since = await read_states([machine], {}), time.time()
    assert await pause_detection.explain_stall([machine], before, before, since) is None, "it is told once"
    waiting = asyncio.create_task(machine.exec(["sleep", "300"]))
    await asyncio.sleep(1)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(MachineLost):
        await waiting
    with pytest.raises(MachineLost):
        await machine.exec(["true"])
    # Its control group has figures still, by which a trial would go on as if it were there.
    assert not await machine_kill.still_tells_its_cost(machine)


FETCH = """
import sys, time, urllib.request
for attempt in range(200):
    try:
        with urllib.request.urlopen(f"http://{sys.argv[1]}/", timeout=20) as reply:
            print(reply.status, len(reply.read()))
            break
    except OSError:
        time.sleep(0.1)
"""


@pytest.mark.parametrize(
    ("nic", "driver", "disk", "device"),
    [
        pytest.param("e1000", "e1000", "ide", "sda", marks=pytest.mark.long),
        pytest.param("e1000e", "e1000e", "virtio-blk", "vda", marks=pytest.mark.long),
        pytest.param("rtl8139", "8139cp", "virtio-blk", "vda", marks=pytest.mark.long),
        pytest.param("vmxnet3", "vmxnet3", "virtio-blk", "vda", marks=pytest.mark.long),
    ],
)
async def test_each_nic_and_disk_is_the_one_ordered(make: Make, nic: str, driver: str, disk: str, device: str) -> None:
    machine = await make(spec(nic=nic, disk=disk), cpus=str(OWN_CPU))
    told = await machine.exec(["sh", "-c", "readlink /sys/class/net/data/device/driver; mount"])
    assert told.text.splitlines()[0].rsplit("/", 1)[1] == driver
    assert f"/dev/{device} on / type ext4" in told.text


async def test_a_reboot_is_another_boot_of_a_machine_that_another_process_reaches_and_removes(
    environment: QemuEnvironment, make: Make, notes: Notes, site: LocalSite
) -> None:
    machine = await make(spec(), cpus=str(OWN_CPU))
    before = machine.boot_id
    await machine.put(b"kept", "/srv/kept")
    await machine.reboot()
    assert machine.boot_id != before
    assert await machine.get("/srv/kept") == b"kept"
    assert (await machine.exec(["cat", "/proc/sys/kernel/random/boot_id"])).text.strip() == machine.boot_id
    await another_process_reaches_and_removes_it(machine, notes.handles[machine.name], site)


# ── What goes wrong ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_guest_that_does_not_boot_shows_its_console(make: Make) -> None:
    with pytest.raises(NotProvisioned, match="panicked") as caught:
        await make(spec(kernel_arguments=["rdinit=/no/such/init", "init=/no/such/init"]), cpus=str(OWN_CPU))
    assert "Kernel panic - not syncing" in caught.value.what
    assert "machine.memory" in caught.value.remedy


@pytest.mark.long
@pytest.mark.usefixtures("one_attempt")
async def test_a_guest_that_uses_a_tenth_less_than_its_memory_is_no_valid_one(lab_image: Image, tmp_path: Path) -> None:
    records = await laboratory.study(tmp_path / "run", LESS)
    assert {record.status for record in records} == {TrialStatus.INVALID}
    assert re.search(rf"it has \d+ bytes of memory instead of {256 * MEBIBYTE}", str(records[0].reason))


LESS = """
name = "less"
[machine]
memory = "256MiB"
accel = "tcg"
kernel_arguments = ["mem=230M"]
[factors]
environment = ["qemu"]
[design]
blocks = 1
[[workloads]]
name = "true"
kind = "command"
argv = ["true"]
response = "seconds"
better = "lower"
json = "seconds"
"""


@pytest.mark.long
async def test_the_least_memory_is_enough_and_less_is_refused_before_anything_is_made(
    environment: QemuEnvironment, make: Make, site: LocalSite
) -> None:
    machine = await make(spec(memory=requirements.LEAST_MEMORY, nic="e1000e"))
    assert (await machine.exec(["true"])).status == 0
    less = spec(memory=requirements.LEAST_MEMORY - 2**20)
    (bad,) = [one for one in await environment.check(EnvironmentSpec(kind="qemu"), less, site) if not one.ok]
    assert (bad.what, bad.remedy, bad.fatal) == ("127 MiB of memory", "set machine.memory to 128 MiB or more", True)


@pytest.mark.long  # it waits for as long as a slow guest may take
async def test_a_guest_without_a_control_network_says_so_on_its_console(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(QemuMachine, "boot_limit", 60.0)
    with pytest.raises(NotProvisioned, match="its agent did not answer within 60 s") as caught:
        await make(spec(kernel_arguments=["nearmetal.control="]), cpus=str(OWN_CPU))
    assert "so no sshd" in caught.value.what
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("settings", "said"),
    [({"nic": "no-such-nic"}, "no-such-nic"), ({"memory": "900TiB"}, "memory|RAM"), ({"accel": "hvf"}, "hvf")],
)
async def test_a_qemu_that_ends_at_once_tells_why(make: Make, settings: dict[str, object], said: str) -> None:
    with pytest.raises(NotProvisioned, match=f"(?s)ended at once: .*({said})"):
        await make(spec(**settings), cpus=str(OWN_CPU))


@pytest.mark.usefixtures("one_attempt")
@pytest.mark.parametrize("after", [pytest.param(0.0, marks=pytest.mark.long), 2.0])
async def test_a_trial_whose_guest_is_killed_is_lost(
    lab_image: Image, home: Path, tmp_path: Path, after: float
) -> None:
    """Whether some requests were served until then, or none."""

    def kill() -> None:
        (ledger,) = ledgers_folder().glob("*.jsonl")
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                words = (process / "cmdline").read_bytes().split(b"\0")
                if words[0].endswith(arguments.PROGRAM.encode()) and any(
                    ledger.stem.encode() in word for word in words
                ):
                    os.kill(int(process.name), signal.SIGKILL)

    def listen(event: Event) -> None:
        if isinstance(event, Step) and (event.name, event.state) == ("measure", "begins"):
            asyncio.get_running_loop().call_later(after, kill)

    _, records = await mock_run.run(tmp_path / "run", KILLED, listen)
    assert {record.status for record in records} == {TrialStatus.LOST}
    assert all(record.responses == {} and record.reason for record in records)


KILLED = """
name = "killed"
[machine]
memory = "256MiB"
accel = "tcg"
[factors]
environment = ["qemu"]
[design]
blocks = 1
[[workloads]]
name = "web"
kind = "http"
server = "lighttpd"
warmup = "0s"
duration = "4s"
timeout = "1s"
"""


async def another_process_reaches_and_removes_it(machine: Machine, handle: Handle, site: LocalSite) -> None:
    """By its handle."""
    whole = Handle.from_json(handle.model_dump(mode="json"))
    other = await QemuEnvironment().attach(whole, site)
    assert other.boot_id == machine.boot_id
    await QemuEnvironment().destroy(whole, site)
    await QemuEnvironment().destroy(whole, site)
    assert monitors(machine.name) == []
    with pytest.raises(MachineLost):
        await other.exec(["true"])


CONTROLLER = """
import asyncio, json, sys
from nearmetal.environments.qemu import plugin
from nearmetal.lab.networks import network
from nearmetal.lab.local_site import LocalSite
from nearmetal.model import MachineSpec, Order

class Out:
    def creating(self, handle):
        print(handle.model_dump_json(), flush=True)

async def main():
    token, name, cpu = sys.argv[1:]
    order = Order(
        name=name, role="server", spec=MachineSpec(accel="tcg", memory=256 * 2**20), options={}, provision="boot",
        port=network.make_port(token, 9), cpus=cpu,
    )
    await plugin.create(order, LocalSite(), Out())
    await asyncio.sleep(300)

asyncio.run(main())
"""


@pytest.mark.parametrize("handles", [1, 2])
async def test_it_ends_with_a_controller_that_is_killed(
    environment: QemuEnvironment, make: Make, token: str, lab_image: Image, site: LocalSite, handles: int
) -> None:
    """Killed as soon as the ledger has one line, or when the machine runs: what the ledger holds suffices."""
    name = f"{token}-killed"
    controller = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", textwrap.dedent(CONTROLLER), token, name, str(OWN_CPU)), stdout=asyncio.subprocess.PIPE
    )
    assert controller.stdout
    for _ in range(handles):
        line = await asyncio.wait_for(controller.stdout.readline(), 60)
    controller.kill()
    await controller.wait()
    handle = Handle.from_json(json.loads(line))
    for _ in range(100):
        if not monitors(name):
            break
        await asyncio.sleep(0.05)
    assert monitors(name) == []
    await environment.destroy(handle, site)
    assert stays(name) == []


async def test_the_monitor_is_reached_however_long_the_folders_name_is(
    environment: QemuEnvironment, lab_image: Image, site: LocalSite, notes: Notes, token: str,
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
) -> None:  # fmt: skip
    """A socket's path may have 107 bytes."""
    home = tmp_path / ("long" * 30)
    home.mkdir()
    (home / "cache").symlink_to(Paths.default().cache)
    monkeypatch.setenv("NEARMETAL_HOME", str(home))
    order = Order(
        name=f"{token}-long", role="server", spec=spec(), options={}, provision="boot", port=None, cpus=str(OWN_CPU)
    )
    try:
        handle = await environment.create(order, site, notes)
        assert len(f"{handle.data['folder']}/{arguments.MONITOR}") > 107

        async def runs() -> None:
            return None

        async with monitor.open_monitor(site, handle.data["folder"], 10, runs) as qemu:
            assert await qemu.accelerator("whpx") == "tcg"  # it is never believed
    finally:
        await environment.destroy(notes.handles[order.name], site)
    assert stays(token) == []
