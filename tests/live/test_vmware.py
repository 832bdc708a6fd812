"""Studies of a machine of vSphere's: the API is govmomi's simulator, and the guest is a real sshd in namespaces."""

import asyncio
import json
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from nearmetal.lab import host_lock as lock
from nearmetal.model import TrialRecord, TrialStatus
from nearmetal.store.journal import read_records
from nearmetal.store.run_folder import RunFolder
from tests.order.test_block_process import processes
from tests.vcenter import PASSWORD, PASSWORD_ENV, USER, Vcenter, machine, vcenter
from tests.waiting import until

from .two_hosts import Pair, left_there, take_groups_along

pytestmark = pytest.mark.live

GUEST = "10.112.0.2"
MACHINES = [
    machine("web", cpus=4, nics=["e1000e"], address=GUEST),
    machine("runs", cpus=1, memory=128, running=True, address=GUEST),
    machine("golden", template=True),
]

STUDY = """
name = "vsphere"
reference = { environment = "esx" }
[environments.esx]
kind = "vmware"
server = "SERVER"
user = "USER"
ca_file = "CERTIFICATE"
OPTIONS
[factors]
environment = ["esx"]
[machine]
memory = "128MiB"
[[workloads]]
name = "web"
kind = "http"
workers = 2
warmup = "0.1s"
duration = "0.5s"
[design]
blocks = 1
"""


@dataclass
class Scene:
    pair: Pair
    simulated: Vcenter
    folder: Path
    runs_on: bool = False
    """Whether the machine of the last study is one that is not stopped."""

    def study(self, options: str = 'vm = "web"', text: str = STUDY) -> str:
        self.runs_on = "reuse" in options
        certificate = self.folder / "vcenter.pem"
        certificate.write_text(self.simulated.certificate)
        file = self.folder / "study.toml"
        filled = text.replace("SERVER", self.simulated.address).replace("USER", USER)
        file.write_text(filled.replace("CERTIFICATE", str(certificate)).replace("OPTIONS", options))
        return str(file)

    async def run(self, study: str, kill_after: float | None = None) -> tuple[int, str]:
        command = ("run", study, "-o", str(self.folder / "run"))
        status, _, stderr = await self.pair.nearmetal(*command, kill_after=kill_after)
        assert "Traceback" not in stderr, stderr
        return status, stderr

    @property
    def records(self) -> list[TrialRecord]:
        return list(read_records(RunFolder(self.folder / "run").journal))


