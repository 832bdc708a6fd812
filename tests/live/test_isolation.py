"""A CPU kept free: of a real guest by its kernel, by moving everybody away, and given back exactly; and for whom."""

import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
import pytest_asyncio

from nearmetal import plugins
from nearmetal.errors import HostCannot
from nearmetal.isolate import active_isolation, isolation_changes
from nearmetal.isolate import host as hosts
from nearmetal.lab.changes.kinds import KINDS
from nearmetal.lab.changes.ledger import Ledger
from nearmetal.lab.cpus.noise import build_listen_command, parse_heard
from nearmetal.lab.image import Image
from nearmetal.lab.lab import Lab
from nearmetal.lab.stage import LabStage
from nearmetal.model import Change, Level, LinkSpec, Machine, Readback
from nearmetal.treatments.isolation import plugin
from tests.conftest import CPUS

from .laboratory import laboratory, machine, spec, study
from .task_placement import same, snapshot

pytestmark = [pytest.mark.live, pytest.mark.alone]

DEFAULT = "/proc/irq/default_smp_affinity"


@pytest_asyncio.fixture
async def lab(lab_image: Image) -> AsyncIterator[Lab]:
    async with laboratory() as made:
        yield made


async def booted(lab: Lab, level: Level) -> LabStage:
    """A guest of two CPUs at this level, and nobody else."""
    shaped = plugin.shape(spec(vcpus=2), level)
    server = await machine(lab, "qemu", shaped, cpus="0-1")
    return LabStage((server,), (), {}, shaped, LinkSpec(), "shared", {server.name: 0}, {server.name: [0, 1]})


async def isolated(lab: Lab, stage: LabStage, level: Level) -> Readback:
    applied = await lab.apply(plugin.changes(stage, level))
    assert applied.refused == ()
    return await plugin.verify(stage, level)


async def ticks(server: Machine) -> int:
    """Of CPU 1's own timer while a program wants that CPU for five seconds."""
    ended = await server.exec(build_listen_command(server.probe, [1], 5.0), timeout=60)
    found = parse_heard(ended.stdout, server.name)[1].ticks
    assert found is not None
    return found


async def movable(server: Machine) -> dict[str, object]:
    ended = await server.exec([server.probe, "bystanders", "list", "--json", "--cpus", "1"])
    found: dict[str, object] = json.loads(ended.stdout)["movable"]
    return found


async def test_a_guest_is_isolated_by_its_kernel_and_by_its_user(lab: Lab) -> None:
    ordinary = await booted(lab, "none")
    (server,) = ordinary.servers
    ticking = await ticks(server)
    assert await movable(server)
    await gives_back(lab, ordinary)
    await stands_and_dies(server)
    for handle in lab.machines():
        await lab.destroy(handle)

    stage = await booted(lab, "kernel+user")
    (server,) = stage.servers
    readback = await isolated(lab, stage, "kernel+user")
    assert readback.ok, readback.reason
    found = readback.values[server.name]
    assert (found["cpu"], found["isolated"], found["nohz_full"]) == ("1", "1", "1")
    assert found["stayed"] == sorted({str(one) for one in found["stayed"]})
    assert await ticks(server) * 50 <= ticking
    await serves_alone(stage)


async def gives_back(lab: Lab, stage: LabStage) -> None:
    """`user`: nobody who may be moved is there; and afterwards everybody is where they were."""
    (server,) = stage.servers
    before = await snapshot(server)
    readback = await isolated(lab, stage, "user")
    assert readback.ok
    assert readback.values[server.name]["stayed"] == [] or readback.warnings
    away = await snapshot(server)
    assert away != before
    assert (before["kernel.timer_migration"], away["kernel.timer_migration"]) == ("1", "0")
    assert away[DEFAULT] != before[DEFAULT]
    assert {one.outcome for one in await lab.undo()} <= {"restored", "already so"}
    same(before, await snapshot(server))


