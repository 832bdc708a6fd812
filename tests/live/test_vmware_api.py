"""vSphere's API as we use it, against govmomi's simulator: what there is, what is done, and each way to be refused."""

import signal
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nearmetal.environments import vmware
from nearmetal.environments.vmware import Options, VmwareEnvironment
from nearmetal.errors import HostCannot, MachineLost, NearmetalError, ToolFailed, Unreachable
from nearmetal.lab.local_site import LocalSite
from nearmetal.lab.vmware import borrowing
from nearmetal.lab.vmware.account import fingerprint
from nearmetal.lab.vmware.vmware_machine import Reconfiguration, VsphereMachine
from nearmetal.lab.vmware.vsphere import Vsphere
from nearmetal.model import EnvironmentSpec, Finding, HostSpec, MachineSpec
from tests.vcenter import PASSWORD, PASSWORD_ENV, Vcenter, machine, vcenter

pytestmark = pytest.mark.live

MACHINES = [
    machine("web", nics=["e1000e"], address="192.0.2.9"),
    machine("twin"),
    machine("twin"),
    machine("running", running=True, address="192.0.2.8"),
    machine("golden", template=True, cpus=1),
    machine("bare", tools=False),
    machine("two cards", nics=["vmxnet3", "e1000"]),
]
SPEC = MachineSpec(vcpus=2, memory=2**30)


@pytest.fixture(autouse=True)
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSWORD_ENV, PASSWORD)


@pytest.fixture
def there(vcenter_program: Path) -> Iterator[Vcenter]:
    with vcenter(vcenter_program, MACHINES, clones="192.0.2.7") as made:
        yield made


@pytest.fixture
def vsphere(there: Vcenter, tmp_path: Path) -> Vsphere:
    return Vsphere(options(there, tmp_path).account)


def options(there: Vcenter, folder: Path, **more: Any) -> Options:
    given = {key: value for key, value in (there.options(folder) | {"vm": "web"} | more).items() if value is not None}
    del given["kind"]
    return Options.model_validate(given)


async def must_see(vsphere: Vsphere, name: str) -> VsphereMachine:
    seen = await vsphere.seen((await borrowing.find_machine(vsphere, name)).reference)
    assert seen is not None
    return seen


# ── What there is, and what is done ───────────────────────────────────────────────────────────────────────────────


async def test_what_a_machine_is(vsphere: Vsphere) -> None:
    seen = await must_see(vsphere, "web")
    assert (seen.hardware.vcpus, seen.hardware.memory, seen.hardware.nic, seen.power) == (2, 1024, "e1000e", "off")
    assert (seen.is_template, seen.has_tools, seen.mark, seen.addresses) == (False, True, "", ())
    assert (await must_see(vsphere, "golden")).is_template
    assert not (await must_see(vsphere, "bare")).has_tools
    assert (await must_see(vsphere, "two cards")).cards == 2
    assert await vsphere.seen("vm-none") is None


async def test_a_machine_becomes_another_and_what_it_was(vsphere: Vsphere, there: Vcenter) -> None:
    """Its card is of another model, and keeps its network and its address."""
    before = there.machines()["web"]
    found = await must_see(vsphere, "web")
    await vsphere.configure(found, Reconfiguration(vcpus=4, cores=2, memory=2048, nic="vmxnet3", mark="me"))
    looks = there.machines()["web"]
    assert (looks["Cpus"], looks["Memory"], looks["Nics"], looks["Mark"]) == (4, 2048, ["vmxnet3"], "me")
    assert looks["Places"] == before["Places"]
    seen = await must_see(vsphere, "web")
    assert seen.mark == "me" and seen.version != found.version
    await vsphere.configure(
        seen, Reconfiguration(vcpus=2, cores=found.hardware.cores, memory=1024, nic="e1000e", mark="")
    )
    assert there.machines()["web"] == before


async def test_power_and_the_address_that_comes_with_it(vsphere: Vsphere, there: Vcenter) -> None:
    seen = await must_see(vsphere, "web")
    await vsphere.start(seen.reference)
    assert await borrowing.wait_address(vsphere, seen) == "192.0.2.9"
    await vsphere.stop(seen.reference)
    assert not there.machines()["web"]["Running"]
    # Its tools are silent: it cannot be asked to shut down.
    silent = await must_see(vsphere, "bare")
    await vsphere.start(silent.reference)
    await vsphere.stop(silent.reference)
    assert not there.machines()["bare"]["Running"]


async def test_a_clone_comes_and_goes(vsphere: Vsphere, there: Vcenter) -> None:
    template = await must_see(vsphere, "golden")
    made = await vsphere.clone(template.reference, "nm-clone", Reconfiguration(mark="me"))
    await vsphere.settled(template.reference)
    assert there.machines()["nm-clone"]["Cpus"] == 1
    seen = await vsphere.seen(made)
    assert seen is not None and not seen.is_template and seen.uuid != template.uuid
    assert (await vsphere.place(made)).endswith("/vm/nm-clone")
    await vsphere.remove(made)
    assert "nm-clone" not in there.machines()


