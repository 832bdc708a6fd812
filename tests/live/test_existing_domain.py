"""Domains that are somebody's: defined by virsh at a libvirtd of the tests' own, with an address by DHCP."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from nearmetal.config import read_patience
from nearmetal.environments.libvirt import plugin
from nearmetal.errors import BadInput, HostCannot, MachineLost, NotProvisioned
from nearmetal.lab import clean
from nearmetal.lab.borrowed.borrowed_machine import Borrowing
from nearmetal.lab.image import Image
from nearmetal.lab.libvirt import existing_domain
from nearmetal.lab.local_site import LocalSite
from nearmetal.model import (
    ControlGroup,
    EnvironmentSpec,
    Finding,
    Handle,
    Machine,
    MachineSpec,
    Order,
    Provision,
    Site,
    TrialStatus,
)
from nearmetal.run import pause_detection
from nearmetal.run.events import Step
from nearmetal.run.machine_state import read_states
from nearmetal.store.events import Event
from tests.existing_domain import ExistingDomain, define_existing_domain
from tests.libvirt_network import LibvirtNetwork
from tests.order import mock_run

from .conftest import Notes
from .laboratory import spec, study

pytestmark = pytest.mark.live

STUDY = """
name = "domain"
reference = {{ environment = "host" }}
[environments.web]
kind = "libvirt"
uri = "{uri}"
domain = "{domain}"
key = "{key}"
host_key = "{host_key}"
[factors]
environment = ["host", "web"]
[machine]
memory = "256MiB"
[[workloads]]
name = "web"
kind = "http"
warmup = "0.2s"
duration = "1s"
[design]
blocks = 1
"""

LONELY = """
<domain type="qemu"><name>lonely</name><memory unit="MiB">768</memory><vcpu>1</vcpu>
<os><type arch="x86_64" machine="q35">hvm</type></os>
<devices><memballoon model="none"/><controller type="usb" model="none"/></devices></domain>
"""


@contextmanager
def defined(network: LibvirtNetwork, image: Image, name: str) -> Iterator[ExistingDomain]:
    """Off, and beside it one of a name that begins alike."""
    with (
        define_existing_domain(network, image, name) as domain,
        define_existing_domain(network, image, f"{name} server"),
    ):
        yield domain


@pytest.fixture
def domain(guests_network: LibvirtNetwork, lab_image: Image, token: str) -> Iterator[ExistingDomain]:
    """That had no address yet."""
    with defined(guests_network, lab_image, f"{token}-web") as domain:
        yield domain


@pytest.fixture(scope="module")
def stays_off(guests_network: LibvirtNetwork, lab_image: Image, token: str) -> Iterator[ExistingDomain]:
    with defined(guests_network, lab_image, f"{token}-off") as domain:
        yield domain


def order(domain: ExistingDomain, provision: Provision, number: int = 1) -> Order:
    return Order(
        name=f"nml{os.getpid()}-d{number}",
        role="server",
        spec=spec(),
        options=domain.options,
        provision=provision,
        port=None,
        cpus="",
    )


async def wrong(of: ExistingDomain, machine: MachineSpec | None = None, **options: Any) -> Finding | None:
    """The first thing that is."""
    given = EnvironmentSpec.model_validate({"kind": "libvirt", **of.options, **options})
    return next((one for one in await plugin.check(given, machine or spec(), LocalSite()) if not one.ok), None)


async def test_one_that_is_off_is_started_and_shut_down_again(domain: ExistingDomain, notes: Notes) -> None:
    """And while it runs, it is one that runs to whoever comes next."""
    site, before = LocalSite(), domain.definition
    assert await wrong(domain) is None
    handle = await plugin.create(order(domain, "boot"), site, notes)
    assert notes.handles[handle.name].data["mark"]
    machine: Machine = await plugin.attach(handle, site)
    assert domain.state == "running" and not machine.owned and machine.interface == "eth0"
    assert (await machine.exec(["cat", "/proc/sys/kernel/random/boot_id"])).text.strip() == machine.boot_id
    cost = await machine.cost()
    assert cost is not None and cost.cpu_seconds > 1 and cost.memory_bytes is None
    await a_pause_is_told(domain, machine)
    await one_that_runs_goes_on(domain, notes)
    assert (await machine.exec(["true"])).status == 0
    await plugin.destroy(handle, site)
    with pytest.raises(MachineLost):
        await machine.exec(["true"])
    await plugin.destroy(handle, site)
    assert (domain.state, domain.definition) == ("shut off", before)
    assert domain.network.virsh("domstate", f"{domain.name} server").strip() == "shut off"


async def a_pause_is_told(domain: ExistingDomain, machine: Machine) -> None:
    """By the clock inside, which stands meanwhile: nothing else in the guest, or of it afterwards, tells."""
    before, since = await read_states([machine], {}), time.time()
    await asyncio.sleep(1.5)
    before, first = await read_states([machine], {}), before
    assert await pause_detection.explain_stall([machine], first, before, since) is None
    domain.network.virsh("suspend", domain.name)
    await asyncio.sleep(4)  # longer than it takes to ask on a busy host, which is left out
    domain.network.virsh("resume", domain.name)
    after = await read_states([machine], {})
    assert pause_detection.measure_stall(before[0].clock, after[0].clock) > 0
    assert f"{machine.name} stood still for " in str(
        await pause_detection.explain_stall([machine], before, after, since)
    )


async def one_that_runs_goes_on(domain: ExistingDomain, notes: Notes) -> None:
    site = LocalSite()
    assert await wrong(domain, provision="reuse") is None
    refused = await wrong(domain, provision="boot")
    assert refused and "runs, and each boot is to start it" in refused.detail
    with pytest.raises(NotProvisioned, match="each boot is to start it"):
        await plugin.create(order(domain, "boot", 2), site, notes)
    assert len(notes.handles) == 1
    large = await wrong(domain, spec(vcpus=2), provision="reuse")
    assert large and large.detail == "it has 1"
    other = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode()
    stranger = await wrong(domain, provision="reuse", host_key=other)
    assert stranger and "host key" in stranger.detail and stranger.remedy
    handle = await plugin.create(order(domain, "reuse", 2), site, notes)
    assert (await (await plugin.attach(handle, site)).exec(["true"])).status == 0
    await plugin.destroy(handle, site)
    assert domain.state == "running"


@pytest.mark.long
async def test_one_whose_owner_cuts_its_power_is_let_go(domain: ExistingDomain, notes: Notes) -> None:
    domain.network.virsh("start", domain.name)
    handle = await plugin.create(order(domain, "reuse"), LocalSite(), notes)
    domain.network.virsh("destroy", domain.name)
    domain.network.virsh("start", domain.name)
    await plugin.destroy(handle, LocalSite())
    assert domain.state == "running"


@pytest.mark.long
async def test_one_whose_power_is_cut_while_it_boots_is_told_so(
    domain: ExistingDomain, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not what was being done in it at that moment, once the patience with that is over."""
    confine = Borrowing.confine

    async def cut_off(borrowing: Borrowing, handle: Handle, there: Site) -> ControlGroup:
        domain.network.virsh("destroy", domain.name)
        return await confine(borrowing, handle, there)

    monkeypatch.setattr(Borrowing, "confine", cut_off)
    with pytest.raises(NotProvisioned, match="it has shut down while it booted"):
        await plugin.create(order(domain, "boot"), LocalSite(), notes)
    for handle in notes.handles.values():
        await plugin.destroy(handle, LocalSite())
    assert domain.state == "shut off"