async def stands_and_dies(server: Machine) -> None:
    """What `nearmetal isolate` does to a host, here to a guest; the second time it dies before it is done."""
    before = await snapshot(server)
    path = active_isolation.ledger_path()
    host = await hosts.survey_host(server)
    cpusets = await hosts.read_cpusets(server, server.probe, [1])
    assert "Linux 6.1" in cpusets.unfit and "forgets which CPUs a task asked for" in cpusets.unfit
    wanted = isolation_changes.list_changes(host, hosts.choose_cpus("1", host), cpusets, server.probe, required=False)
    await active_isolation.isolate_cpus(wanted, server, path)
    states = {one.change.kind: one.state for one in await active_isolation.list_active(server, path)}
    assert states["sysctl"] == "holds"
    with pytest.raises(HostCannot, match="isolated already"):
        await active_isolation.isolate_cpus(wanted, server, path)
    assert {one.outcome for one in await active_isolation.release_cpus(server, path)} <= {"restored", "already so"}
    same(before, await snapshot(server))
    await dies(server, path, wanted)
    assert await snapshot(server) != before
    await active_isolation.release_cpus(server, path)
    same(before, await snapshot(server))


async def begun(path: Path, server: Machine) -> Ledger:
    """Of what is changed in a boot of a guest, as if it were this host."""
    ledger = Ledger(path)
    ledger.begin_boot((await server.get("/proc/sys/kernel/random/boot_id")).decode().strip())
    return ledger


async def dies(server: Machine, path: Path, wanted: Sequence[Change]) -> None:
    """Written down and done, and then nothing more: as kill -9 would leave it."""
    ledger = await begun(path, server)
    for change in wanted:
        kind = KINDS[change.kind]
        value = await kind.read(server, change.target)
        ledger.changing(change.model_copy(update={"before": value}))
        await kind.write(server, change.target, change.after)
    ledger.close()  # what it holds stays


async def serves_alone(stage: LabStage) -> None:
    """The web server may run on the isolated CPU, and on no other."""
    (server,) = stage.servers
    workload = plugins.load("workloads", "http")
    served = workload(workload.Parameters.model_validate({"server": "lighttpd", "warmup": "0s"}))
    await served.prepare(stage)
    try:
        (pid,) = (await server.exec(["pgrep", "-x", "lighttpd"])).text.split()
        assert (await server.exec(["taskset", "-pc", pid])).text.rsplit(":", 1)[1].strip() == "1"
    finally:
        await served.finish(stage)


STUDY = """
name = "kept"
[factors]
environment = ["{environment}"]
isolation = ["{level}"]
[machine]
vcpus = 2
accel = "tcg"
[[workloads]]
name = "where"
kind = "command"
argv = ["grep", "Cpus_allowed_list", "/proc/self/status"]
response = "cpu"
better = "higher"
match = ":\\\\s*([0-9]+)$"
[[workloads]]
name = "web"
kind = "http"
warmup = "0s"
duration = "1s"
[design]
blocks = 1
share_boot = true
"""


@pytest.mark.processes  # a block's process is one of those that are moved
@pytest.mark.parametrize(
    ("environment", "level", "own"),
    [
        pytest.param("qemu", "kernel", [0, 1], marks=pytest.mark.long),
        ("host", "user", CPUS[-2:]),
    ],
)
@pytest.mark.skipif(len(CPUS) < 2, reason="of one CPU none can be kept free")
async def test_what_any_workload_measures_runs_on_the_cpu_kept_free(
    lab_image: Image, tmp_path: Path, environment: str, level: str, own: list[int]
) -> None:
    """Of `own`, the machine's CPUs by its own numbers, the last. `host` needs no third for its client."""
    records = await study(tmp_path / "run", STUDY.format(environment=environment, level=level))
    assert [(record.status, record.reason) for record in records] == [("ok", None)] * 2
    for record in records:
        ((_, found),) = record.observers["placement"].items()
        program = "grep" if record.trial.workload == "where" else "lighttpd"
        assert found == {"cpu": own[-1], "programs": [{"program": program, "cpus": str(own[-1])}]}
    (cpu,) = (record.responses["cpu"].value for record in records if record.trial.workload == "where")
    assert cpu == own[-1]