@pytest.fixture
def scene(pair: Pair, vcenter_program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """What is there before is there afterwards, whatever a test does."""
    monkeypatch.setenv(PASSWORD_ENV, PASSWORD)
    with vcenter(vcenter_program, MACHINES, clones=GUEST, netns=pair.near) as simulated:
        before = simulated.machines()
        scene = Scene(pair, simulated, tmp_path)
        yield scene
        for _ in range(40):  # its tools fall silent a while after it was stopped
            if simulated.machines() == before:
                break
            time.sleep(0.05)
        assert simulated.machines() == before
    if pair.tokens:
        if not scene.runs_on:
            take_groups_along(pair)
        assert left_there(pair) == []


async def test_a_study_compares_this_host_with_a_machine_of_vspheres(scene: Scene) -> None:
    """It is given what the study asks for, its network card too; this host is the reference, and the client."""
    text = STUDY.replace('{ environment = "esx" }', '{ environment = "host" }').replace('["esx"]', '["host", "esx"]')
    text = text.replace(
        "[machine]", 'nic = { levels = ["vmxnet3", "e1000e"], when = { environment = "esx" } }\n[machine]'
    )
    text = text.replace('{ environment = "host" }', '{ environment = "host", nic = "e1000e" }')
    shapes: set[tuple[int, int, str]] = set()
    seen = asyncio.ensure_future(watch(scene.simulated, shapes))
    status, stderr = await scene.run(scene.study(text=text))
    seen.cancel()
    assert status == 0, stderr
    treatments = {(one.trial.treatment["environment"], one.trial.treatment.get("nic")): one for one in scene.records}
    assert treatments.keys() == {("host", None), ("esx", "vmxnet3"), ("esx", "e1000e")}
    for (environment, _), record in treatments.items():
        assert record.status is TrialStatus.OK, record.reason
        assert record.responses["throughput"].value > 0
        assert record.site == "local" and record.boot is not None and record.boot.how == "boot"
        assert ("cpu_per_event" in record.responses) == (environment == "host"), "what ESXi spends is not known"
    assert shapes == {(1, 128, "vmxnet3"), (1, 128, "e1000e")}
    assert_the_password_is_written_nowhere(scene)


async def watch(simulated: Vcenter, shapes: set[tuple[int, int, str]]) -> None:
    """What the machine is whenever it runs."""
    while True:
        web = simulated.machines()["web"]
        if web["Running"]:
            shapes.add((web["Cpus"], web["Memory"], *web["Nics"]))
        await asyncio.sleep(0.1)


def assert_the_password_is_written_nowhere(scene: Scene) -> None:
    written = [*scene.folder.glob("run/**/*"), *Path(os.environ["NEARMETAL_HOME"]).glob("state/**/*")]
    assert any(file.is_file() for file in written)
    assert [file for file in written if file.is_file() and PASSWORD.encode() in file.read_bytes()] == []


async def test_one_that_runs_as_asked_is_used_and_runs_on(scene: Scene) -> None:
    status, stderr = await scene.run(scene.study('vm = "runs"\nprovision = "reuse"'))
    assert status == 0, stderr
    (record,) = scene.records
    assert record.status is TrialStatus.OK, record.reason
    assert record.boot is not None and record.boot.how == "reuse"


@pytest.mark.long
async def test_clones_come_and_go(scene: Scene) -> None:
    status, stderr = await scene.run(scene.study('template = "golden"'))
    assert status == 0, stderr
    (record,) = scene.records
    assert record.status is TrialStatus.OK, record.reason


@pytest.mark.parametrize(
    "options",
    [
        'vm = "web"',
        pytest.param('template = "golden"', marks=pytest.mark.long),
        pytest.param('vm = "runs"\nprovision = "reuse"', marks=pytest.mark.long),
    ],
)
async def test_killed_in_the_middle_it_is_given_back(scene: Scene, options: str) -> None:
    study, run = scene.study(options, STUDY.replace("blocks = 1", "blocks = 50")), scene.folder / "run"
    before, machines = scene.simulated.machines(), scene.simulated.machines
    moments: list[Any] = [{"kill_after": 0.3}, {"kill_after": 2.5}]
    if "reuse" not in options:  # which changes nothing
        moments.append({"kill_when": lambda: machines() != before})
    for when in moments:
        command = ["resume", str(run)] if (run / "manifest.json").exists() else ["run", study, "-o", str(run)]
        status, _, stderr = await scene.pair.nearmetal(*command, **when)
        assert status == -9, stderr
    status, stdout, stderr = await scene.pair.nearmetal("clean", "--json")
    assert status == 0, stderr
    assert json.loads(stdout)["left"] == []


async def test_without_the_password_clean_says_what_it_takes(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    study = scene.study(text=STUDY.replace("blocks = 1", "blocks = 50"))
    running = asyncio.ensure_future(scene.run(study, kill_after=4))
    await until(lambda: scene.simulated.machines()["web"]["Mark"])
    # The block's process would put it right by itself once its controller is gone.
    blocks = processes("nm-block")
    for block in blocks:
        os.kill(block, signal.SIGSTOP)
    await asyncio.sleep(5)  # its controller is dead by then; what it says on is read until it is, too
    for block in blocks:
        os.kill(block, signal.SIGKILL)
    await running
    assert scene.simulated.machines()["web"]["Mark"]
    monkeypatch.delenv(PASSWORD_ENV)
    _, stdout, _ = await scene.pair.nearmetal("clean", "--json")
    (left,) = json.loads(stdout)["left"]
    assert f"export {PASSWORD_ENV}" in left
    monkeypatch.setenv(PASSWORD_ENV, PASSWORD)
    _, stdout, _ = await scene.pair.nearmetal("clean", "--json")
    assert json.loads(stdout)["left"] == []


@pytest.mark.long
async def test_a_session_that_ends_in_the_middle_is_no_matter(scene: Scene) -> None:
    running = asyncio.ensure_future(scene.run(scene.study()))
    await until_runs(scene.simulated)
    scene.simulated.order(forget=True)
    status, stderr = await running
    assert status == 0, stderr
    assert [one.status for one in scene.records] == [TrialStatus.OK]


async def until_runs(simulated: Vcenter) -> None:
    for _ in range(600):
        if simulated.machines()["web"]["Running"]:
            return
        await asyncio.sleep(0.05)
    pytest.fail("it was never started")


async def test_what_vsphere_does_not_permit_loses_the_trial(scene: Scene) -> None:
    scene.simulated.order(fault="NoPermission", method="PowerOnVM_Task")
    status, stderr = await scene.run(scene.study())
    assert status == 1, stderr
    assert {one.status for one in scene.records} == {TrialStatus.LOST}
    assert all("may not power a machine on" in str(one.reason) for one in scene.records)


async def test_two_studies_at_once_are_refused_on_one_that_runs(scene: Scene) -> None:
    """The other one holds the machine from within, whoever's vCenter it came by."""
    script = f"exec 9<{lock.FOLDER}; flock 9; exec env {lock.HOLDER}=somebody sleep 600"
    scene.pair.far.run("sh", "-c", f"setsid sh -c '{script}' >/dev/null 2>&1 &")
    status, stderr = await scene.run(scene.study('vm = "runs"\nprovision = "reuse"'))
    assert status == 3, stderr
    assert "somebody measures on it" in stderr and not (scene.folder / "run").exists()
    holders = [line.split() for line in scene.pair.far.run("ps", "-eo", "pid,args").splitlines()]
    scene.pair.far.run("kill", *(words[0] for words in holders if words[1:] == ["sleep", "600"]))


@pytest.mark.parametrize(
    ("options", "old", "new", "told"),
    [
        ('vm = "wep"', "", "", "did you mean `web`?"),
        ('vm = "runs"', "", "", 'provision = "restart"'),
        pytest.param(
            'vm = "runs"\nprovision = "reuse"',
            "128MiB",
            "256MiB",
            "128 MiB of memory instead of 256",
            marks=pytest.mark.long,
        ),
        ('vm = "runs"\nprovision = "reuse"\nlogin = "nobody"', "", "", "or log in as root"),
        *(
            pytest.param('vm = "web"', "[machine]", new, told, marks=pytest.mark.long)
            for new, told in (
                ('[machine]\nnic = "rtl8139"', "vSphere has no such model"),
                ('[machine]\ncontention = "cpu"', "leave contention out"),
                ('[link]\ndelay = "1ms"\n[machine]', "leave [link] out"),
                ('[clients]\nenvironment = "qemu"\n[machine]', 'set clients.environment to "host"'),
                ('[clients]\nenvironment = "esx"\n[machine]', 'set clients.environment to "host"'),
            )
        ),
    ],
    ids=["name", "running", "otherwise", "login", "nic", "contention", "link", "clients", "client"],
)
async def test_what_cannot_be_is_told_before(scene: Scene, options: str, old: str, new: str, told: str) -> None:
    study = scene.study(options, STUDY.replace(old, new, 1) if old else STUDY)
    status, stderr = await scene.run(study)
    assert status == 3, stderr
    assert told in stderr
    assert not (scene.folder / "run").exists()