async def test_a_host_of_esxi_without_a_vcenter(vcenter_program: Path, tmp_path: Path) -> None:
    with vcenter(vcenter_program, MACHINES[:1], kind="esxi") as esxi:
        vsphere = Vsphere(options(esxi, tmp_path).account)
        seen = await must_see(vsphere, "web")
        await vsphere.configure(seen, Reconfiguration(vcpus=1, nic="vmxnet3"))
        await vsphere.start(seen.reference)
        assert esxi.machines()["web"]["Running"]
        await vsphere.stop(seen.reference)
        (said,) = await lacking(esxi, tmp_path, vm=None, template="web")
        assert "only a vCenter clones" in said.detail


# ── Sessions and refusals ─────────────────────────────────────────────────────────────────────────────────────────


async def test_a_session_that_ended_is_begun_again(vsphere: Vsphere, there: Vcenter) -> None:
    seen = await must_see(vsphere, "web")
    there.order(forget=True)
    await vsphere.start(seen.reference)
    assert there.machines()["web"]["Running"]


async def test_one_that_ends_again_at_once_is_a_loss(vsphere: Vsphere, there: Vcenter) -> None:
    seen = await must_see(vsphere, "web")
    there.order(fault="NotAuthenticated", method="PowerOnVM_Task")
    with pytest.raises(MachineLost, match="ended our session"):
        await vsphere.start(seen.reference)
    there.order(recover=True)
    there.order(fault="NotAuthenticated", method="PowerOnVM_Task", count=1)
    await vsphere.start(seen.reference)


async def test_what_is_not_permitted_names_the_privilege(vsphere: Vsphere, there: Vcenter) -> None:
    seen = await must_see(vsphere, "web")
    there.order(fault="NoPermission", method="ReconfigVM_Task")
    with pytest.raises(HostCannot, match=r"may not configure 'web': the privilege System.Modify is lacking") as refused:
        await vsphere.configure(seen, Reconfiguration(vcpus=1))
    assert "role" in refused.value.remedy


async def test_what_fails_there_is_told_in_its_words(vsphere: Vsphere) -> None:
    seen = await must_see(vsphere, "web")
    await vsphere.start(seen.reference)
    with pytest.raises(HostCannot, match="does not power a machine on: "):
        await vsphere.start(seen.reference)


async def test_an_answer_that_cannot_be_read(vsphere: Vsphere, there: Vcenter) -> None:
    """The simulator's own fault is one that pyVmomi has never heard of."""
    seen = await must_see(vsphere, "web")
    there.order(fault="System", method="PowerOnVM_Task")
    with pytest.raises(ToolFailed, match="pyVmomi cannot read"):
        await vsphere.start(seen.reference)


async def test_a_wrong_password(vsphere: Vsphere, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSWORD_ENV, "wrong")
    with pytest.raises(HostCannot, match="does not let 'tester@") as refused:
        await vsphere.names()
    assert PASSWORD_ENV in refused.value.remedy and "wrong" not in str(refused.value)


async def test_nobody_there(there: Vcenter, tmp_path: Path) -> None:
    account = options(there, tmp_path, server="127.0.0.1:1").account
    with pytest.raises(Unreachable, match="Connection refused"):
        await Vsphere(account).names()


async def test_an_answer_that_does_not_come(vsphere: Vsphere, there: Vcenter, monkeypatch: pytest.MonkeyPatch) -> None:
    there.process.send_signal(signal.SIGSTOP)
    monkeypatch.setattr("nearmetal.lab.vmware.session.CALL", 0.3)
    try:
        with pytest.raises(Unreachable):
            await vsphere.names()
    finally:
        there.process.send_signal(signal.SIGCONT)


# ── Certificates ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_certificate_that_nobody_vouches_for_is_refused(there: Vcenter, tmp_path: Path) -> None:
    account = options(there, tmp_path, ca_file=None).account
    with pytest.raises(HostCannot, match="certificate is not trusted") as refused:
        await Vsphere(account).names()
    assert fingerprint(there.certificate) in refused.value.what
    assert "thumbprint" in refused.value.remedy


async def test_a_thumbprint_pins_one_certificate(there: Vcenter, tmp_path: Path) -> None:
    right = fingerprint(there.certificate)
    for written in (right, right.lower(), right.replace(":", "")):
        vsphere = Vsphere(options(there, tmp_path, ca_file=None, thumbprint=written).account)
        assert "web" in (await vsphere.names()).values()
    wrong = right[:-2] + ("00" if right[-2:] != "00" else "11")
    with pytest.raises(HostCannot, match="another certificate than the one you know") as refused:
        await Vsphere(options(there, tmp_path, ca_file=None, thumbprint=wrong).account).names()
    assert right in refused.value.what


