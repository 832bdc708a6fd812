"""What QEMU tells of a guest's disk that its host cannot write."""

import pytest

from nearmetal.errors import HostCannot, NotProvisioned
from nearmetal.lab.qemu import disk_trouble

# As told by QEMU 7.2, whose `nospace` is only true of a guest that it has halted.
TOLD = {"device": "root", "nospace": False, "node-name": "#block149", "reason": "No space left on device",
        "operation": "write", "action": "report"}  # fmt: skip


@pytest.mark.parametrize("told", [TOLD, {**TOLD, "nospace": True, "reason": "Kein Platz"}])
def test_a_full_disk_is_told_by_its_folder_and_has_a_remedy(told: dict[str, object]) -> None:
    lost = disk_trouble.describe_loss(told, "nm-a-1", "/var/lib/nearmetal")
    assert (lost.what, lost.where) == ("the host's disk is full: /var/lib/nearmetal", "nm-a-1")
    assert "NEARMETAL_HOME" in lost.remedy


@pytest.mark.parametrize(("operation", "done"), [("write", "written to"), ("read", "read from")])
def test_any_other_error_is_told_in_its_own_words(operation: str, done: str) -> None:
    told = {**TOLD, "reason": "Input/output error", "operation": operation}
    lost = disk_trouble.describe_loss(told, "nm-a-1", "/var/lib/nearmetal")
    assert lost.what == f"its disk cannot be {done} by the host in /var/lib/nearmetal: Input/output error"
    assert lost.remedy


def test_who_else_is_told_of_a_full_disk_has_the_same_remedy() -> None:
    full = disk_trouble.describe_loss(TOLD, "nm-a-1", "/var/lib/nearmetal")
    said = HostCannot("`qemu-img create` failed: Could not write: No space left on device")
    assert disk_trouble.find_remedy(said) == disk_trouble.find_remedy(full) == full.remedy
    assert disk_trouble.find_remedy(NotProvisioned("it has no such card")) == ""
