"""Small packets from each client to its server and back: the round trip, what is lost, and how long each way takes."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Annotated, ClassVar, Literal

from pydantic import Field, ValidationError, model_validator

from nearmetal import model
from nearmetal.errors import ToolFailed
from nearmetal.lab.machines import kernel
from nearmetal.units import Seconds, show_duration
from nearmetal.workloads._document import DocumentPart, describe_problem
from nearmetal.workloads._parameters import LONGEST, Time, as_time
from nearmetal.workloads._stage import ended_within, last_words, require_success, stop_all, uneven_start

Count = Annotated[int, Field(strict=True, ge=0)]
Nanoseconds = Annotated[int, Field(strict=True)]


class RttSpread(DocumentPart):
    min: Nanoseconds
    p50: Nanoseconds
    p99: Nanoseconds
    max: Nanoseconds


class ClockDocument(DocumentPart):
    """`clock.v1`. The ways contain the offset of the server's clock from the client's."""

    schema_: Annotated[Literal["clock.v1"], Field(alias="schema")]
    asked: Annotated[Count, Field(gt=0)]
    answered: Annotated[Count, Field(gt=0)]
    offset_ns: Nanoseconds
    bound_ns: Nanoseconds
    round_trip_ns: RttSpread
    forward_ns: RttSpread
    backward_ns: RttSpread
    trustworthy: bool
    reasons: tuple[str, ...]

    @model_validator(mode="after")
    def _adds_up(self) -> "ClockDocument":
        if self.answered > self.asked:
            raise ValueError(f"{self.answered} answers to {self.asked} questions")
        return self


@dataclass(frozen=True)
class Delays:
    """One client's, in seconds."""

    asked: int
    answered: int
    rtt_p50: float | None = None
    """None, as each time, where nothing came back."""
    rtt_p99: float | None = None
    forward_p50: float | None = None
    backward_p50: float | None = None
    uncertainty: float = 0.0
    """By how much the clocks may be apart at any time, beyond the offset that was taken off: 0 of one clock."""
    doubts: tuple[str, ...] = ()
    """Why the clocks could not be compared properly."""

    @property
    def loss(self) -> float:
        return 1 - self.answered / self.asked


_NOBODY = b"nobody answers at "
"""What the probe says when not one of its questions was answered."""


def got_nothing(ended: model.Completed) -> bool:
    """Whether it asked, and nothing came back."""
    return ended.status != 0 and _NOBODY in ended.stderr


def parse(text: bytes, where: str) -> ClockDocument:
    """ToolFailed when it is no such document."""
    try:
        return ClockDocument.model_validate_json(text)
    except ValidationError as error:
        what = f"what the probe printed is no clock.v1: {describe_problem(error)}"
        raise ToolFailed(what, where, cause=model.Cause.MEASUREMENT_INVALID) from None


def find_delays(document: ClockDocument, one_clock: bool) -> Delays:
    """`one_clock`: both ends read the clock of one kernel, so that there is no offset to be estimated."""
    offset = 0 if one_clock else document.offset_ns
    return Delays(
        asked=document.asked,
        answered=document.answered,
        rtt_p50=document.round_trip_ns.p50 / 1e9,
        rtt_p99=document.round_trip_ns.p99 / 1e9,
        forward_p50=(document.forward_ns.p50 - offset) / 1e9,
        backward_p50=(document.backward_ns.p50 + offset) / 1e9,
        uncertainty=0.0 if one_clock else document.bound_ns / 1e9,
        doubts=() if one_clock else document.reasons,
    )


PORT = 9123
READY = 30.0
"""Seconds within which the server has to answer."""
POLL = 0.1
_INTRODUCTIONS = 3
"""Attempts of a client to be answered once, over a link that loses frames."""
SLACK = 20.0
"""Seconds beyond the packets themselves and the wait for the last of them."""
MOST = 1_000_000
"""Packets, all of which the probe keeps."""