async def test_a_pinned_certificate_is_asked_for_by_each_connection(
    there: Vcenter, vcenter_program: Path, tmp_path: Path
) -> None:
    """The trust is the connection's, not only the first one's: another server is refused in its place."""
    context = options(there, tmp_path, ca_file=None, thumbprint=fingerprint(there.certificate)).account.trust()
    assert context.verify_mode is ssl.CERT_REQUIRED
    with vcenter(vcenter_program, MACHINES[:1]) as other:
        host, port = other.address.split(":")
        with socket.create_connection((host, int(port))) as plain, pytest.raises(ssl.SSLCertVerificationError):
            context.wrap_socket(plain, server_hostname=host)


async def test_no_check_takes_saying_so(there: Vcenter, tmp_path: Path) -> None:
    given = options(there, tmp_path, ca_file=None, insecure=True)
    assert "web" in (await Vsphere(given.account).names()).values()
    spec = EnvironmentSpec.model_validate({"kind": "vmware", **given.model_dump(exclude_none=True)})
    said: list[str] = []
    await VmwareEnvironment().prepare(spec, SPEC, LocalSite(said.append))
    assert any("its certificate is not checked" in text for text in said)


async def test_files_that_are_no_certificates(there: Vcenter, tmp_path: Path) -> None:
    (tmp_path / "nonsense").write_text("nonsense")
    for name, told in (("none", "no such file"), ("nonsense", "no certificates"), (".", "cannot be read")):
        with pytest.raises(NearmetalError, match=told):
            await Vsphere(options(there, tmp_path, ca_file=str(tmp_path / name)).account).names()


# ── What is told before anything is measured ──────────────────────────────────────────────────────────────────────


@pytest.fixture
def no_insides(monkeypatch: pytest.MonkeyPatch) -> None:
    """Machines of the simulator cannot be logged in to."""

    async def found_inside(way: HostSpec, machine: MachineSpec) -> list[Finding]:
        return []

    monkeypatch.setattr(vmware, "check_inside", found_inside)


async def lacking(there: Vcenter, folder: Path, spec: MachineSpec = SPEC, **more: Any) -> list[Finding]:
    given = {key: value for key, value in (there.options(folder) | {"vm": "web"} | more).items() if value is not None}
    found = await VmwareEnvironment().check(EnvironmentSpec.model_validate(given), spec, LocalSite())
    return [one for one in found if not one.ok]


@pytest.mark.usefixtures("no_insides")
async def test_nothing_is_lacking(there: Vcenter, tmp_path: Path) -> None:
    assert await lacking(there, tmp_path) == []
    assert await lacking(there, tmp_path, vm=None, template="golden") == []
    assert await lacking(there, tmp_path, vm="running", provision="reuse") == []
    assert await lacking(there, tmp_path, vm="bare", address="192.0.2.3") == []
    assert there.machines()["web"]["Mark"] == "" and len(there.machines()) == len({one["name"] for one in MACHINES})


@pytest.mark.parametrize(
    ("more", "remedy"),
    [
        ({"vm": "wep"}, "did you mean `web`?"),
        ({"vm": "twin"}, "name it with its folders"),
        ({"vm": "running"}, 'provision = "reuse"'),
        ({"vm": "web", "provision": "reuse"}, 'set provision = "boot"'),
        ({"vm": "golden"}, 'write template = "golden"'),
        ({"vm": "bare"}, "install open-vm-tools"),
        ({"vm": None, "template": "running"}, "stop it, or take a template"),
        ({"vm": None, "template": "golden", "provision": "reuse"}, 'set provision = "boot"'),
        ({"server": "127.0.0.1:1"}, "compare server"),
        ({"server": "127.0.0.1:99999"}, "or with"),
        ({"ca_file": None}, "thumbprint"),
        ({"password_env": "NEARMETAL_VMWARE_ELSEWHERE"}, "export NEARMETAL_VMWARE_ELSEWHERE"),
        ({"key": "/no/such/key"}, "name one that is there"),
    ],
)
async def test_what_is_lacking_is_told(there: Vcenter, tmp_path: Path, more: dict[str, Any], remedy: str) -> None:
    (said,) = await lacking(there, tmp_path, **more)
    assert remedy in said.remedy
    assert said.detail and said.fatal


@pytest.mark.usefixtures("no_insides")
async def test_privileges_are_asked_for_before(there: Vcenter, tmp_path: Path) -> None:
    there.order(deny=["VirtualMachine.Config.CPUCount", "VirtualMachine.Interact.PowerOff"])
    (said,) = await lacking(there, tmp_path)
    assert said.detail == ("these are lacking: VirtualMachine.Config.CPUCount, VirtualMachine.Interact.PowerOff")
    assert await lacking(there, tmp_path, vm="running", provision="reuse") == [], "it takes none to be used"
    there.order(deny=["VirtualMachine.Config.AddRemoveDevice"])
    assert await lacking(there, tmp_path) == []
    assert len(await lacking(there, tmp_path, SPEC.model_copy(update={"nic": "vmxnet3"}))) == 1


async def test_of_two_cards_none_is_exchanged(there: Vcenter, tmp_path: Path) -> None:
    (said,) = await lacking(there, tmp_path, SPEC.model_copy(update={"nic": "e1000e"}), vm="two cards")
    assert "it has 2 network cards" in said.detail
