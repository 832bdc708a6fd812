"""`nearmetal isolate` as a command in a guest that has what this host may lack: control groups of version 2, a kernel
with nohz_full, and GRUB. The guest sees this project by a share; its image is one of the test's own, with Python.
"""

import json
import sys
from pathlib import Path

import pytest
import pytest_asyncio

from nearmetal.config import Paths
from nearmetal.lab import image as images
from nearmetal.lab.image import Image
from nearmetal.model import Completed, Machine
from nearmetal.treatments.isolation import kernel_arguments

from .laboratory import laboratory, machine, spec
from .task_placement import same, snapshot

pytestmark = [pytest.mark.live, pytest.mark.long, pytest.mark.alone]

PROJECT = Path(__file__).parents[2]
LIBRARIES = next(Path(folder) for folder in sys.path if folder.endswith("site-packages"))
DROP_IN = "/etc/default/grub.d/99-nearmetal.cfg"
ENVIRONMENT = {
    "PYTHONPATH": f"{PROJECT / 'src'}:{LIBRARIES}",
    "PYTHONDONTWRITEBYTECODE": "1",
    "NEARMETAL_HOME": "/tmp/nearmetal",
    "NEARMETAL_PROBE": "/run/nearmetal/nearmetal-probe",
}
LIMIT = 300.0
"""Seconds: an emulated guest takes half a minute to import all."""

GRUB = "mkdir -p /boot/grub && echo it >/boot/vmlinuz-6.1.0-test && update-grub"
"""The lab boots its guests without; a kernel's name is all that it writes down."""

# As far as everybody is about to be moved, or just was.
KILLED = """
python3 -P -m nearmetal isolate on & on=$!
until grep -q bystanders /tmp/nearmetal/state/isolation/host.jsonl; do sleep 0.01; done 2>/dev/null
kill -9 $on
"""


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def python_image() -> Image:
    recipe = images.Recipe(name="isolation", packages=("grub2-common", "python3"))
    return await images.build(recipe, Paths.default().cache, print)


async def nearmetal(guest: Machine, *words: str) -> Completed:
    ended = await guest.exec(["python3", "-P", "-m", "nearmetal", *words], env=ENVIRONMENT, timeout=LIMIT)
    assert b"Traceback" not in ended.stderr
    return ended


@pytest.mark.skipif(not LIBRARIES.is_relative_to(PROJECT), reason="the libraries lie outside the project's folder")
async def test_it_isolates_is_killed_and_gives_back(python_image: Image) -> None:
    wanted = spec(
        image="isolation",
        vcpus=2,
        memory="1GiB",
        share=f"{PROJECT}:{PROJECT}",
        kernel_arguments=list(kernel_arguments(1)),
    )
    async with laboratory() as lab:
        guest = await machine(lab, "qemu", wanted, cpus="0-1")
        assert (await guest.exec(["test", "-f", "/sys/fs/cgroup/cgroup.controllers"])).status == 0
        await guest.exec(["sh", "-c", GRUB], timeout=LIMIT)
        before = await snapshot(guest)
        await isolates(guest)
        await gives_back(guest)
        same(before, await snapshot(guest))
        killed = await guest.exec(["sh", "-c", KILLED], env=ENVIRONMENT, timeout=LIMIT)
        assert killed.status == 0, killed.stderr
        assert json.loads((await nearmetal(guest, "clean", "--json")).stdout)["left"] == []
        same(before, await snapshot(guest))


async def isolates(guest: Machine) -> None:
    ended = await nearmetal(guest, "isolate", "on", "--boot", "--json")
    told = json.loads(ended.stdout)
    assert (ended.status, told["cpus"], told["reboot"]) == (1 if told["warnings"] else 0, "1", True), ended.stderr
    assert b"isolcpus=1 nohz_full=1 rcu_nocbs=1" in await guest.get("/boot/grub/grub.cfg")
    status = json.loads((await nearmetal(guest, "isolate", "status", "--json")).stdout)
    assert status["kernel"] == {"isolated": "1", "nohz_full": "1"}
    assert {one["kind"]: one["state"] for one in status["changes"]}["boot"] == "holds"


async def gives_back(guest: Machine) -> None:
    ended = await nearmetal(guest, "isolate", "off", "--json")
    told = json.loads(ended.stdout)
    assert (ended.status, told["left"], told["failed"]) == (0, [], [])
    assert (await guest.exec(["test", "-e", DROP_IN])).status == 1
    assert b"isolcpus" not in await guest.get("/boot/grub/grub.cfg")
