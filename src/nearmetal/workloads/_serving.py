"""Services of a workload: asked whether they have ended, and all stopped."""

import contextlib

from nearmetal.errors import MachineError, TimedOut
from nearmetal.model import Completed, Service


async def ended_within(service: Service, seconds: float) -> Completed | None:
    """How it ended by itself, waiting for that so long; None while it goes on. MachineLost."""
    try:
        return await service.wait(seconds)
    except TimedOut:
        return None


async def stop_all(services: list[Service]) -> None:
    """Stop them, the last one first, and forget them. With its machine, a service is gone too."""
    while services:
        with contextlib.suppress(MachineError):
            await services.pop().stop()