@pytest.mark.parametrize(
    ("options", "told", "remedy"),
    [
        ({"domain": "no such"}, "there is no domain 'no such'", "name one of: "),
        ({"domain": "1"}, "there is no domain '1'", "name one of: "),
        ({"uri": "qemu:///system?socket=/nowhere/socket"}, "Failed to connect socket", "virsh --connect qemu"),
        ({"uri": "vz:///system"}, "libvirt: ", "virsh --connect vz"),
    ],
)
async def test_what_cannot_be_had_is_told_before(
    options: dict[str, str], told: str, remedy: str, stays_off: ExistingDomain
) -> None:
    found = await wrong(stays_off, None, **options)
    assert found and told in found.detail and remedy in found.remedy
    assert stays_off.state == "shut off"


async def test_what_is_written_wrong_is_bad_input_as_it_is_of_a_machine_by_ssh(stays_off: ExistingDomain) -> None:
    for option, wrongly in (("key", "/no/such/key"), ("host_key", "ssh-ed25519 nonsense")):
        with pytest.raises(BadInput) as refused:
            await wrong(stays_off, None, **{option: wrongly})
        assert f"`{option}`" in str(refused.value) and refused.value.remedy


async def test_one_that_nothing_tells_the_address_of_is_told_before(stays_off: ExistingDomain, tmp_path: Path) -> None:
    """Though it runs: it has no card."""
    (tmp_path / "lonely.xml").write_text(LONELY)
    stays_off.network.virsh("create", str(tmp_path / "lonely.xml"))
    try:
        found = await wrong(stays_off, provision="reuse", domain="lonely")
        assert found and "nothing tells its address" in found.detail and "qemu-guest-agent" in found.remedy
    finally:
        stays_off.network.virsh("destroy", "lonely")