CERTAIN = 0.1
"""Share of a delay. Where the clocks may be further apart, one way's delay is not known to a tenth."""

RESPONSES: Mapping[str, model.ResponseKind] = {
    "rtt_p50": model.ResponseKind(
        unit="s",
        better="lower",
        title="median round trip",
        clause="takes {ratio} × as long as {reference} there and back",
    ),
    "rtt_p99": model.ResponseKind(unit="s", better="lower", title="99th percentile of round trips"),
    "loss": model.ResponseKind(unit="share", better="lower", scale="difference", title="loss"),
    "forward_p50": model.ResponseKind(
        unit="s",
        better="lower",
        title="median way to the server",
        clause="takes {ratio} × as long as {reference} on the way to the server",
    ),
    "backward_p50": model.ResponseKind(
        unit="s",
        better="lower",
        title="median way back",
        clause="takes {ratio} × as long as {reference} on the way back",
    ),
}


class PingParameters(model.Frozen):
    interval: Annotated[Seconds, Field(ge=1e-4, le=LONGEST)] = 0.01
    duration: Time = 10.0
    timeout: Time = 1.0

    @model_validator(mode="after")
    def _go_together(self) -> "PingParameters":
        if self.duration < self.interval:
            raise ValueError(f"an interval of {self.interval:g} s has no second packet within {self.duration:g} s")
        if self.count > MOST:
            raise ValueError(f"{self.count} packets are more than {MOST}: give a longer `interval`")
        return self

    @property
    def count(self) -> int:
        return ceil(self.duration / self.interval - 1e-9)  # 0.3 / 0.1 is a little more than 3


class Ping:
    kind: ClassVar[str] = "ping"
    Parameters: ClassVar[type[model.Frozen]] = PingParameters
    has_clients: ClassVar[bool] = True
    responses = RESPONSES
    primary = "rtt_p50"
    preparing = 0.0

    def __init__(self, parameters: PingParameters) -> None:
        self._parameters = parameters
        self.duration = parameters.duration
        self.limit = parameters.duration + parameters.timeout + SLACK
        self._services: list[model.Service] = []

    async def prepare(self, stage: model.Stage) -> None:
        faced = [stage.facing(index) for index in range(len(stage.clients))]
        for server in dict.fromkeys(faced):
            listen = ["clock", "serve", "--listen", f"{model.find_own_address(server)}:{PORT}"]
            self._services.append(await stage.serve(server, [server.probe, *listen]))
        for index, server in enumerate(dict.fromkeys(faced)):
            # Over a link that loses frames, whether a client is answered is what is to be measured.
            asking = server if stage.link.loss else stage.clients[faced.index(server)]
            await self._wait_answered(asking, server, index)
        if stage.link.loss:
            for client, server in zip(stage.clients, faced, strict=True):
                await self._introduce_ends(client, server)

    async def finish(self, stage: model.Stage) -> None:
        await stop_all(self._services)

    async def run(self, stage: model.Stage) -> model.Measurement:
        given = self._parameters
        pairs = [(client, stage.facing(index)) for index, client in enumerate(stage.clients)]
        commands = [(client, self._make_command(client, server, given.count)) for client, server in pairs]
        ended = await stage.together(commands, self.limit)
        found = [await self._read_delays(stage, one, *pair) for one, pair in zip(ended, pairs, strict=True)]
        return make_measurement(found, ended)

    async def _read_delays(
        self, stage: model.Stage, ended: model.Completed, client: model.Machine, server: model.Machine
    ) -> Delays:
        """What a client saw. Nothing at all is a measurement where the link is told to lose frames, and the server
        still answers itself; of any other link something is wrong that nobody asked for."""
        if stage.link.loss and got_nothing(ended):
            asked = await self._ask_first(server, server)
            require_success(asked, f"nothing came back; {server.name} asked by itself", server)
            return Delays(asked=self._parameters.count, answered=0)
        document = parse(require_success(ended, "clock ask", client).stdout, client.name)
        return find_delays(document, kernel.is_shared(client, server))

    async def _ask_first(self, client: model.Machine, server: model.Machine) -> model.Completed:
        """A few packets beside the measurement."""
        return await client.exec(self._make_command(client, server, 3), timeout=READY + 5 * self._parameters.timeout)

    def _make_command(self, client: model.Machine, server: model.Machine, count: int) -> list[str]:
        given = self._parameters
        pace = ["--count", str(count), "--interval", as_time(given.interval), "--timeout", as_time(given.timeout)]
        return [client.probe, "clock", "ask", f"{server.address}:{PORT}", *pace, "--json"]

    async def _introduce_ends(self, client: model.Machine, server: model.Machine) -> None:
        """Have them find each other's hardware addresses first: where that question is lost it is asked again a second
        later, and until then packets wait, or are dropped by the kernel, beside those that the link loses. Of a link
        that loses all of them nothing comes, which is what is measured then."""
        for _ in range(_INTRODUCTIONS):
            if (await self._ask_first(client, server)).status == 0:
                return

    async def _wait_answered(self, client: model.Machine, server: model.Machine, index: int) -> None:
        """Return once the server has answered a client through the data network. ToolFailed when it does not."""
        until = time.monotonic() + READY
        while True:
            ended = await self._ask_first(client, server)
            if ended.status == 0:
                return
            ended_early = await ended_within(self._services[index], POLL)
            if ended_early is not None:
                words = f"clock serve ended with status {ended_early.status}: {last_words(ended_early)}"
                raise ToolFailed(words, server.name)
            if time.monotonic() > until:
                raise ToolFailed(f"nothing came back within {READY:g} s: {last_words(ended)}", client.name)


