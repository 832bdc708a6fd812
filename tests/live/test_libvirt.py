"""The environment `libvirt` with a libvirtd of the tests' own; what it does as all others do is in the conformance."""

import asyncio
import contextlib
import json
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from nearmetal.environments.libvirt import LibvirtEnvironment
from nearmetal.errors import MachineLost, NotProvisioned
from nearmetal.lab import cgroup
from nearmetal.lab.image import Image
from nearmetal.lab.local_site import LocalSite
from nearmetal.lab.machines.init_process import FirstProcess
from nearmetal.model import EnvironmentSpec, Handle, MachineSpec, Order
from tests.conftest import OWN_CPU
from tests.libvirt_network import LibvirtNetwork
from tests.libvirt_service import libvirt_service

from .conftest import Make, Notes
from .laboratory import spec
from .leftovers import stays
from .task_placement import read_placement

pytestmark = pytest.mark.live

STRANGER = """
<domain type="qemu"><name>NAME</name><memory unit="MiB">64</memory><vcpu>1</vcpu>
<os><type arch="x86_64" machine="q35">hvm</type></os>
<devices><memballoon model="none"/><controller type="usb" model="none"/></devices></domain>
"""

ORPHAN = textwrap.dedent("""
    import asyncio, json, sys
    from nearmetal.environments.libvirt import plugin
    from nearmetal.lab.local_site import LocalSite
    from nearmetal.model import Order

    class Notes:
        def creating(self, handle):
            self.last = handle

    async def main():
        notes = Notes()
        await plugin.create(Order.from_json(json.loads(sys.argv[1])), LocalSite(), notes)
        print(notes.last.model_dump_json(), flush=True)
        await asyncio.sleep(600)

    asyncio.run(main())
""")
"""A controller that makes a domain and tells its handle."""


@pytest.fixture
def environment(libvirt: str, monkeypatch: pytest.MonkeyPatch) -> LibvirtEnvironment:
    monkeypatch.setenv("LIBVIRT_DEFAULT_URI", libvirt)
    return LibvirtEnvironment()


def virsh(uri: str, *argv: str) -> str:
    return subprocess.run(["virsh", "-q", "-c", uri, *argv], capture_output=True, text=True, check=True).stdout


def domains(uri: str) -> list[str]:
    return virsh(uri, "list", "--all", "--name").split()


async def test_a_domain_is_where_it_was_put_and_ends_alone(
    make: Make, environment: LibvirtEnvironment, site: LocalSite, notes: Notes, libvirt: str, token: str, tmp_path: Path
) -> None:
    """Beside a running and a defined domain of somebody's, which stay as they are."""
    for name in ("running", "defined"):
        (tmp_path / name).write_text(STRANGER.replace("NAME", f"{token}-{name}"))
    virsh(libvirt, "create", "--paused", str(tmp_path / "running"))
    virsh(libvirt, "define", str(tmp_path / "defined"))
    strangers = {f"{token}-{name}" for name in ("running", "defined")}
    before = {name: virsh(libvirt, "dumpxml", name) for name in strangers}
    try:
        machine = await make(spec())
        handle = notes.handles[machine.name]
        found = await read_placement(handle, site, str(OWN_CPU))
        assert found is not None and found.ok, found
        assert handle.hardware is not None
        assert (handle.hardware.accel, handle.hardware.disk.cache) == ("tcg", "writeback")
        cost = await machine.cost()
        assert cost is not None and cost.cpu_seconds > 0.5
        assert ((cost.memory_bytes or 0) > 64 * 2**20) is handle.data["has_own_group"]
        assert set(domains(libvirt)) == {*strangers, machine.name}
        virsh(libvirt, "destroy", machine.name)
        with pytest.raises(MachineLost):
            await machine.exec(["true"])
        with pytest.raises(MachineLost):
            await machine.cost()
        await environment.destroy(handle, site)
        await environment.destroy(handle, site)
        assert {name: virsh(libvirt, "dumpxml", name) for name in domains(libvirt)} == before
    finally:
        virsh(libvirt, "destroy", f"{token}-running")
        virsh(libvirt, "undefine", f"{token}-defined")


async def test_a_domain_dies_with_its_controller_and_can_be_removed_by_another(
    environment: LibvirtEnvironment, site: LocalSite, lab_image: Image, token: str, libvirt: str
) -> None:
    name = f"{token}-orphan"
    order = Order(
        name=name, role="server", spec=spec(), options={}, provision="boot", port=None, cpus=str(OWN_CPU)
    ).model_dump_json()
    controller = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", ORPHAN, order), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert controller.stdout
        handle = Handle.from_json(json.loads(await asyncio.wait_for(controller.stdout.readline(), 240)))
        assert domains(libvirt) == [name]
    finally:
        controller.kill()
        await controller.wait()
    for _ in range(200):
        if not domains(libvirt):
            break
        await asyncio.sleep(0.05)
    assert domains(libvirt) == []
    await environment.destroy(handle, site)
    assert stays(name) == []


