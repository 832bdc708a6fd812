"""What workloads have in common on a stage: how commands began and ended, and services that are waited for."""

import contextlib
from collections.abc import Sequence

from nearmetal.errors import MachineError, TimedOut, ToolFailed
from nearmetal.model import Completed, Machine, Service, Stage, Warned
from nearmetal.model.services import SERVER as SERVER
from nearmetal.units import show_duration, show_unit

SKEW = 0.05
"""Seconds. Of a measurement of ten seconds, half a percent in which not all clients load the server."""


def uneven_start(ended: Sequence[Completed]) -> list[Warned]:
    """A warning when commands that were to start together did not."""
    late = [one.late for one in ended if one.late is not None]
    if not late or max(late) - min(late) <= SKEW:
        return []
    text = f"the clients did not start at one instant: the last began {show_duration(max(late) - min(late))} "
    return [Warned(code="uneven-start", text=f"{text}after the first")]


def hint_at_loss(stage: Stage) -> str:
    """What an error adds where the link itself may be why: TCP does not get through much loss."""
    loss = stage.link.loss
    return f"; the link is told to lose {show_unit(loss, 'share')} of all frames each way" if loss else ""


def must_connect(stage: Stage, what: str) -> None:
    """ToolFailed where no connection can come about: to wait for one would only take its time."""
    if stage.link.loss == 1:
        why = f"{what} needs a TCP connection, and none comes about{hint_at_loss(stage)}"
        raise ToolFailed(why, stage.clients[0].name, "`ping` measures such a link: its `loss` is then 100 %")


def last_words(ended: Completed) -> str:
    """What a program said last, for an error message: its errors, else its output."""
    said = ended.complaint or ended.text.strip()
    return said[-500:] or "it said nothing"


def require_success(ended: Completed, what: str, machine: Machine) -> Completed:
    """The ended program as it was given, if its status is 0; else ToolFailed with its last words."""
    if ended.status != 0:
        raise ToolFailed(f"{what} ended with status {ended.status}: {last_words(ended)}", machine.name)
    return ended


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
