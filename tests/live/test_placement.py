"""Where servers and clients live, on which network cards and processors: whole studies on real machines."""

import os
from pathlib import Path

import pytest

from nearmetal.errors import NotProvisioned
from nearmetal.lab.image import Image
from nearmetal.model import TrialRecord
from nearmetal.run import verify

from .laboratory import laboratory, machine, spec, study
from .task_placement import read_placement

pytestmark = pytest.mark.live

LAST_CPU = max(os.sched_getaffinity(0))

STUDY = """
name = "placement"
[factors]
environment = [{server}]
{factors}
[machine]
memory = "256MiB"
accel = "tcg"
{machine}
[clients]
{clients}
[[workloads]]
name = "page"
kind = "http"
requests = 30
workers = 2
warmup = "0s"
timeout = "30s"
[design]
blocks = 1
"""


async def ran(folder: Path, server: str, clients: str = "", factors: str = "", machine: str = "") -> list[TrialRecord]:
    text = STUDY.format(server=f'"{server}"', clients=clients, factors=factors, machine=machine)
    return await study(folder, text)


def environments(record: TrialRecord, role: str) -> list[str]:
    return [one.environment for one in record.machines if one.role == role]


def requests(record: TrialRecord) -> tuple[float, ...]:
    """Transactions of each client."""
    assert record.status == "ok", record.reason
    return record.responses["transactions"].by_client or (record.responses["transactions"].value,)


@pytest.fixture
def docker(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", engine)


# ── Who is virtual ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("server", ["host", "docker"])
async def test_containers_load_a_server(tmp_path: Path, lab_image: Image, docker: None, server: str) -> None:
    """Both virtual, and clients virtual with a physical server."""
    (record,) = await ran(tmp_path / "run", server, 'environment = "docker"\ncount = 2')
    assert requests(record) == (30, 30)
    assert environments(record, "server") == [server]
    assert environments(record, "client") == ["docker"] * 2


@pytest.mark.long
@pytest.mark.parametrize("server", ["host", "qemu"])
async def test_guests_load_a_server(tmp_path: Path, lab_image: Image, server: str) -> None:
    (record,) = await ran(tmp_path / "run", server, 'environment = "qemu"\ncount = 2')
    assert requests(record) == (30, 30)
    assert environments(record, "client") == ["qemu"] * 2


async def test_five_clients_at_once(tmp_path: Path, lab_image: Image) -> None:
    (record,) = await ran(tmp_path / "run", "host", "count = 5")
    assert requests(record) == (30,) * 5
    assert len(environments(record, "server")) == 1


async def test_pairs_have_a_server_each(tmp_path: Path, lab_image: Image, docker: None) -> None:
    (record,) = await ran(tmp_path / "run", "docker", 'count = 3\nconnect = "pairs"')
    assert requests(record) == (30,) * 3
    assert environments(record, "server") == ["docker"] * 3
    assert environments(record, "client") == ["host"] * 3


# ── Network cards ─────────────────────────────────────────────────────────────────────────────────────────────────

CARDS = [
    "virtio-net",
    *(pytest.param(nic, marks=pytest.mark.long) for nic in ("e1000", "e1000e", "rtl8139", "vmxnet3")),
]


@pytest.mark.parametrize("nic", CARDS)
async def test_a_guest_answers_over_each_network_card(tmp_path: Path, lab_image: Image, nic: str) -> None:
    """And its vCPU is on the processor that was named."""
    (record,) = await ran(tmp_path / "run", "qemu", machine=f'nic = "{nic}"\noffload = false\ncpus = "{LAST_CPU}"')
    assert requests(record) == (30,)
    assert record.readback["resources"]["nic"] == verify.DRIVERS[nic]
    (server,) = (one for one in record.readback["cpus"].values() if "vcpus" in one)
    assert server == {"asked": str(LAST_CPU), "cpus": str(LAST_CPU), "vcpus": {"0": str(LAST_CPU)}}


@pytest.mark.long
async def test_a_card_that_the_guests_kernel_does_not_know_is_told(lab_image: Image) -> None:
    async with laboratory() as lab:
        with pytest.raises(NotProvisioned) as caught:
            await machine(lab, "qemu", spec(nic="e1000", kernel_arguments=["module_blacklist=e1000"]))
    assert "boot failed: cannot load the kernel module /" in caught.value.what
    assert "e1000" in caught.value.what


# ── Processors ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("server", ["host", "docker"])
async def test_a_machine_is_on_the_processors_that_were_named(
    tmp_path: Path, lab_image: Image, docker: None, server: str
) -> None:
    (record,) = await ran(tmp_path / "run", server, machine=f'cpus = "{LAST_CPU}"')
    assert requests(record) == (30,)
    told = [one for one in record.readback["cpus"].values() if one["asked"] == str(LAST_CPU)]
    assert told
    assert all(one["cpus"] == str(LAST_CPU) for one in told)


@pytest.mark.long
async def test_a_vcpu_that_was_moved_is_found_out(lab_image: Image) -> None:
    if LAST_CPU == 0:
        pytest.skip("a vCPU can only be moved where there are two processors")
    cpuset = f"0,{LAST_CPU}"
    async with laboratory() as lab:
        await machine(lab, "qemu", spec(vcpus=2), cpus=cpuset)
        (handle,) = lab.machines()
        site = await lab.site("local")
        found = await read_placement(handle, site, cpuset)
        assert found is not None and found.ok, found
        (first,) = vcpu_threads(handle.name)
        os.sched_setaffinity(first, {LAST_CPU})
        found = await read_placement(handle, site, cpuset)
        assert found is not None and not found.ok
        assert f"vCPU 0 may run on {LAST_CPU} instead of 0" in found.reason


def vcpu_threads(name: str) -> list[int]:
    """Threads of the first vCPU of the guest of this name."""
    found = []
    for task in Path("/proc").glob("[0-9]*/task/[0-9]*"):
        try:
            if (task / "comm").read_text().startswith("CPU 0/") and name in (task / "cmdline").read_text():
                found.append(int(task.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found
