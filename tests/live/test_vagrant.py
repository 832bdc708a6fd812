"""Real Vagrant with vagrant-libvirt, under TCG, and our image as its box: up, ssh, a measurement, destroy.

What is asked of Vagrant in which case is tests/unit/test_vagrant.py's, by a program that only speaks as it does.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nearmetal.environments.vagrant import plugin
from nearmetal.errors import MachineLost, NotProvisioned
from nearmetal.lab import clean
from nearmetal.lab.changes.ledger import ledgers_folder
from nearmetal.lab.image import Image
from nearmetal.lab.local_site import LocalSite
from nearmetal.model import Handle, MachineSpec, Order, Provision, TrialStatus
from tests.vagrant_place import Vagrant, lacking, vagrant_place

from .conftest import Notes
from .laboratory import study

pytestmark = [pytest.mark.live, pytest.mark.long, pytest.mark.timeout(900)]

STUDY = """
name = "box"
reference = {{ environment = "host" }}
[environments.box]
kind = "vagrant"
folder = "{folder}"
[factors]
environment = ["host", "box"]
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
TWO = """
  config.vm.define "ours"
  config.vm.define "theirs"
"""


@pytest.fixture(scope="module")
def vagrant(guests_network: object, lab_image: Image, request: pytest.FixtureRequest) -> Iterator[Vagrant]:
    if missing := lacking():
        pytest.skip(f"vagrant cannot run here: {missing}: apt-get install vagrant vagrant-libvirt")
    with vagrant_place(request.getfixturevalue("guests_network"), lab_image) as place:
        yield place


@pytest.fixture(autouse=True)
def at_home(vagrant: Vagrant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VAGRANT_HOME", str(vagrant.home / ".vagrant.d"))


def domains(vagrant: Vagrant, folder: Path) -> list[str]:
    """Of the project in a folder."""
    listed = vagrant.network.virsh("list", "--all", "--name").split()
    return sorted(name for name in listed if name.startswith(f"{folder.name}_"))


def order(folder: Path, provision: Provision, machine: str = "default") -> Order:
    return Order(
        name=f"nml{os.getpid()}-v",
        role="server",
        spec=MachineSpec(memory=256 * 2**20),
        options={"folder": str(folder), "machine": machine},
        provision=provision,
        port=None,
        cpus="",
    )


async def test_a_study_brings_the_box_up_measures_and_destroys(vagrant: Vagrant, tmp_path: Path) -> None:
    folder = vagrant.project("study")
    records = await study(tmp_path / "run", STUDY.format(folder=folder))
    assert [record.status for record in records] == [TrialStatus.OK] * 2, [record.reason for record in records]
    by_environment = {record.trial.treatment["environment"]: record for record in records}
    assert by_environment["box"].responses["throughput"].value > 5
    assert domains(vagrant, folder) == []
    assert "not created" in vagrant.run(folder, "status")


async def test_killed_in_the_middle_what_it_brought_up_goes_and_nothing_else(vagrant: Vagrant, tmp_path: Path) -> None:
    """As soon as Vagrant is at work, and when there is a machine. Another one of the same Vagrantfile goes on."""
    folder = vagrant.project("killed", TWO, memory=512)
    vagrant.run(folder, "up", "theirs")
    file = tmp_path / "box.toml"
    file.write_text(STUDY.format(folder=folder).replace("[factors]", 'machine = "ours"\n[factors]'))

    def is_at_work() -> bool:
        return any('"vagrant"' in ledger.read_text() for ledger in ledgers_folder().glob("*.jsonl"))

    def is_there() -> bool:
        return "killed_ours" in domains(vagrant, folder)

    for number, begun in enumerate((is_at_work, is_there)):
        await killed_when(begun, file, tmp_path / f"run{number}")
        assert list(ledgers_folder().glob("*.jsonl"))
        cleaned = await clean.clean()
        assert cleaned.left == ()
        assert domains(vagrant, folder) == ["killed_theirs"]
    assert "running" in vagrant.run(folder, "status", "theirs")
    vagrant.run(folder, "destroy", "--force")


async def killed_when(begun: Callable[[], bool], study: Path, run: Path) -> None:
    arguments = ["run", str(study), "--set", "reference.environment=box", "--set", "factors.environment=['box']"]
    controller = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "nearmetal", *arguments, "-o", str(run)), stdout=subprocess.DEVNULL
    )
    try:
        async with asyncio.timeout(120):
            while not begun():
                assert controller.returncode is None
                await asyncio.sleep(0.2)
        await asyncio.sleep(1)
    finally:
        controller.kill()
        await controller.wait()


async def test_a_machine_that_runs_goes_on_and_one_that_was_off_is_off_again(vagrant: Vagrant, notes: Notes) -> None:
    folder, site = vagrant.project("theirs"), LocalSite()
    vagrant.run(folder, "up")
    before = vagrant.network.virsh("domuuid", "theirs_default")
    for found in ("running", "shut off"):
        handle: Handle = await plugin.create(order(folder, "reuse"), site, notes)
        machine = await plugin.attach(handle, site)
        assert (await machine.exec(["sh", "-c", "cat /proc/self/cgroup; nproc"])).status == 0
        assert machine.interface == "eth0" and not machine.owned
        await plugin.destroy(handle, site)
        with pytest.raises(MachineLost):
            await machine.exec(["true"])
        await plugin.destroy(handle, site)
        assert vagrant.network.virsh("domstate", "theirs_default").strip() == found
        if found == "running":
            vagrant.run(folder, "halt")
    assert vagrant.network.virsh("domuuid", "theirs_default") == before
    vagrant.run(folder, "destroy", "--force")


async def test_what_cannot_be_provisioned_is_told_and_removed(vagrant: Vagrant, notes: Notes) -> None:
    script = '  config.vm.provision "shell", inline: "echo no package >&2; exit 3"\n'
    folder, site = vagrant.project("provisioned", script), LocalSite()
    with pytest.raises(NotProvisioned, match="non-zero exit status"):
        await plugin.create(order(folder, "boot"), site, notes)
    (handle,) = notes.handles.values()
    await plugin.destroy(handle, site)
    assert domains(vagrant, folder) == []


async def test_the_disk_of_a_machine_that_never_came_to_be_is_removed(vagrant: Vagrant, notes: Notes) -> None:
    """As after a kill between the two; vagrant-libvirt brings up nothing over such a disk."""
    impossible = '  config.vm.provider(:libvirt) { |libvirt| libvirt.machine_type = "no such" }\n'
    folder, site = vagrant.project("half", impossible), LocalSite()
    with pytest.raises(NotProvisioned):
        await plugin.create(order(folder, "boot"), site, notes)
    (handle,) = notes.handles.values()
    assert handle.data["identity"] is None and "half_default.img" in vagrant.network.virsh("vol-list", "default")
    await plugin.destroy(handle, site)
    assert "half_default.img" not in vagrant.network.virsh("vol-list", "default")
