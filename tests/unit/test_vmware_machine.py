"""What is asked of a machine of vSphere's, what speaks against it, and what it gets back: without any vSphere."""

from typing import Any

import pytest

from nearmetal.lab.vmware import vmware_machine as machines
from nearmetal.lab.vmware.vmware_machine import BorrowingRecord, HardwareSettings, Reconfiguration, VsphereMachine
from nearmetal.model import MachineSpec, Provision

FOUND = HardwareSettings(vcpus=4, cores=2, memory=2048, nic="e1000e")
SPEC = MachineSpec(vcpus=2, memory=2**30)
GIVEN = HardwareSettings(vcpus=2, cores=2, memory=1024, nic="e1000e")


def seen(**more: Any) -> VsphereMachine:
    known = {
        "reference": "vm-1",
        "uuid": "u",
        "name": "web",
        "version": "1",
        "hardware": FOUND,
        "cards": 1,
        "power": "off",
    }
    return VsphereMachine.model_validate(known | more)


def test_what_a_study_asks_for() -> None:
    assert machines.choose_hardware(SPEC, FOUND) == GIVEN
    assert machines.choose_hardware(SPEC.model_copy(update={"nic": "vmxnet3"}), FOUND).nic == "vmxnet3"


@pytest.mark.parametrize(("vcpus", "cores", "then"), [(3, 2, 1), (4, 2, 2), (1, 2, 1), (3, 0, 0), (2, 1, 1)])
def test_cores_of_a_socket_divide_the_vcpus(vcpus: int, cores: int, then: int) -> None:
    found = FOUND.model_copy(update={"cores": cores})
    assert machines.choose_hardware(MachineSpec(vcpus=vcpus, memory=2**30), found).cores == then


def test_only_what_differs_is_changed() -> None:
    assert machines.find_change(FOUND, GIVEN, "me") == Reconfiguration(vcpus=2, memory=1024, mark="me")
    assert machines.find_change(GIVEN, GIVEN, "me") == Reconfiguration(mark="me")
    assert machines.list_differences(FOUND, GIVEN) == ["4 vCPUs instead of 2", "2048 MiB of memory instead of 1024"]


@pytest.mark.parametrize(
    ("told", "address"),
    [
        ([], None),
        (["fe80::1"], None),
        (["169.254.3.4", "127.0.0.1"], None),
        (["2001:db8::7", "10.0.0.7"], "10.0.0.7"),
        (["10.0.0.7", "10.0.0.8"], "10.0.0.7"),
        (["fe80::1", "2001:db8::7"], "2001:db8::7"),
    ],
)
def test_the_address_to_reach_it_by(told: list[str], address: str | None) -> None:
    assert machines.choose_address(told) == address


def test_a_name_may_hold_what_vsphere_writes_otherwise() -> None:
    assert machines.is_called("a%2fb", "a/b")
    assert machines.is_called("a%2fb", "a%2fb")
    assert not machines.is_called("web2", "web")


# ── What speaks against it ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("spec", "remedy"),
    [
        (MachineSpec(memory=513 * 2**20), "a multiple of 4MiB"),
        (MachineSpec(nic="virtio-net"), "set nic to one of vmxnet3, e1000e, e1000"),
        (MachineSpec(nic="rtl8139"), "set nic to one of"),
        (MachineSpec(cpus="0-1"), "leave cpus out"),
        (MachineSpec(share="/a:/b"), "leave share out"),
        (MachineSpec(nic="vmxnet3"), ""),
        (MachineSpec(), ""),
    ],
)
def test_what_vsphere_can_give(spec: MachineSpec, remedy: str) -> None:
    said = [one.remedy for one in machines.check_wishes(spec) if not one.ok]
    assert len(said) == bool(remedy)
    assert all(remedy in one for one in said)


FITTING = {"hardware": GIVEN}


