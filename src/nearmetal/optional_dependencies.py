"""How Python packages that not everybody needs are installed."""

import shlex
import sys


def describe_install(*packages: str) -> str:
    """The command, for the environment that nearmetal itself is in: `pip` may be another one's.

    It names what an extra consists of, since nearmetal itself may have come from a file or a clone.
    """
    return shlex.join([sys.executable, "-m", "pip", "install", *packages])