def make_measurement(found: Sequence[Delays], ended: Sequence[model.Completed]) -> model.Measurement:
    """What the clients saw, as responses: times are those of the slowest client, loss that of all packets. Pure.

    A client to which nothing came back has no times, and then it is not known which is the slowest: there are none.
    """
    by_client = {name: tuple(getattr(one, name) for one in found) for name in RESPONSES}
    complete = {name: values for name, values in by_client.items() if None not in values}
    whole = {name: max(values) for name, values in complete.items()}
    whole["loss"] = 1 - sum(one.answered for one in found) / sum(one.asked for one in found)
    return model.Measurement(
        responses={
            name: RESPONSES[name].of(whole[name], by_client=complete[name] if len(found) > 1 else None)
            for name in complete
        },
        events=sum(one.answered for one in found),
        artifacts={f"ping-{index}.json": one.stdout for index, one in enumerate(ended) if one.stdout},
        warnings=(
            *uneven_start(ended),
            *(warning for index, one in enumerate(found) for warning in _list_doubts(index, one)),
        ),
        both_clocks=model.BothClocks(
            names=tuple(name for name in ("forward_p50", "backward_p50") if name in complete),
            apart=None if any(one.doubts for one in found) else max(one.uncertainty for one in found),
        ),
    )


def _list_doubts(client: int, found: Delays) -> Iterator[model.Warned]:
    """Why the delay of one way is not known as well as the round trip."""
    if found.forward_p50 is None or found.backward_p50 is None:
        text = f"client {client}: nothing came back, so that its loss is 100 % and there are no times"
        yield model.Warned(code="nothing-came-back", text=text)
    elif found.uncertainty > CERTAIN * min(found.forward_p50, found.backward_p50):
        text = (
            f"client {client}: its clock and the server's were compared over the way itself, to "
            f"{show_duration(found.uncertainty)}: forward_p50 and backward_p50 may be off by as much, and only "
            "their sum is known better"
        )
        yield model.Warned(code="one-way-uncertain", text=text)
    if found.doubts:
        text = f"client {client}: its clock and the server's cannot be compared: {'; '.join(found.doubts)}"
        yield model.Warned(code="clocks-untrusted", text=text)


plugin = Ping
