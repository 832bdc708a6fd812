"""Whether a machine is what was asked for: its network card."""

from typing import Any

import pytest

from nearmetal.model import MachineSpec
from nearmetal.run import verify
from nearmetal.study_checks import _MODELS

SPEC = MachineSpec(nic="e1000")


def facts(interfaces: dict[str, Any]) -> dict[str, Any]:
    return {
        "processor": {"allowed_count": 1, "online": "0"},
        "memory": {"total_bytes": SPEC.memory},
        "limits": {},
        "interfaces": interfaces,
    }


def test_every_model_that_a_study_can_name_has_a_driver_to_be_read_back() -> None:
    assert verify.DRIVERS.keys() == set(_MODELS["nic"])


def test_the_card_that_was_ordered_counts() -> None:
    readback = verify.resources(SPEC, facts({"data": {"driver": "e1000"}}), "tcg")
    assert readback.ok
    assert readback.values["nic"] == "e1000"


@pytest.mark.parametrize("interfaces", [{"data": {"driver": "virtio_net"}}, {"data": {"driver": None}}, {}])
def test_another_one_does_not(interfaces: dict[str, Any]) -> None:
    readback = verify.resources(SPEC, facts(interfaces), "tcg")
    assert not readback.ok
    assert "instead of e1000" in readback.reason


def test_where_there_is_no_virtual_machine_there_is_no_model() -> None:
    readback = verify.resources(SPEC, facts({"data": {"driver": "veth"}}), None)
    assert readback.ok
    assert "nic" not in readback.values
