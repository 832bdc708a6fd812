"""A machine of vSphere's is borrowed and given back over a vSphere of paper; killed at each of its steps as well."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from nearmetal.environments import vmware
from nearmetal.environments.vmware import VmwareEnvironment
from nearmetal.errors import HostCannot, NotProvisioned
from nearmetal.lab.borrowed import ssh_guests as behind_ssh
from nearmetal.lab.local_site import LocalSite
from nearmetal.lab.vmware import borrowing
from nearmetal.lab.vmware.account import Account
from nearmetal.lab.vmware.vmware_machine import HardwareSettings, Reconfiguration, VsphereMachine
from nearmetal.lab.vmware.vsphere import Vsphere
from nearmetal.model import EnvironmentSpec, Handle, HostSpec, MachineSpec, Order, Provision, Recorder

FOUND = HardwareSettings(vcpus=4, cores=1, memory=2048, nic="e1000e")
SPEC = MachineSpec(vcpus=2, memory=2**30, nic="vmxnet3")
OPTIONS = {"server": "vcenter.example.org", "user": "me"}


class Killed(BaseException):
    """The controller was."""


class PaperVsphere(Vsphere):
    """One that keeps its machines here. It can be told to kill its caller before or after its n-th deed."""

    def __init__(self, *machines: VsphereMachine) -> None:
        self.machines = {one.reference: one for one in machines}
        self.deeds: list[str] = []
        self.kill_before: int | None = None
        self.kill_after: int | None = None

    def _do(self, deed: str, reference: str, **looks: Any) -> None:
        def change() -> None:
            now = self.machines[reference]
            version = str(int(now.version) + 1)
            self.machines[reference] = now.model_copy(update={"version": version} | looks)

        self.note(deed, change)

    def note(self, deed: str, do: Callable[[], None] = lambda: None) -> None:
        if len(self.deeds) == self.kill_before:
            raise Killed
        self.deeds.append(deed)
        do()
        if len(self.deeds) - 1 == self.kill_after:
            raise Killed

    async def can_clone(self) -> bool:
        return True

    async def names(self) -> Mapping[str, str]:
        return {one.reference: one.name for one in self.machines.values()}

    async def place(self, reference: str) -> str:
        return f"Datacenter/{reference}/{self.machines[reference].name}"

    async def seen(self, reference: str) -> VsphereMachine | None:
        return self.machines.get(reference)

    async def denied(self, reference: str, privileges: Sequence[str]) -> list[str]:
        return []

    async def clone(self, template: str, name: str, change: Reconfiguration) -> str:
        made = self.machines[template].model_copy(
            update={"reference": "vm-clone", "uuid": "clone", "name": name, "is_template": False, "mark": change.mark}
        )
        if len(self.deeds) == self.kill_before:
            raise Killed
        self.machines["vm-clone"] = made
        self._do("clone", "vm-clone")
        return "vm-clone"

    async def configure(self, machine: VsphereMachine, change: Reconfiguration) -> None:
        now = self.machines[machine.reference]
        assert now.version == machine.version, "somebody changed it meanwhile"
        values = change.model_dump(exclude_none=True, exclude={"mark"}, exclude_defaults=True)
        assert not values or now.power == "off", "a machine that runs cannot become another"
        hardware = now.hardware.model_copy(update=values)
        mark = now.mark if change.mark is None else change.mark
        self._do("configure", machine.reference, hardware=hardware, mark=mark)

    async def start(self, reference: str) -> None:
        assert self.machines[reference].power == "off"
        self._do("start", reference, power="on", addresses=("10.0.0.7",))

    async def stop(self, reference: str) -> None:
        assert self.machines[reference].power == "on"
        self._do("stop", reference, power="off", addresses=())

    async def remove(self, reference: str) -> None:
        assert self.machines[reference].power == "off"
        self._do("remove", reference)
        del self.machines[reference]

    async def settled(self, reference: str) -> None: ...


class Notes:
    def __init__(self) -> None:
        self.last: Handle | None = None

    def creating(self, handle: Handle) -> None:
        self.last = handle


def machine(**looks: Any) -> VsphereMachine:
    known = {
        "reference": "vm-1",
        "uuid": "u",
        "name": "web",
        "version": "1",
        "hardware": FOUND,
        "cards": 1,
        "power": "off",
    }
    return VsphereMachine.model_validate(known | looks)


def order(provision: Provision, **more: Any) -> Order:
    options = OPTIONS | (more or {"vm": "web"})
    return Order(
        name="nm-1", role="server", spec=SPEC, options=options, provision=provision, port=None, cpus="", shared=None
    )


def environment(vsphere: PaperVsphere, monkeypatch: pytest.MonkeyPatch) -> VmwareEnvironment:
    """With guests that are entered and left without SSH."""

    async def enter(self: Any, handle: Handle, order: Order, way: HostSpec, ledger: Recorder) -> Handle:
        assert way.ssh == "root@10.0.0.7:22"
        return handle

    async def leave(self: Any, handle: Handle) -> None:
        vsphere.note("leave")

    monkeypatch.setattr(behind_ssh.BehindSsh, "enter", enter)
    monkeypatch.setattr(behind_ssh.BehindSsh, "leave", leave)
    monkeypatch.setattr(vmware, "Vsphere", lambda account: vsphere)
    return VmwareEnvironment()


CASES: list[tuple[Provision, dict[str, str], dict[str, Any], list[str]]] = [
    ("boot", {"vm": "web"}, {}, ["configure", "configure", "start", "leave", "stop", "configure", "configure"]),
    (
        "restart",
        {"vm": "web"},
        {"power": "on", "addresses": ("10.0.0.7",)},
        ["configure", "stop", "configure", "start", "leave", "stop", "configure", "start", "configure"],
    ),
    ("boot", {"template": "web"}, {"is_template": True}, ["clone", "configure", "start", "stop", "remove"]),
]


def alike(machines: Mapping[str, VsphereMachine]) -> dict[str, VsphereMachine]:
    return {key: one.model_copy(update={"version": ""}) for key, one in machines.items()}


@pytest.mark.parametrize(("provision", "source", "looks", "deeds"), CASES, ids=["boot", "restart", "clone"])
async def test_it_is_as_before_when_it_is_given_back(
    monkeypatch: pytest.MonkeyPatch,
    provision: Provision,
    source: dict[str, str],
    looks: dict[str, Any],
    deeds: list[str],
) -> None:
    vsphere = PaperVsphere(machine(**looks))
    before = alike(vsphere.machines)
    made = environment(vsphere, monkeypatch)
    handle = await made.create(order(provision, **source), LocalSite(), Notes())
    borrowed = vsphere.machines["vm-clone" if "template" in source else "vm-1"]
    assert borrowed.hardware == HardwareSettings(vcpus=2, cores=1, memory=1024, nic="vmxnet3")
    assert borrowed.power == "on" and borrowed.mark.startswith("nm-1 (")
    await made.destroy(handle, LocalSite())
    assert alike(vsphere.machines) == before
    assert vsphere.deeds == deeds
    await made.destroy(handle, LocalSite())
    assert vsphere.deeds == deeds, "twice is no more than once"


@pytest.mark.parametrize("when", ["kill_before", "kill_after"])
@pytest.mark.parametrize(("provision", "source", "looks", "deeds"), CASES, ids=["boot", "restart", "clone"])
async def test_killed_at_any_step_it_is_given_back_by_another_process(
    monkeypatch: pytest.MonkeyPatch,
    provision: Provision,
    source: dict[str, str],
    looks: dict[str, Any],
    deeds: list[str],
    when: str,
) -> None:
    for step in range(len(deeds)):
        vsphere = PaperVsphere(machine(**looks))
        before = alike(vsphere.machines)
        notes = Notes()
        setattr(vsphere, when, step)
        made = environment(vsphere, monkeypatch)
        with pytest.raises(Killed):
            await made.destroy(await made.create(order(provision, **source), LocalSite(), notes), LocalSite())
        vsphere.kill_before = vsphere.kill_after = None
        assert notes.last is not None
        handle = Handle.model_validate_json(notes.last.model_dump_json())
        await environment(vsphere, monkeypatch).destroy(handle, LocalSite())
        assert alike(vsphere.machines) == before, f"{when} {step}"


@pytest.mark.parametrize("provision", ["reuse", "restart"])
async def test_one_that_is_as_asked_is_used_and_runs_on(monkeypatch: pytest.MonkeyPatch, provision: Provision) -> None:
    hardware = HardwareSettings(vcpus=2, cores=1, memory=1024, nic="vmxnet3")
    vsphere = PaperVsphere(machine(power="on", hardware=hardware, addresses=("10.0.0.7",)))
    before = dict(vsphere.machines)
    made = environment(vsphere, monkeypatch)
    handle = await made.create(order(provision), LocalSite(), Notes())
    await made.destroy(handle, LocalSite())
    assert vsphere.deeds == ["leave"]
    assert vsphere.machines == before


async def test_what_somebody_else_changes_meanwhile_is_told_once_and_left(monkeypatch: pytest.MonkeyPatch) -> None:
    vsphere = PaperVsphere(machine())
    made = environment(vsphere, monkeypatch)
    handle = await made.create(order("boot"), LocalSite(), Notes())
    theirs = vsphere.machines["vm-1"].hardware.model_copy(update={"memory": 4096})
    vsphere.machines["vm-1"] = vsphere.machines["vm-1"].model_copy(update={"hardware": theirs})
    with pytest.raises(HostCannot, match="memory is 4096 now"):
        await made.destroy(handle, LocalSite())
    assert vsphere.machines["vm-1"].hardware == FOUND.model_copy(update={"memory": 4096})
    await made.destroy(handle, LocalSite())


async def test_a_second_loan_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    vsphere = PaperVsphere(machine())
    made = environment(vsphere, monkeypatch)
    handle = await made.create(order("boot"), LocalSite(), Notes())
    notes = Notes()
    with pytest.raises(NotProvisioned, match="has borrowed it"):
        await environment(vsphere, monkeypatch).create(order("boot"), LocalSite(), notes)
    assert notes.last is None
    await made.destroy(handle, LocalSite())


async def test_one_that_went_away_owes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    vsphere = PaperVsphere(machine())
    made = environment(vsphere, monkeypatch)
    handle = await made.create(order("boot"), LocalSite(), Notes())
    del vsphere.machines["vm-1"]
    await made.destroy(handle, LocalSite())
    vsphere.machines["vm-1"] = machine(uuid="another", mark="nm-1")
    await made.destroy(handle, LocalSite())
    assert vsphere.machines["vm-1"].mark == "nm-1"


async def test_a_machine_of_the_clones_name_that_is_not_ours_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    vsphere = PaperVsphere(machine(is_template=True))
    vsphere.kill_before = 0
    made, notes = environment(vsphere, monkeypatch), Notes()
    with pytest.raises(Killed):
        await made.create(order("boot", template="web"), LocalSite(), notes)
    assert notes.last is not None
    vsphere.kill_before = None
    vsphere.machines["vm-2"] = machine(reference="vm-2", uuid="theirs", name="nm-1", power="on", mark="nm-1 (another)")
    await made.destroy(notes.last, LocalSite())
    assert vsphere.deeds == [] and "vm-2" in vsphere.machines


def test_a_password_is_known_to_no_program_that_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_TESTS", "secret")
    account = Account("vcenter", "me", "OF_TESTS", None, None, insecure=False)
    assert (account.password(), account.password()) == ("secret", "secret")
    assert "OF_TESTS" not in os.environ
    monkeypatch.setenv("OF_TESTS", "another")
    assert account.password() == "another"


async def test_without_pyvmomi_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """To whoever cleans up, too, who may be in another environment of Python's."""
    monkeypatch.setattr(vmware, "find_spec", lambda name: None)
    made = VmwareEnvironment()
    spec = EnvironmentSpec.model_validate({"kind": "vmware", "vm": "web", **OPTIONS})
    (said, *_) = [one for one in await made.check(spec, SPEC, LocalSite()) if not one.ok]
    assert said.remedy.endswith(" -m pip install pyvmomi")
    with pytest.raises(HostCannot, match="not installed"):
        await made.create(order("boot"), LocalSite(), Notes())