@pytest.mark.long
async def test_only_a_run_that_bears_our_mark_is_shut_down(
    domain: ExistingDomain, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However libvirt numbers it, and however early what started it was cut short."""
    monkeypatch.setattr(existing_domain, "_ADDRESS", 0)
    monkeypatch.setattr(existing_domain, "_DOWN", 0)
    name, virsh, before = domain.name, domain.network.virsh, domain.definition
    with pytest.raises(NotProvisioned, match="nothing tells its address"):
        await plugin.create(order(domain, "boot"), LocalSite(), notes)
    (handle,) = notes.handles.values()
    assert handle.data["mark"] in virsh("metadata", name, "urn:nearmetal:run", "--live")
    assert domain.definition == before
    virsh("suspend", name)
    with pytest.raises(HostCannot, match=f"{name} still runs") as told:
        await plugin.destroy(handle, LocalSite())
    assert f"virsh --connect {domain.network.uri} destroy {handle.data['uuid']}" in told.value.remedy
    assert domain.state == "running"  # so that it can hear
    virsh("destroy", name)
    virsh("start", "--paused", name)
    with pytest.raises(HostCannot, match="is paused and unmarked") as told:
        await plugin.destroy(handle, LocalSite())
    assert f"destroy {handle.data['uuid']}" in told.value.remedy and domain.state == "paused"
    virsh("resume", name)
    await plugin.destroy(handle, LocalSite())
    assert domain.state == "running"


@pytest.mark.long
async def test_a_study_starts_it_measures_and_shuts_it_down(domain: ExistingDomain, tmp_path: Path) -> None:
    records = await study(tmp_path / "run", STUDY.format(**domain.options))
    assert [record.status for record in records] == [TrialStatus.OK] * 2, [record.reason for record in records]
    assert domain.state == "shut off"


@pytest.mark.long
async def test_a_trial_in_which_somebody_pauses_it_does_not_count(domain: ExistingDomain, tmp_path: Path) -> None:
    virsh, later = domain.network.virsh, asyncio.get_running_loop().call_later

    def pause(event: Event) -> None:
        if isinstance(event, Step) and (event.name, event.state) == ("measure", "begins") and domain.state == "running":
            later(2, virsh, "suspend", domain.name)
            later(4, virsh, "resume", domain.name)

    text = STUDY.format(**domain.options).replace('duration = "1s"', 'duration = "6s"')
    _, records = await mock_run.run(tmp_path / "run", text, pause)
    reasons = {record.trial.treatment["environment"]: record.reason for record in records}
    assert reasons["host"] is None and "stood still for" in str(reasons["web"])
    assert {record.status for record in records} == {TrialStatus.OK, TrialStatus.INVALID}


@pytest.mark.long
async def test_killed_in_the_middle_what_was_started_is_shut_down(domain: ExistingDomain, tmp_path: Path) -> None:
    file = tmp_path / "domain.toml"
    file.write_text(STUDY.format(**domain.options))
    controller = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "nearmetal", "run", str(file), "-o", str(tmp_path / "run")), stdout=subprocess.DEVNULL
    )
    try:
        async with asyncio.timeout(120 * read_patience(os.environ)):
            while domain.state != "running":
                assert controller.returncode is None
                await asyncio.sleep(0.2)
    finally:
        controller.kill()
        await controller.wait()
    cleaned = await clean.clean()
    assert cleaned.left == ()
    assert domain.state == "shut off"
