"""What a kernel counts of TCP, to hold against what its packets say: /proc/net/netstat and /proc/net/snmp."""

from collections.abc import Mapping
from itertools import pairwise

from nearmetal.errors import NearmetalError
from nearmetal.model import Machine

COUNTED = {
    "TcpExt": (
        "TCPAutoCorking",
        "TCPSACKReorder",
        "TCPTSReorder",
        "TCPOFOQueue",
        "TCPDSACKRecv",
        "TCPLostRetransmit",
        "TCPSpuriousRTOs",
        "TCPRetransFail",
        "TCPDelivered",
    ),
    "Tcp": ("RetransSegs", "InSegs", "OutSegs"),
}
"""By the protocol that a line of those files is about; see the kernel's Documentation/networking/snmp_counter.rst."""


async def read(machine: Machine) -> Mapping[str, int]:
    """The counters of the machine's network namespace; none where it cannot tell."""
    try:
        ended = await machine.exec(["cat", "/proc/net/netstat", "/proc/net/snmp"])
    except (NearmetalError, OSError):
        return {}
    return parse_counters(ended.text)


def parse_counters(text: str) -> dict[str, int]:
    """Each protocol has a line of names and one of values."""
    found: dict[str, int] = {}
    told = text.splitlines()
    for names, values in pairwise(told):
        protocol, _, listed = names.partition(": ")
        same, _, counted = values.partition(": ")
        if protocol == same and protocol in COUNTED:
            counts = dict(zip(listed.split(), counted.split(), strict=False))
            found |= {name: int(counts[name]) for name in COUNTED[protocol] if counts.get(name, "").isdecimal()}
    return found


def subtract_counters(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """By how much each grew, named `kernel.NAME`; those that did not are left out."""
    grown = {name: count - before[name] for name, count in after.items() if name in before}
    return {f"kernel.{name}": count for name, count in grown.items() if count > 0}