async def test_a_pyvmomi_that_is_broken_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyVmomi").mkdir()
    (tmp_path / "pyVmomi" / "__init__.py").write_text("from nowhere_at_all import vim\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "pyVmomi", raising=False)
    made = VmwareEnvironment()
    spec = EnvironmentSpec.model_validate({"kind": "vmware", "vm": "web", **OPTIONS})
    (said, *_) = [one for one in await made.check(spec, SPEC, LocalSite()) if not one.ok]
    assert said.what == "pyVmomi" and "cannot be imported (ModuleNotFoundError: No module" in said.detail
    assert said.remedy.endswith(" -m pip install --force-reinstall pyvmomi")
    with pytest.raises(HostCannot, match="cannot be imported"):
        await made.create(order("boot"), LocalSite(), Notes())


# ── Which one it is ───────────────────────────────────────────────────────────────────────────────────────────────


async def test_none_or_two_of_a_name() -> None:
    vsphere = PaperVsphere(machine(), machine(reference="vm-2"), machine(reference="vm-3", name="mail"))
    with pytest.raises(HostCannot, match="no machine that you may see is called 'wep'") as refused:
        await borrowing.find_machine(vsphere, "wep")
    assert refused.value.remedy == "did you mean `web`?"
    with pytest.raises(HostCannot, match="2 machines are called 'web': Datacenter/vm-1/web and Datacenter/vm-2/web"):
        await borrowing.find_machine(vsphere, "web")
    assert (await borrowing.find_machine(vsphere, "vm-2/web")).reference == "vm-2"
    assert (await borrowing.find_machine(vsphere, "mail")).reference == "vm-3"


async def test_one_without_an_address_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(borrowing, "ADDRESS", 0.0)
    vsphere = PaperVsphere(machine(power="on"))
    with pytest.raises(HostCannot, match="told no address") as refused:
        await borrowing.wait_address(vsphere, vsphere.machines["vm-1"])
    assert 'address = "192.168.7.2"' in refused.value.remedy
    vsphere.machines["vm-1"] = machine(power="off")
    with pytest.raises(HostCannot, match="went off"):
        await borrowing.wait_address(vsphere, vsphere.machines["vm-1"])