@pytest.mark.parametrize(
    ("looks", "provision", "remedy"),
    [
        ({}, "boot", ""),
        ({"power": "on"}, "boot", 'provision = "reuse"'),
        ({"power": "on"} | FITTING, "boot", 'provision = "restart"'),
        ({"power": "suspended"}, "boot", "resume it"),
        ({"power": "on"} | FITTING, "reuse", ""),
        ({"power": "on"}, "reuse", 'provision = "restart"'),
        ({}, "reuse", 'set provision = "boot"'),
        ({"power": "on"}, "restart", ""),
        ({"power": "on"} | FITTING, "restart", ""),
        ({}, "restart", 'set provision = "boot"'),
        ({"is_template": True}, "boot", 'write template = "web"'),
        ({"has_tools": False}, "boot", "install open-vm-tools"),
        ({"mark": "nm-1 (eve on far)"}, "boot", "nearmetal clean"),
    ],
)
def test_whether_a_machine_may_be_used(looks: dict[str, Any], provision: Provision, remedy: str) -> None:
    said = [one.remedy for one in machines.list_objections(seen(**looks), SPEC, provision, False, False) if not one.ok]
    assert len(said) == bool(remedy)
    assert all(remedy in one for one in said)


@pytest.mark.parametrize(
    ("looks", "provision", "remedy"),
    [
        ({"is_template": True}, "boot", ""),
        ({}, "boot", ""),
        ({"power": "on"}, "boot", "stop it, or take a template"),
        ({"is_template": True}, "reuse", 'set provision = "boot"'),
    ],
)
def test_whether_it_may_be_cloned(looks: dict[str, Any], provision: Provision, remedy: str) -> None:
    said = [one.remedy for one in machines.list_objections(seen(**looks), SPEC, provision, True, False) if not one.ok]
    assert len(said) == bool(remedy)
    assert all(remedy in one for one in said)


def test_of_several_cards_none_is_exchanged() -> None:
    wish = SPEC.model_copy(update={"nic": "vmxnet3"})
    said = [one.remedy for one in machines.list_objections(seen(cards=2), wish, "boot", False, False) if not one.ok]
    assert said == ["leave nic out, or give it one card"]
    assert all(one.ok for one in machines.list_objections(seen(cards=2), SPEC, "boot", False, False))


def test_an_address_of_ones_own_takes_no_tools() -> None:
    assert all(one.ok for one in machines.list_objections(seen(has_tools=False), SPEC, "boot", False, True))


# ── What it gets back ─────────────────────────────────────────────────────────────────────────────────────────────

LOAN = BorrowingRecord(found=FOUND, given=GIVEN, was_on=False, mark="me", started=True)


def way(loan: BorrowingRecord = LOAN, **now: Any) -> tuple[bool, Reconfiguration, bool, bool, int]:
    found = machines.plan_restore(loan, seen(**({"mark": "me", "hardware": GIVEN} | now)))
    assert found is not None
    return found.stop, found.change, found.start, found.runs, len(found.left)


RESTORED = Reconfiguration(vcpus=4, memory=2048)


def test_a_machine_that_was_off_is_stopped_and_as_before() -> None:
    assert way(power="on") == (True, RESTORED, False, False, 0)
    assert way(power="off") == (False, RESTORED, False, False, 0)


def test_a_machine_that_ran_runs_as_before() -> None:
    ran = LOAN.model_copy(update={"was_on": True})
    assert way(ran, power="on") == (True, RESTORED, True, False, 0)
    assert way(ran, power="off") == (False, RESTORED, True, False, 0)
    not_touched = ran.model_copy(update={"started": False})
    assert way(not_touched, power="on", hardware=FOUND) == (False, Reconfiguration(), False, False, 0)


def test_what_somebody_else_started_is_not_stopped() -> None:
    not_ours = LOAN.model_copy(update={"started": False})
    assert way(not_ours, power="on", hardware=FOUND) == (False, Reconfiguration(), False, False, 0)
    assert way(not_ours, power="on") == (False, RESTORED, False, True, 0)


def test_what_somebody_else_changed_is_theirs() -> None:
    theirs = GIVEN.model_copy(update={"vcpus": 8})
    assert way(power="off", hardware=theirs) == (False, Reconfiguration(memory=2048), False, False, 1)


def test_a_machine_that_is_not_lent_is_left_alone() -> None:
    assert machines.plan_restore(LOAN, seen(mark="", hardware=GIVEN)) is None
    assert machines.plan_restore(LOAN, seen(mark="somebody else", hardware=GIVEN)) is None
