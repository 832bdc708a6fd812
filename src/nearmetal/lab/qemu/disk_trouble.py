"""A guest's disk that its host cannot write, or not read, because the host's own is full or fails.

QEMU lets the guest see an I/O error, and says so by an event; else it would halt the guest, who is then silent.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from nearmetal.errors import MachineLost, NearmetalError

EVENT: Final = "BLOCK_IO_ERROR"
POLICY: Final = "report"
"""What QEMU does with an error of the host's. Unasked it halts the guest where the host's disk is full."""
_FULL: Final = "No space left on device"
_ROOM: Final = "free space there, or set NEARMETAL_HOME to a folder that has some"


async def wait_trouble(events: AsyncIterator[Mapping[str, Any]], name: str, folder: str) -> MachineLost:
    """Wait for the first that QEMU tells of; `folder` is the one that the guest's disk lies below."""
    async for event in events:
        if event["event"] == EVENT:
            return describe_loss(event["data"], name, folder)
    raise AssertionError("there are always more events")


def describe_loss(event: Mapping[str, Any], name: str, folder: str) -> MachineLost:
    """What a machine with such a disk is told as: nobody measures on. Pure."""
    reason = event.get("reason", "QEMU does not say why")
    if event.get("nospace") or reason == _FULL:
        return MachineLost(f"the host's disk is full: {folder}", name, _ROOM)
    done = "read from" if event["operation"] == "read" else "written to"
    return MachineLost(f"its disk cannot be {done} by the host in {folder}: {reason}", name, "see: dmesg, on that host")


def find_remedy(error: NearmetalError) -> str:
    """What to do about an error that comes of such a disk, whoever told it; "" if it comes of something else. Pure."""
    return _ROOM if _FULL in error.what else error.remedy
