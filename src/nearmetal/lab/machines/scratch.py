"""Where workloads and observers keep files in a machine for as long as a trial lasts.

A path begins with the machine's name, which a ledger has before the machine is made. A machine of ours takes its
files with it. From a machine that stays they are removed when it is given back, also by `clean` after a kill.
"""

from typing import Literal

from nearmetal.lab.local_site import run_checked
from nearmetal.model import Commands

Root = Literal["/run", "/tmp", "/var/tmp"]
"""In memory, wherever the machine likes, on its disk."""

# A name ends in a number: with the hyphen it is no beginning of another machine's.
_REMOVE = 'rm -rf -- "/run/$1"-* "/tmp/$1"-* "/var/tmp/$1"-*'


def name_scratch(name: str, root: Root, use: str) -> str:
    """The file or folder of a machine of that name for one use. Pure.

    Where anybody may write, what lies there may be somebody else's: remove it, and make it anew.
    """
    return f"{root}/{name}-{use}"


async def remove_scratch(name: str, there: Commands) -> None:
    """All that a machine of that name has by `path`, for any use. Idempotent. HostCannot, MachineLost."""
    await run_checked(there, "sh", "-c", _REMOVE, "remove", name)