@pytest.fixture
def making_groups(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URI of a libvirtd that makes a control group for each domain, as it does where it has not been told to leave
    that. Its sockets' paths have 107 characters at most."""
    with libvirt_service(tmp_path_factory.mktemp("l"), controllers='"cpu", "cpuset", "cpuacct", "memory"') as uri:
        yield uri
    for folder in Path("/sys/fs/cgroup").glob("*/machine"):
        with contextlib.suppress(OSError):  # another libvirtd's domains are in there
            folder.rmdir()


async def test_its_memory_is_its_groups_as_that_of_any_guest(
    making_groups: str, make: Make, environment: LibvirtEnvironment, site: LocalSite, notes: Notes
) -> None:
    """A process has the pages of its program and of its files too, which are cache, and not the guest's alone."""
    machine = await make(spec(), uri=making_groups)
    pid = FirstProcess.in_ledger(notes.handles[machine.name]).pid
    group = await cgroup.find_group(pid, site)
    cost = await machine.cost()
    assert cost is not None
    memory = (
        await cgroup.read_group_cost(replace(group, memory=group.memory.removesuffix("/emulator")), site)
    ).memory_bytes
    assert cost.memory_bytes == pytest.approx(memory, rel=0.02)
    # What the kernel counts of a process is what it counts of a group that has no other.
    if (stat := Path(f"/sys/fs/cgroup/unified{_unified(pid)}/cpu.stat")).exists():
        used = int(stat.read_text().split()[1]) / 1e6
        assert cost.cpu_seconds == pytest.approx(used, abs=0.5)


def _unified(pid: int) -> str:
    """The path of its group among those of version 2, beside version 1's."""
    lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    return next((line.removeprefix("0::").removesuffix("/emulator") for line in lines if line.startswith("0::")), "")


async def test_what_libvirt_refuses_is_told_in_its_words(
    make: Make, environment: LibvirtEnvironment, notes: Notes, libvirt: str
) -> None:
    with pytest.raises(NotProvisioned, match="libvirt does not start it: Failed to create domain"):
        await make(spec(), machine="no-such-machine")
    assert domains(libvirt) == []


@pytest.mark.parametrize(
    ("uri", "told"),
    [
        ("qemu:///system?socket=/nowhere/libvirt-sock", "Failed to connect socket"),
        ("test:///default", "none of QEMU's driver on its own host"),
        ("qemu+ssh://root@elsewhere/system", "none of QEMU's driver on its own host"),
        ("nonsense", "none of QEMU's driver on its own host"),
    ],
)
async def test_a_libvirt_that_cannot_serve_is_told_before(
    uri: str, told: str, environment: LibvirtEnvironment, site: LocalSite, lab_image: Image
) -> None:
    given = EnvironmentSpec.model_validate({"kind": "libvirt", "uri": uri})
    bad = [finding for finding in await environment.check(given, MachineSpec(), site) if not finding.ok]
    assert [finding.what for finding in bad] == [f"libvirt at {uri}"]
    assert told in bad[0].detail and bad[0].remedy


async def test_a_record_says_which_libvirt_made_it(environment: LibvirtEnvironment, site: LocalSite) -> None:
    told = await environment.versions({}, site)
    assert told.keys() == {"libvirt", "QEMU"}
    assert all(version[0].isdigit() for version in told.values())


async def test_a_quota_is_told_before(environment: LibvirtEnvironment, site: LocalSite, lab_image: Image) -> None:
    limited = MachineSpec.model_validate({"quota": 0.5})
    bad = [one for one in await environment.check(EnvironmentSpec(kind="libvirt"), limited, site) if not one.ok]
    assert [finding.what for finding in bad] == ["a quota"]


async def test_a_libvirtd_with_another_network_is_told_with_a_remedy(
    make: Make, environment: LibvirtEnvironment, guests_network: LibvirtNetwork
) -> None:
    """It looks for a guest's card where it runs itself, as one in a container does."""
    with pytest.raises(NotProvisioned, match="libvirt does not find its card") as refused:
        await make(spec(), uri=guests_network.uri)
    assert "network namespace" in refused.value.what
    assert "start libvirtd in that of its host" in refused.value.remedy
