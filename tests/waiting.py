"""Waiting for what a process or a thread does by itself."""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

Seen = TypeVar("Seen")

_PATIENCE = 60.0
"""Seconds for what takes a moment on a free host: others may use it too."""
_OFTEN = 0.02
"""Seconds between two looks."""


def wait_until(look: Callable[[], Seen], patience: float = _PATIENCE) -> Seen:
    """It sees something: what that is."""
    end = time.monotonic() + patience
    while not (seen := look()):
        assert time.monotonic() < end, "it never came so far"
        time.sleep(_OFTEN)
    return seen


async def until(look: Callable[[], Seen], patience: float = _PATIENCE) -> Seen:
    """As `wait_until`, and whatever else this loop does goes on meanwhile."""
    end = time.monotonic() + patience
    while not (seen := look()):
        assert time.monotonic() < end, "it never came so far"
        await asyncio.sleep(_OFTEN)
    return seen
