"""Resources of real machines: quotas, CPU models and disks come about, and what did not is found out."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from nearmetal.environments.qemu import QemuEnvironment
from nearmetal.lab.image import Image
from nearmetal.lab.lab import Lab
from nearmetal.lab.local_site import LocalSite
from nearmetal.model import EnvironmentSpec, Machine, MachineSpec, Readback
from nearmetal.run import verify

from . import laboratory

pytestmark = pytest.mark.live

UNUSUAL = {
    "quota": "50%",
    "cpu_model": "Nehalem",
    "disk": "ide",
    "disk_format": "raw",
    "disk_cache": "directsync",
}


HELD = 64 * 2**20


async def read_back(machine: Machine, spec: MachineSpec, lab: Lab) -> Readback:
    told = next(handle for handle in lab.machines() if handle.name == machine.name)
    ended = await machine.exec([machine.probe, "facts", "--json"])
    facts: dict[str, Any] = json.loads(ended.stdout)
    return verify.verify_resources(spec, facts, told)


def group(machine: Machine) -> Path:
    """Where this host's kernel keeps the machine's quota."""
    root, name = Path("/sys/fs/cgroup"), f"nearmetal-{machine.name}"
    return root / name if (root / "cgroup.controllers").exists() else root / "cpu" / name


async def test_the_quota_of_a_machine_on_the_hosts_kernel_is_seen_inside(lab_image: Image) -> None:
    spec = laboratory.spec(quota="25%")
    async with laboratory.laboratory() as lab:
        machine = await laboratory.machine(lab, "host", spec)
        readback = await read_back(machine, spec, lab)
        assert readback.ok, readback.reason
        assert readback.values["quota"] == 0.25
        burnt = await machine.exec(["timeout", "2", "sh", "-c", "while :; do :; done"])
        assert burnt.status == 124
        cost = await machine.cost()
        assert cost is not None and cost.cpu_seconds < 0.25 * 2 * 1.2
        file = group(machine)
        if (file / "cpu.max").exists():
            (file / "cpu.max").write_text("max 100000")
        else:
            (file / "cpu.cfs_quota_us").write_text("-1")
        assert "any of their time instead of 0.25 CPUs" in (await read_back(machine, spec, lab)).reason


@pytest.mark.parametrize("kind", ["host", "docker", pytest.param("qemu", marks=pytest.mark.long)])
async def test_memory_is_measured_alike_whatever_the_machine_is(
    kind: str, lab_image: Image, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program's own memory counts once, what it reads through the page cache of a machine's host does not."""
    monkeypatch.setenv("DOCKER_HOST", engine)
    async with laboratory.laboratory() as lab:
        machine = await laboratory.machine(lab, kind, laboratory.spec())
        held = await _find_memory(machine)
        assert held > 0
        program = f"$held = str_repeat('x', {HELD}); echo strlen($held); sleep(600);"
        running = await machine.spawn(["php", "-r", program])
        for _ in range(600):
            if await _find_memory(machine) - held >= HELD:
                break
            await asyncio.sleep(0.1)
        grown = await _find_memory(machine) - held
        await running.stop()
        assert HELD <= grown < HELD * 1.5
        if kind != "qemu":  # a guest's monitor keeps what its guest has touched
            assert await _is_back(machine, held)
            read = "dd if=/dev/zero of=/var/tmp/file bs=1M count=64 && cat /var/tmp/file >/dev/null"
            assert (await machine.exec(["sh", "-c", read])).status == 0
            assert await _is_back(machine, held)


async def _is_back(machine: Machine, held: int) -> bool:
    """Within a moment: the kernel frees what a program had after it has ended."""
    for _ in range(100):
        if abs(await _find_memory(machine) - held) < HELD / 8:
            return True
        await asyncio.sleep(0.1)
    return False


async def _find_memory(machine: Machine) -> int:
    cost = await machine.cost()
    assert cost is not None and cost.memory_bytes is not None
    return cost.memory_bytes


async def test_a_guest_is_made_of_what_was_ordered(lab_image: Image) -> None:
    spec = laboratory.spec(**UNUSUAL)
    async with laboratory.laboratory() as lab:
        machine = await laboratory.machine(lab, "qemu", spec)
        readback = await read_back(machine, spec, lab)
        assert readback.ok, readback.reason
        assert {key: readback.values[key] for key in ("cpu_model", "disk", "disk_format", "disk_cache", "quota")} == {
            "cpu_model": "Nehalem",
            "disk": "sd",
            "disk_format": "raw",
            "disk_cache": "directsync",
            "quota": 0.5,
        }
        said = (await machine.exec(["grep", "-m1", "model name", "/proc/cpuinfo"])).text
        assert "Nehalem" in said
        written = (await machine.exec(["cat", "/sys/block/sda/queue/write_cache"])).text
        assert written.strip() == "write through"
        usual = laboratory.spec()
        found = await read_back(machine, usual, lab)
        for problem in ("CPU model is Nehalem", "disk is sd", "format is raw", "mode is directsync", "0.5 CPUs"):
            assert problem in found.reason


@pytest.mark.parametrize(
    ("settings", "what", "remedy"),
    [
        ({"vcpus": 4096}, "4096 CPUs", "at most"),
        ({"cpu_model": "Haswel"}, "CPU model Haswel", "'Haswell'"),
        ({"cpu_model": "host"}, "CPU model host", "'max'"),
    ],
)
async def test_what_cannot_be_is_told_before_anything_is_made(
    lab_image: Image, settings: dict[str, Any], what: str, remedy: str
) -> None:
    findings = await QemuEnvironment().check(EnvironmentSpec(kind="qemu"), laboratory.spec(**settings), LocalSite())
    (bad,) = [finding for finding in findings if not finding.ok]
    assert bad.what == what and remedy in bad.remedy


async def test_a_raw_disk_is_not_restored(lab_image: Image) -> None:
    asked = EnvironmentSpec(kind="qemu", provision="restore")
    findings = await QemuEnvironment().check(asked, laboratory.spec(disk_format="raw"), LocalSite())
    (bad,) = [finding for finding in findings if not finding.ok]
    assert 'disk_format = "qcow2"' in bad.remedy
