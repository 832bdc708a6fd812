"""How often guests gave their CPU back to a host's kernel, and why: what KVM counts of all guests there."""

from collections.abc import Mapping
from typing import Final

from nearmetal.errors import NearmetalError
from nearmetal.model import Site

FOLDER: Final = "/sys/kernel/debug/kvm"
"""Sums of all guests that KVM runs, ended ones included; there if KVM and debugfs are. Emulated guests have none."""
TOTAL: Final = "exits"
_END: Final = "_exits"
"""The names of the files end so in which x86's KVM counts by reason: io_exits, halt_exits, …"""
_SHOW: Final = 'cd "$1" && grep -H "" exits *_exits'


async def read_exits(site: Site) -> Mapping[str, int]:
    """So far: `exits`, and `exits.REASON` of each reason that the kernel counts. Empty if it counts none."""
    try:
        ended = await site.exec(["sh", "-c", _SHOW, "exits", FOLDER])
    except (NearmetalError, OSError):
        return {}
    found = {}
    for line in ended.text.splitlines():
        name, _, value = line.partition(":")
        if value.isdecimal():
            found[TOTAL if name == TOTAL else f"{TOTAL}.{name.removesuffix(_END)}"] = int(value)
    return found
