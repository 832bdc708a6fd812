"""A CPU of a guest set apart by a cpuset partition: control groups of version 2, and a kernel that keeps what tasks
ask for, which the lab's does not. As `nearmetal isolate` does it; the guest has no Python, so what does it runs here.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
import pytest_asyncio

from nearmetal.config import Paths
from nearmetal.errors import NotProvisioned
from nearmetal.isolate import active_isolation, isolation_changes
from nearmetal.isolate import host as hosts
from nearmetal.lab.image import Image
from nearmetal.lab.lab import Lab
from nearmetal.model import Change, Machine, MachineSpec

from . import debian, later_kernel
from .laboratory import laboratory, machine, spec
from .task_placement import same, snapshot
from .test_isolation import begun, dies

pytestmark = pytest.mark.live

GROUP = "/sys/fs/cgroup/nearmetal-isolated"
_MODEL = "Conroe"
"""QEMU 7.2 emulates cmpxchg16b wrongly, which such a kernel uses where it can; this one has none."""

START = """
for cpus; do
    setsid taskset -c "$cpus" sleep 300 </dev/null >/dev/null 2>&1 &
    until grep -q sleep /proc/$!/comm; do :; done
    echo $!
done
"""


_BOOTS = 5


@pytest_asyncio.fixture
async def guest(lab_image: Image) -> AsyncIterator[Machine]:
    try:
        await later_kernel.image(lab_image, Paths.default().cache)
    except debian.CannotBeHad as error:
        pytest.skip(f"cpuset partitions are NOT tried: {error}")
    async with laboratory() as lab:
        wanted = spec(image=later_kernel.NAME, vcpus=2, cpu_model=_MODEL)
        yield await booted(lab, wanted)


async def booted(lab: Lab, wanted: MachineSpec) -> Machine:
    """QEMU 7.2 emulates two CPUs of this kernel so that now and then it panics before it runs any program."""
    for _ in range(_BOOTS - 1):
        try:
            return await machine(lab, "qemu", wanted, cpus="0-1")
        except NotProvisioned as error:
            if "kernel panicked" not in error.what:
                raise
            print(f"again: {error}")
    return await machine(lab, "qemu", wanted, cpus="0-1")


async def start(guest: Machine, *cpus: str) -> list[str]:
    """A program on each of these lists of CPUs: its process id."""
    ended = await guest.exec(["sh", "-c", START, "start", *cpus])
    return ended.text.split()


async def where(guest: Machine, pids: list[str]) -> list[str]:
    ended = await guest.exec(["grep", "-h", "Cpus_allowed_list", *(f"/proc/{pid}/status" for pid in pids)])
    return ended.text.split()[1::2]


async def inherited(guest: Machine) -> str:
    """A program that is pinned by nobody."""
    ended = await guest.exec(["sh", "-c", "setsid sleep 300 </dev/null >/dev/null 2>&1 & echo $!"])
    return ended.text.strip()


async def wanted(guest: Machine) -> list[Change]:
    cpusets = await hosts.read_cpusets(guest, guest.probe, [1])
    assert (cpusets.unfit, cpusets.version) == ("", "second")
    return isolation_changes.list_changes(await hosts.survey_host(guest), [1], cpusets, guest.probe, required=False)


async def state(guest: Machine) -> dict[str, str]:
    handed_down = await guest.get("/sys/fs/cgroup/cgroup.subtree_control")
    return {**await snapshot(guest), "handed down": handed_down.decode()}


@pytest.mark.parametrize(
    "killed_after", [(2,), pytest.param(None, marks=pytest.mark.long)], ids=["a step", "each step"]
)
async def test_a_partition_is_made_and_given_back(guest: Machine, killed_after: Sequence[int] | None) -> None:
    path = active_isolation.ledger_path()
    elsewhere = await start(guest, "0")
    before = await state(guest)
    changes = await wanted(guest)
    await active_isolation.isolate_cpus(changes, guest, path)
    await stands(guest, path, elsewhere)
    same(before, await state(guest))
    await dies(guest, path, changes)
    assert (await guest.exec(["test", "-d", GROUP])).status == 0
    assert {one.outcome for one in await active_isolation.release_cpus(guest, path)} <= {"restored", "already so"}
    same(before, await state(guest))
    for steps in killed_after or range(len(STEPS) + 1):
        await dies_after(guest, path, changes, steps)
        same(before, await state(guest))
    await is_left_alone(guest)


async def stands(guest: Machine, path: Path, elsewhere: list[str]) -> None:
    """Who pins meanwhile keeps that; what is started in the partition runs there, and goes on when it is no more."""
    assert (await guest.get(f"{GROUP}/cpuset.cpus.partition")).strip() == b"isolated"
    there = await active_isolation.held_changes(guest, path)
    assert {one.change.kind: one.state for one in await active_isolation.list_active(guest, path)}["cpuset"] == "holds"
    started = [*elsewhere, await inherited(guest), *await start(guest, "0", "0-1")]
    assert await where(guest, started) == ["0", "0", "0", "0"]
    assert (await guest.exec(["taskset", "-c", "1", "true"])).status == 1
    inside = await guest.exec(
        [*await active_isolation.list_prefix(guest, there, guest.probe), "sh", "-c", "taskset -cp $$; exit 7"]
    )
    assert (inside.status, inside.text.rsplit(":", 1)[1].strip()) == (7, "1")
    (left,) = await start_within(guest, there)
    assert {one.outcome for one in await active_isolation.release_cpus(guest, path)} <= {"restored", "already so"}
    assert await where(guest, [*started, left]) == ["0", "0-1", "0", "0-1", "1"]
    await guest.exec(["kill", left])


async def start_within(guest: Machine, there: tuple[Change, ...]) -> list[str]:
    ended = await guest.exec(
        [*await active_isolation.list_prefix(guest, there, guest.probe), "sh", "-c", START, "start", "1"]
    )
    return ended.text.split()


STEPS = (
    "echo +cpuset >/sys/fs/cgroup/cgroup.subtree_control",
    f"mkdir {GROUP}",
    f"echo 1 >{GROUP}/cpuset.cpus",
)


async def dies_after(guest: Machine, path: Path, changes: Sequence[Change], steps: int) -> None:
    """Written down, and no more done than the first steps of it."""
    change = next(one for one in changes if one.kind == "cpuset")
    with closing(await begun(path, guest)) as ledger:
        ledger.changing(change.model_copy(update={"before": change.after}))
    await guest.exec(["sh", "-ec", "\n".join(STEPS[:steps])])
    assert {one.outcome for one in await active_isolation.release_cpus(guest, path)} == {"restored"}


async def is_left_alone(guest: Machine) -> None:
    """A partition would drive away what was put on that CPU: affinities are used, and that is told."""
    (there,) = await start(guest, "1")
    cpusets = await hosts.read_cpusets(guest, guest.probe, [1])
    assert cpusets.unfit == f"sleep ({there}) was put on CPU 1 alone, and a partition would drive it away"
    assert "by their affinities, not by a cpuset: sleep" in isolation_changes.describe_way(cpusets)
    changes = isolation_changes.list_changes(await hosts.survey_host(guest), [1], cpusets, guest.probe, required=False)
    assert "cpuset" not in {one.kind for one in changes}
