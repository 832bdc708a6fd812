"""A machine of the user's own that has a kernel of its own, and so can be booted: a guest stands for it."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from nearmetal.config import Paths
from nearmetal.errors import MachineLost
from nearmetal.lab import probe
from nearmetal.lab.changes.ledger import Ledger, ledgers_folder, new_token
from nearmetal.lab.image import Image
from nearmetal.lab.keys import lab_keys
from nearmetal.lab.lab import Lab
from nearmetal.lab.machines import kernel
from nearmetal.lab.site_registry import Sites
from nearmetal.model import Change, EnvironmentSpec, HostSpec, Machine, MachineSpec
from nearmetal.study.resolve import resolve_alone
from tests.conftest import OWN_CPU

from .laboratory import spec

pytestmark = [pytest.mark.live, pytest.mark.long]

SMALL = MachineSpec(memory=128 * 2**20)


@pytest_asyncio.fixture
async def lab(lab_image: Image) -> AsyncIterator[Lab]:
    """With a guest in it, that is a host by the name of `metal`."""
    token = new_token()
    hosts: dict[str, HostSpec] = {}
    sites = Sites(hosts)
    ledger = Ledger(ledgers_folder() / f"{token}.jsonl")
    made = Lab(token, ledger, sites)
    try:
        site, qemu = await made.site("local"), resolve_alone(EnvironmentSpec(kind="qemu"), spec())
        handle = await made.create(qemu, spec(), "server", str(OWN_CPU), site, logins=True)
        guest = await made.attach(handle)
        keys = lab_keys(Paths.default().state)
        hosts["metal"] = HostSpec.model_validate(
            {
                "ssh": f"root@127.0.0.1:{handle.data['ssh_port']}",
                "trunk": guest.address,
                "key": str(Paths.default().state / "keys/client"),
                "host_key": keys.host.public.decode(),
            }
        )
        yield made
    finally:
        for one in made.machines():
            if one.site == "metal":
                await made.destroy(one)  # while it has a host
        left = await made.close()
        ledger.close()
        await sites.aclose()
    assert left == []


async def borrowed(lab: Lab, provision: str = "reuse") -> Machine:
    given = EnvironmentSpec.model_validate({"kind": "ssh", "address": "metal", "provision": provision})
    handle = await lab.create(
        resolve_alone(given.model_copy(update={"provision": "reuse"}), SMALL),
        SMALL,
        "server",
        "0",
        await lab.site("metal"),
    )
    return await lab.attach(handle)


async def test_it_is_booted_when_it_is_to_be(lab: Lab) -> None:
    machine = await borrowed(lab)
    assert machine.interface == "data" and not machine.owned and kernel.is_its_hosts(machine)
    before = machine.boot_id
    await lab.apply([Change(on=machine.name, kind="sysctl", target="vm.swappiness", after="7")])
    await machine.reboot()
    assert machine.boot_id != before
    await probe.ensure(machine)
    assert (await machine.exec(["true"])).status == 0
    assert "nearmetal-nm-" in (await machine.exec(["cat", "/proc/self/cgroup"])).text
    (undone,) = await lab.undo()
    assert undone.outcome == "already so", "a boot forgets it"


async def test_a_boot_in_the_middle_loses_it_and_the_next_goes_on(lab: Lab) -> None:
    machine = await borrowed(lab)
    waiting = asyncio.ensure_future(machine.exec(["sleep", "60"], timeout=70))
    await asyncio.sleep(1)
    await machine.site.exec(["sh", "-c", "(sleep 1; reboot) >/dev/null 2>&1 &"])
    with pytest.raises(MachineLost):
        await waiting
    other = await borrowed(lab)
    assert other.boot_id != machine.boot_id
    with pytest.raises(MachineLost):
        await machine.exec(["true"])
    assert (await other.exec(["true"])).status == 0
