"""Which hypervisor a machine runs on, by its own facts. Pure."""

from collections.abc import Mapping
from typing import Any

_SIGNS = ("hypervisor_signature", "hypervisor_type")


def name_hypervisor(facts: Mapping[str, Any]) -> str | None:
    """The name by the strongest sign in `facts.v1`; None on what passes for bare metal.

    Earlier probes did not name one. They did not look at firmware, either, which alone tells on ARM.
    """
    found = facts.get("virtualization", {})
    if named := found.get("hypervisor"):
        return str(named)
    if not any(map(found.get, ("hypervisor_flag", *_SIGNS))):
        return None
    names = (found.get(key) for key in (*_SIGNS, "product", "vendor"))
    return next((str(name) for name in names if name), "of an unknown kind")
