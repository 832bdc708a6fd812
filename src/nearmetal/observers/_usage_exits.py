"""How often guests gave their CPU back to a host's kernel: what KVM counts of all guests there."""

from nearmetal.errors import NearmetalError
from nearmetal.model import Site

FILE = "/sys/kernel/debug/kvm/exits"
"""Of all guests that KVM runs, ended ones included; there where KVM and debugfs are. Emulated guests have none."""


async def exits(site: Site) -> int | None:
    """So far; None where the kernel does not tell."""
    try:
        ended = await site.exec(["cat", FILE])
    except (NearmetalError, OSError):
        return None
    told = ended.text.strip()
    return int(told) if ended.status == 0 and told.isdecimal() else None
