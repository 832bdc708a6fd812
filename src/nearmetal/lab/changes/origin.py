"""On which host, and in which boot of it, something was changed: several hosts may see one folder of state."""

import platform
from pathlib import Path

from nearmetal.model import Frozen

_MACHINE_ID = Path("/etc/machine-id")


class Origin(Frozen):
    machine: str
    """Tells a host from every other, in all its boots."""
    name: str
    """For people."""
    boot_id: str


def here() -> Origin:
    name = platform.node()
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return Origin(machine=_machine_id() or name, name=name, boot_id=boot_id)


def _machine_id() -> str:
    """ "" where there is none, as in many containers, or none yet."""
    try:
        text = _MACHINE_ID.read_text().strip()
    except OSError:
        return ""
    return "" if text == "uninitialized" else text
