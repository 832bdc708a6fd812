"""What iperf3 prints with --json, as figures. Pure; half a document is an error, and nothing received is no zero."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from nearmetal.errors import ToolFailed
from nearmetal.model import Completed
from nearmetal.workloads._iperf3_parameters import Iperf3Parameters
from nearmetal.workloads._stage import last_words

SHORTEST = 0.9
"""Share of the duration that was asked for. iperf3 overruns by a millisecond; one that stopped early was cut off."""

_LOST_START = "unable to read from stream socket"
"""What iperf3 says when its first datagram, or the answer to it, was lost: it sends neither again."""

Count = Annotated[int, Field(ge=0)]
Figure = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Part(BaseModel):
    """Part of a document: iperf3 says more, and other versions say other things besides."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Sum(_Part):
    """All streams of one way, as one of its ends counted them. What a protocol does not have is None."""

    seconds: Annotated[Figure, Field(gt=0)]
    bytes: Count
    bits_per_second: Figure
    retransmits: Count | None = None
    jitter_ms: Figure | None = None
    lost_packets: int | None = None
    packets: Count | None = None


class Way(_Part):
    """One direction: what left, and what arrived."""

    sent: Sum
    received: Sum
    sender_cpu: float
    """Share of one processor that the sending end used; iperf3 3.12 sends from one thread."""


class _Processors(_Part):
    host_total: Figure
    remote_total: Figure


class _TestStart(_Part):
    protocol: str
    duration: Figure
    num_streams: Count
    reverse: Count


class _Start(_Part):
    test_start: _TestStart


class _End(_Part):
    sum_sent: Sum
    sum_received: Sum
    sum_sent_bidir_reverse: Sum | None = None
    sum_received_bidir_reverse: Sum | None = None
    cpu_utilization_percent: _Processors


class _Document(_Part):
    start: _Start
    intervals: Annotated[tuple[object, ...], Field(min_length=1)]
    end: _End


class _Failure(_Part):
    error: str


class Run(_Part):
    """What one client measured. At least one of the ways is there."""

    forward: Way | None
    """From the client to the server."""
    reverse: Way | None

    @property
    def ways(self) -> tuple[Way, ...]:
        return tuple(way for way in (self.forward, self.reverse) if way is not None)

    @property
    def bandwidth(self) -> float:
        """Bit/s that arrived, over all ways."""
        return sum(way.received.bits_per_second for way in self.ways)

    @property
    def transfer(self) -> int:
        """Bytes that arrived, over all ways."""
        return sum(way.received.bytes for way in self.ways)


def failed(ended: Completed) -> str | None:
    """What went wrong in iperf3's own words; None when it says nothing of the kind."""
    try:
        return _Failure.model_validate_json(ended.stdout).error[:500]
    except ValidationError:
        return None


def never_started(ended: Completed) -> bool:
    """Whether a UDP run found no beginning, because a datagram of its greeting was lost."""
    failure = failed(ended)
    return failure is not None and failure.startswith(_LOST_START)


def parse(ended: Completed, given: Iperf3Parameters, where: str) -> Run:
    """The figures of a client's run. ToolFailed with iperf3's own words, or with what is wrong with its document.

    iperf3 ends with status 0 also when it failed, and tells so in the document alone.
    """
    if (failure := failed(ended)) is not None:
        raise ToolFailed(f"iperf3 failed: {failure}", where)
    if ended.status != 0:
        raise ToolFailed(f"iperf3 ended with status {ended.status}: {last_words(ended)}", where)
    if not ended.stdout.strip():
        raise ToolFailed(f"iperf3 printed nothing: {last_words(ended)}", where)
    try:
        document = _Document.model_validate_json(ended.stdout)
    except ValidationError as error:
        raise _not_understood(_first(error), where) from None
    _check_asked(document, given, where)
    run = _run(document, given, where)
    for way in run.ways:
        _check_way(way, given, where)
    return run


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"]))
    return f"{place}: {first['msg']}" if place else str(first["msg"])


def _not_understood(what: str, where: str) -> ToolFailed:
    return ToolFailed(
        f"what iperf3 printed cannot be read: {what}",
        where,
        "iperf3 3.12 and later is understood; the image `lab` has it",
    )


def _check_asked(document: _Document, given: Iperf3Parameters, where: str) -> None:
    told = document.start.test_start
    asked = (given.protocol.upper(), given.duration, given.parallel, given.direction == "reverse")
    if (told.protocol, told.duration, told.num_streams, bool(told.reverse)) != asked:
        raise _not_understood(f"it is about another test than the one asked for: {told}", where)


def _run(document: _Document, given: Iperf3Parameters, where: str) -> Run:
    end = document.end
    here, there = (
        share / 100 for share in (end.cpu_utilization_percent.host_total, end.cpu_utilization_percent.remote_total)
    )
    if given.direction == "forward":
        return Run(forward=Way(sent=end.sum_sent, received=end.sum_received, sender_cpu=here), reverse=None)
    if given.direction == "reverse":
        return Run(forward=None, reverse=Way(sent=end.sum_sent, received=end.sum_received, sender_cpu=there))
    if end.sum_sent_bidir_reverse is None or end.sum_received_bidir_reverse is None:
        raise _not_understood("the way back is missing", where)
    return Run(
        forward=Way(sent=end.sum_sent, received=end.sum_received, sender_cpu=here),
        reverse=Way(sent=end.sum_sent_bidir_reverse, received=end.sum_received_bidir_reverse, sender_cpu=there),
    )


def _check_way(way: Way, given: Iperf3Parameters, where: str) -> None:
    if way.sent.seconds < SHORTEST * given.duration:
        raise ToolFailed(f"iperf3 stopped after {way.sent.seconds:g} s of {given.duration:g} s", where)
    if not way.received.bytes or not way.received.bits_per_second:
        raise ToolFailed(f"of {way.sent.bytes} bytes that iperf3 sent, not one arrived", where)
    if given.protocol == "tcp":
        if way.sent.retransmits is None:
            raise _not_understood("it does not tell the retransmits", where)
        return
    if way.received.jitter_ms is None or way.received.lost_packets is None or not way.received.packets:
        raise _not_understood("it does not tell jitter and loss", where)
    if way.received.lost_packets > way.received.packets:
        raise _not_understood("more datagrams were lost than sent", where)
