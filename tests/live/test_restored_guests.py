"""Guests restored from a snapshot: each is another machine, and what was cut short in the making is never used."""

import asyncio
import os
import shutil
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from nearmetal.environments.qemu import QemuEnvironment
from nearmetal.lab.image import Image
from nearmetal.lab.local_site import LocalSite
from nearmetal.lab.networks import network
from nearmetal.lab.qemu import arguments, snapshot
from nearmetal.model import EnvironmentSpec, Handle, Machine, MachineSpec, Order
from tests.conftest import OWN_CPU
from tests.restored_guests import share_cache

from .conftest import Notes
from .leftovers import stays

pytestmark = pytest.mark.live

MANY = 3
"""Guests of one snapshot."""


@pytest.fixture(autouse=True)
def own_cache(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    own = tmp_path / "own"
    own.mkdir()
    share_cache(own / "cache")
    monkeypatch.setenv("NEARMETAL_HOME", str(own))
    yield
    shutil.rmtree(own / "cache")


@pytest_asyncio.fixture
async def switch(token: str, site: LocalSite) -> AsyncIterator[str]:
    handle = await network.create_switch(token, site, Notes())
    yield token
    await network.destroy_switch(handle, site)
    assert stays(token) == []


def spec(**settings: object) -> MachineSpec:
    return MachineSpec.model_validate({"accel": "tcg", "memory": "256MiB", **settings})


def order(switch: str, number: int, wanted: MachineSpec) -> Order:
    return Order(
        name=f"{switch}-{number}",
        role="server",
        spec=wanted,
        options={},
        provision="restore",
        port=network.make_port(switch, number),
        cpus=str(OWN_CPU),
    )


def making() -> list[int]:
    """Processes that work in the folder of a snapshot which is not finished."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            where = (process / "cwd").readlink()
        except OSError:
            continue
        if where.is_relative_to(snapshot.folder()):
            found.append(int(process.name))
    return found


async def tell(machine: Machine, script: str) -> list[str]:
    told = await machine.exec(["sh", "-c", script])
    assert told.status == 0, told
    return told.text.split()


MAKER = """
import asyncio
from nearmetal.environments.qemu import plugin
from nearmetal.lab.local_site import LocalSite
from nearmetal.model import EnvironmentSpec, MachineSpec

spec = MachineSpec(accel="tcg", memory=256 * 2**20)
asyncio.run(plugin.prepare(EnvironmentSpec(kind="qemu", provision="restore"), spec, LocalSite()))
"""


async def killed_in_the_making() -> None:
    """Begin a snapshot in another process, and kill that when its guest is up."""
    maker = await asyncio.create_subprocess_exec(sys.executable, "-c", MAKER)
    console = f".unfinished-*/{arguments.CONSOLE}"
    for _ in range(3000):
        if any(file.stat().st_size for file in snapshot.folder().glob(console)):
            break
        await asyncio.sleep(0.02)
    assert making(), "the guest is up, and to be saved"
    maker.kill()
    await maker.wait()
    for _ in range(250):
        if not making():
            break
        await asyncio.sleep(0.02)
    assert making() == []


@pytest.mark.long
async def test_a_restored_guest_has_the_modules_of_its_kernel_and_the_qemu_behind_a_script(
    switch: str, lab_image: Image, site: LocalSite, tmp_path: Path
) -> None:
    program = shutil.which(arguments.PROGRAM)
    assert program is not None
    script = tmp_path / "vmm"
    script.write_text(f'#!/bin/sh\nexec {program} "$@"\n')
    script.chmod(0o755)
    wanted = spec(kernel=lab_image.name, vmm=str(script))
    environment, notes = QemuEnvironment(), Notes()
    try:
        handle = await environment.create(order(switch, 1, wanted), site, notes)
        machine = await environment.attach(handle, site)
        (made,) = (one for one in snapshot.folder().iterdir() if one.is_dir())
        assert (made / "program").readlink() == Path(program).resolve()
        release = lab_image.manifest["kernel"]
        assert f"/usr/lib/modules/{release}" in await tell(machine, "cat /proc/mounts")
        await tell(machine, f"rm -r /run/nearmetal/modules/kernel; ! ls /usr/lib/modules/{release}/kernel")
    finally:
        for handle in notes.handles.values():
            await environment.destroy(handle, site)


@pytest.mark.long
async def test_restored_guests_are_machines_of_their_own(switch: str, lab_image: Image, site: LocalSite) -> None:
    await killed_in_the_making()
    assert all(one.name.startswith(".") for one in snapshot.folder().iterdir()), (
        "a half snapshot passes for a whole one"
    )

    environment, notes = QemuEnvironment(), Notes()
    try:
        await environment.prepare(EnvironmentSpec(kind="qemu", provision="restore"), spec(), site)
        assert len([one for one in snapshot.folder().iterdir() if one.is_dir()]) == 1, "what was cut short is removed"
        orders = [order(switch, number + 1, spec()) for number in range(MANY)]
        handles = await asyncio.gather(*(environment.create(one, site, notes) for one in orders))
        machines = await asyncio.gather(*(environment.attach(handle, site) for handle in handles))
        assert len({machine.boot_id for machine in machines}) == MANY
        assert {handle.image.snapshot for handle in handles} == {
            one.name for one in snapshot.folder().iterdir() if one.is_dir()
        }
        drawn = [await tell(machine, "head -c 16 /dev/urandom | od -An -tx8") for machine in machines]
        assert len(set(map(tuple, drawn))) == MANY
        for one, machine in zip(orders, machines, strict=True):
            await is_what_was_ordered(machine, one)
        reached = await machines[0].exec(["ping", "-c", "1", "-w", "10", "-I", network.INSIDE, machines[1].address])
        assert reached.status == 0, reached

        await machines[0].put(b"mine", "/srv/mine")
        assert (await machines[1].exec(["test", "-e", "/srv/mine"])).status == 1
        await boots_for_itself(machines[0], orders[0])
    finally:
        for handle in notes.handles.values():
            await environment.destroy(handle, site)


async def is_what_was_ordered(machine: Machine, one: Order) -> None:
    assert one.port is not None
    before = time.time()
    told = await tell(
        machine,
        "cat /proc/sys/kernel/random/boot_id; hostname; cat /sys/class/net/data/address; date +%s.%N;"
        " ip -o -4 addr show data | tr -s ' ' | cut -d ' ' -f 4;"
        # It has its own address once the card has a carrier, which takes some cards a moment longer than the guest.
        " for again in $(seq 100); do ip -o -6 addr show data | grep -q fe80 && break; sleep 0.1; done;"
        " ip -o -6 addr show data | grep -c fe80",
    )
    boot_id, hostname, mac, now, address, own_addresses = told
    assert (boot_id, hostname, mac, address) == (
        machine.boot_id,
        one.name,
        one.port.mac,
        f"{one.port.address}/{one.port.prefix}",
    )
    assert own_addresses == "1"
    # On a busy host some time goes by between what it was told and what it set.
    assert before - 5 < float(now) < time.time() + 5
    assert machine.arch == os.uname().machine


async def boots_for_itself(machine: Machine, one: Order) -> None:
    """A restored guest that is restarted is the same machine: its disk, its name, its place."""
    before = machine.boot_id
    await machine.reboot()
    assert machine.boot_id != before
    assert await machine.get("/srv/mine") == b"mine"
    await is_what_was_ordered(machine, one)


@pytest.mark.long
@pytest.mark.parametrize(
    ("nic", "driver"), [("e1000", "e1000"), ("e1000e", "e1000e"), ("rtl8139", "8139cp"), ("vmxnet3", "vmxnet3")]
)
async def test_each_nic_is_restored(switch: str, lab_image: Image, site: LocalSite, nic: str, driver: str) -> None:
    environment, notes = QemuEnvironment(), Notes()
    try:
        pair = [order(switch, number, spec(nic=nic)) for number in (1, 2)]
        machines = []
        for one in pair:
            handle: Handle = await environment.create(one, site, notes)
            machines.append(await environment.attach(handle, site))
            await is_what_was_ordered(machines[-1], one)
        found = await tell(machines[0], "readlink /sys/class/net/data/device/driver")
        assert found[0].rsplit("/", 1)[1] == driver
        reached = await machines[0].exec(["ping", "-c", "1", "-w", "10", "-I", network.INSIDE, machines[1].address])
        assert reached.status == 0, reached
        await machines[0].put(b"mine", "/srv/mine")
        await boots_for_itself(machines[0], pair[0])
    finally:
        for handle in notes.handles.values():
            await environment.destroy(handle, site)
