"""The root file system as a virtual machine's disk, made without loop devices or mounts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import build_tools

SIZE = "10G"
"""What the guest sees: room for the 4 GiB of files that the published file tests prepare, and as much again.
Only what is written takes space."""

LABEL = "nearmetal"
"""By which the guest finds its root, whatever the disk's controller."""

_UUID = "6e656172-6d65-4461-8c00-000000000000"
_FULL = "free some space if the disk is full"


async def make_disk(root: Path, disk: Path) -> None:
    """Write `disk` (qcow2) with the content of `root`."""
    raw = disk.with_suffix(".raw")
    # Inode tables are written now: the kernel would otherwise do it in the background of somebody's measurement.
    # Fixed identifiers, because the same content shall make the same disk.
    await build_tools.run_checked(
        ("mkfs.ext4", "-q", "-F", "-L", LABEL, "-m", "0", "-N", "262144", "-U", _UUID,
         "-E", f"lazy_itable_init=0,lazy_journal_init=0,hash_seed={_UUID},root_owner=0:0",
         "-d", str(root), str(raw), SIZE),
        disk.parent, str(disk.parent), _FULL,
    )  # fmt: skip
    convert = ("qemu-img", "convert", "-O", "qcow2", str(raw), str(disk))
    await build_tools.run_checked(convert, disk.parent, str(disk.parent), _FULL)
    raw.unlink()


def find_other_file(info: Mapping[str, Any]) -> str | None:
    """What else a disk is made of, as `qemu-img info` tells: a backing file, or where its data are. Pure.

    An image that one was given may name any file of this host there, or what QEMU gets by its network drivers.
    """
    data = info.get("format-specific", {}).get("data", {}).get("data-file")
    found: str | None = info.get("full-backing-filename") or info.get("backing-filename") or data
    return found
