"""What a machine may use is changed while it is measured: then what was measured is not of the machine asked for."""

import asyncio
import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import docker
import pytest

from nearmetal import cpu_lists
from nearmetal.lab.changes.ledger import ledgers_folder, outstanding
from nearmetal.lab.image import Image
from nearmetal.model import TrialStatus
from nearmetal.run.events import Step
from nearmetal.store.events import Event
from tests.order import mock_run

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("one_attempt")]

STUDY = """
name = "allotment"
[machine]
memory = "256MiB"
accel = "tcg"
[environments.docker]
kind = "docker"
{options}
[factors]
environment = ["{kind}"]
[design]
blocks = 1
[[workloads]]
name = "web"
kind = "http"
server = "lighttpd"
warmup = "0s"
duration = "{duration}"
timeout = "2s"
"""

ROOT = Path("/sys/fs/cgroup")


def group(controller: str, name: str) -> Path:
    """Of a machine of kind `host`, or of a guest's monitor: made where there is none."""
    folder = ROOT / f"nearmetal-{name}"
    if not (ROOT / "cgroup.controllers").exists():
        folder = ROOT / controller / f"nearmetal-{name}"
        folder.mkdir(exist_ok=True)
    return folder


def slow_down(folder: Path) -> None:
    """To half of a CPU."""
    if (folder / "cpu.max").exists():
        (folder / "cpu.max").write_text("50000 100000")
    else:
        (folder / "cpu.cfs_quota_us").write_text("50000")


def processes(name: str) -> list[int]:
    memberships = Path("/proc").glob("[0-9]*/cgroup")
    found = []
    for file in memberships:
        with contextlib.suppress(OSError):
            if f"/nearmetal-{name}\n" in file.read_text():
                found.append(int(file.parent.name))
    return found


def slow_down_all(server: str) -> None:
    folder = group("cpu", server)
    for pid in processes(server):
        (folder / "cgroup.procs").write_text(str(pid))
    slow_down(folder)


def less_memory(server: str) -> None:
    folder = group("memory", server)
    limit = "memory.max" if (folder / "memory.max").exists() else "memory.limit_in_bytes"
    (folder / limit).write_text(str(100 << 20))


def move(server: str) -> None:
    """All of it, to whatever CPU there is."""
    (group("cpuset", server) / "cpuset.cpus").write_text(cpu_lists.show(os.sched_getaffinity(0)))
    for pid in processes(server):
        for task in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setaffinity(int(task.name), os.sched_getaffinity(0))


async def changed(
    kind: str, folder: Path, change: Callable[[str], None], options: str = "", duration: str = "3s"
) -> str:
    """Why the trial in which the server is changed does not count."""

    def listen(event: Event) -> None:
        if isinstance(event, Step) and (event.name, event.state) == ("measure", "begins"):
            (ledger,) = ledgers_folder().glob("*.jsonl")
            servers = [one for one in outstanding(ledger).handles if one.role == "server"]
            asyncio.get_running_loop().call_later(1, change, servers[0].name)

    _, records = await mock_run.run(folder, STUDY.format(kind=kind, options=options, duration=duration), listen)
    assert {record.status for record in records} == {TrialStatus.INVALID}, [record.reason for record in records]
    return str(records[0].reason)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        pytest.param(slow_down_all, "it may use 0.5 CPUs of their time instead of any", marks=pytest.mark.long),
        (less_memory, "its control group allows it 104857600 bytes of memory instead of 268435456"),
        (move, "is not where it was put: on CPUs"),
    ],
)
async def test_what_a_machine_of_the_hosts_may_use(
    change: Callable[[str], None], why: str, lab_image: Image, tmp_path: Path
) -> None:
    assert why in await changed("host", tmp_path / "run", change)


@pytest.mark.long  # that all is read again, machines of the host's kernel show sooner
@pytest.mark.parametrize(
    ("change", "why"),
    [
        (slow_down_all, "it may use 0.5 CPUs of their time instead of any"),
        (move, "vCPU 0 may run on"),
    ],
)
async def test_what_a_guests_monitor_may_use(
    change: Callable[[str], None], why: str, lab_image: Image, tmp_path: Path
) -> None:
    assert why in await changed("qemu", tmp_path / "run", change)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        pytest.param(
            {"cpu_period": 100_000, "cpu_quota": 50_000},
            "it may use 0.5 CPUs of their time instead of any",
            marks=pytest.mark.long,
        ),
        ({"cpuset_cpus": cpu_lists.show(os.sched_getaffinity(0))}, "it is not where it was put: on CPUs"),
        pytest.param(
            {"mem_limit": 100 << 20, "memswap_limit": 100 << 20},
            "104857600 bytes of memory instead of 268435456",
            marks=pytest.mark.long,
        ),
    ],
)
async def test_what_an_engine_lets_a_container_use(
    change: dict[str, Any], why: str, engine: str, lab_image: Image, tmp_path: Path
) -> None:
    client = docker.APIClient(engine)

    def update(server: str) -> None:
        client.update_container(server, **change)

    assert why in await changed("docker", tmp_path / "run", update, f'engine = "{engine}"')
    client.close()


async def test_a_quota_that_was_taken_away_again_is_told(engine: str, lab_image: Image, tmp_path: Path) -> None:
    """Long before the measurement ends, however slow the engine is: then only its group's counters tell."""
    client = docker.APIClient(engine)

    def update(server: str) -> None:
        client.update_container(server, cpu_period=100_000, cpu_quota=50_000)
        # A few of its periods later.
        asyncio.get_running_loop().call_later(0.5, lambda: client.update_container(server, cpu_quota=-1))

    why = await changed("docker", tmp_path / "run", update, f'engine = "{engine}"', duration="6s")
    assert "it was held to a quota that has been taken away again" in why
    client.close()
