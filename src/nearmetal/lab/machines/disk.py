"""What a machine's disk lies on: a file system and a device of its host, whatever the machine itself takes it for.

An overlay is one to whoever looks from inside, whether its files are in memory or on a disk; and a guest sees the disk
that it was given, not the file behind it.
"""

from collections.abc import Mapping
from typing import Any

from nearmetal.model import Handle, ProcessId, Site

_UPPER = "upperdir="
_IN_MEMORY = ("tmpfs", "ramfs")


async def lies_on(handle: Handle, facts: Mapping[str, Any], site: Site) -> str | None:
    """As in "ext4 on /dev/vda" or "tmpfs", by the machine's facts of itself; None where it cannot be known."""
    root = facts.get("filesystems", {}).get("/", {})
    if handle.hardware:
        folder = handle.hardware.disk.folder
    elif not isinstance(handle.life, ProcessId):
        return None
    elif root.get("type") != "overlay":
        return described(str(root["type"]), str(root["source"])) if root else None
    else:
        upper = (one.removeprefix(_UPPER) for one in root.get("options", ()) if one.startswith(_UPPER))
        folder = next(upper, "")
    if not folder:
        return None
    found = await site.exec(["findmnt", "--noheadings", "--nofsroot", "--output", "FSTYPE,SOURCE", "--target", folder])
    words = found.text.split()
    return described(*words) if found.status == 0 and len(words) == 2 else None


def described(kind: str, source: str) -> str:
    """Pure."""
    return kind if kind in _IN_MEMORY else f"{kind} on {source}"
