"""What iperf3 prints with --json, as figures. Pure; half a document is an error, and nothing received is no zero."""

from typing import Annotated

from pydantic import Field, ValidationError

from nearmetal.errors import ToolFailed
from nearmetal.model import Cause, Completed
from nearmetal.workloads._document import Count, DocumentPart, Figure, describe_problem
from nearmetal.workloads._stage import last_words
from nearmetal.workloads.iperf3.parameters import Direction, Iperf3Parameters

SHORTEST = 0.9
"""Share of the duration that was asked for. iperf3 overruns by a millisecond; one that stopped early was cut off."""

_ON_TIME = 0.002
"""Share of the duration by which the last interval may end late, and yet be one in which the client sent throughout."""

_LOST_START = "unable to read from stream socket"
"""What iperf3 says when its first datagram, or the answer to it, was lost: it sends neither again."""

_STILL_BUSY = "the server is busy running a test"
"""What it says when its server has not heard yet that the run before is over: that word was lost, and is sent again."""


class Sent(DocumentPart):
    """What left, over all streams of one way."""

    seconds: Annotated[Figure, Field(gt=0)]
    bytes: Count
    bits_per_second: Figure
    retransmits: Count | None = None
    """Of TCP."""
    packets: Count | None = None
    """Of UDP."""


class ReceivedSum(DocumentPart):
    """What arrived, over all streams of one way, as the receiving end itself counted it. Only UDP has all of it."""

    seconds: Annotated[Figure, Field(gt=0)]
    bytes: Count
    bits_per_second: Figure
    jitter_ms: Figure | None = None
    lost_packets: int | None = None
    packets: Count | None = None


class Way(DocumentPart):
    """One direction: what left, and what arrived."""

    sent: Sent
    received: ReceivedSum
    sender_cpu: float
    """Share of one processor that the sending end used, the warm-up included; iperf3 3.12 sends from one thread."""

    @property
    def datagrams(self) -> tuple[int, int]:
        """Of UDP: how many did not arrive, and of how many. By the numbers in those that did; if none did, all sent."""
        if not self.received.bytes:
            return self.sent.packets or 0, self.sent.packets or 0
        return self.received.lost_packets or 0, self.received.packets or 0


class _Processors(DocumentPart):
    host_total: Figure
    remote_total: Figure


class _TestStart(DocumentPart):
    protocol: str
    duration: Figure
    num_streams: Count
    reverse: Count


class _Start(DocumentPart):
    test_start: _TestStart


# Each end's own account of what it received is of the measured window alone. Of what the other end received, iperf3
# 3.12 takes its own warm-up off: a sender has counted no loss in it, and other datagrams. Datagrams by interval do not
# help: one that the warm-up ends in is not called omitted, and has those of all of it. (Its bytes are right.)


class _Document(DocumentPart):
    start: _Start
    intervals: Annotated[tuple[object, ...], Field(min_length=1)]


class _IntervalSum(DocumentPart):
    """Its end in seconds since the warm-up's. The start is no use: of an interval that the warm-up ends in, it is in
    seconds since the warm-up's begin still, and its bytes are those since the end."""

    end: Annotated[float, Field(allow_inf_nan=False)]
    bytes: Count
    omitted: bool


class _Interval(DocumentPart):
    sum: _IntervalSum


class _ServersEnd(DocumentPart):
    sum_received: ReceivedSum


class _Server(DocumentPart):
    intervals: tuple[_Interval, ...]
    end: _ServersEnd

    def total_received(self, duration: float) -> ReceivedSum:
        """What it received in all, and how fast while it was sent.

        The server counts on until it hears of the end, which may wait behind a full queue or be lost and sent again.
        """
        told = self.end.sum_received
        found = [one.sum for one in self.intervals if not one.sum.omitted]
        found = [one for one in found if 0 < one.end <= duration * (1 + _ON_TIME)]
        # One follows the other from the warm-up's end on.
        seconds = max((one.end for one in found), default=0.0)
        arrived = sum(one.bytes for one in found)
        if seconds < duration / 2 or not arrived:
            return told
        return told.model_copy(update={"bits_per_second": arrived * 8 / seconds})


class _ForwardEnd(DocumentPart):
    sum_sent: Sent
    cpu_utilization_percent: _Processors


class _Forward(_Document):
    end: _ForwardEnd
    server_output_json: _Server

    def run(self, duration: float) -> "Iperf3Run":
        end = self.end
        here = end.cpu_utilization_percent.host_total / 100
        received = self.server_output_json.total_received(duration)
        return Iperf3Run(forward=Way(sent=end.sum_sent, received=received, sender_cpu=here), reverse=None)


class _ReverseEnd(_ForwardEnd):
    sum_received: ReceivedSum


class _Reverse(_Document):
    end: _ReverseEnd

    def run(self, duration: float) -> "Iperf3Run":
        end = self.end
        there = end.cpu_utilization_percent.remote_total / 100
        return Iperf3Run(forward=None, reverse=Way(sent=end.sum_sent, received=end.sum_received, sender_cpu=there))


class _BothEnd(_ForwardEnd):
    sum_sent_bidir_reverse: Sent
    sum_received_bidir_reverse: ReceivedSum


class _Both(_Document):
    end: _BothEnd
    server_output_json: _Server

    def run(self, duration: float) -> "Iperf3Run":
        """iperf3 3.12 divides what went back by the time of the way there: each end's bytes by the other's clock.

        The server's window is the longer by what its notice of the end waits in a full queue.
        """
        end = self.end
        here, there = end.sum_sent.seconds, self.server_output_json.end.sum_received.seconds
        share = end.cpu_utilization_percent
        forward = Way(
            sent=end.sum_sent,
            received=self.server_output_json.total_received(duration),
            sender_cpu=share.host_total / 100,
        )
        reverse = Way(
            sent=end.sum_sent_bidir_reverse.model_copy(update=_make_sum(end.sum_sent_bidir_reverse.bytes, there)),
            received=end.sum_received_bidir_reverse.model_copy(
                update=_make_sum(end.sum_received_bidir_reverse.bytes, here)
            ),
            sender_cpu=share.remote_total / 100,
        )
        return Iperf3Run(forward=forward, reverse=reverse)


def _make_sum(transferred: int, seconds: float) -> dict[str, float]:
    return {"seconds": seconds, "bits_per_second": transferred * 8 / seconds}


_DOCUMENTS: dict[Direction, type[_Forward | _Reverse | _Both]] = {
    "forward": _Forward,
    "reverse": _Reverse,
    "both": _Both,
}


class _Failure(DocumentPart):
    error: str


class Iperf3Run(DocumentPart):
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


def find_failure(ended: Completed) -> str | None:
    """What went wrong in iperf3's own words; None when it says nothing of the kind."""
    try:
        return _Failure.model_validate_json(ended.stdout).error[:500]
    except ValidationError:
        return None


def never_started(ended: Completed) -> bool:
    """Whether a run found no beginning, because the network lost what it begins with, or by which another one ended."""
    failure = find_failure(ended)
    return failure is not None and failure.startswith((_LOST_START, _STILL_BUSY))


def parse(ended: Completed, given: Iperf3Parameters, where: str) -> Iperf3Run:
    """The figures of a client's run. ToolFailed with iperf3's own words, or with what is wrong with its document.

    iperf3 ends with status 0 also when it failed, and tells so in the document alone.
    """
    if (failure := find_failure(ended)) is not None:
        raise ToolFailed(f"iperf3 failed: {failure}", where)
    if ended.status != 0:
        raise ToolFailed(f"iperf3 ended with status {ended.status}: {last_words(ended)}", where)
    if not ended.stdout.strip():
        raise ToolFailed(f"iperf3 printed nothing: {last_words(ended)}", where)
    try:
        _check_asked(_Document.model_validate_json(ended.stdout).start.test_start, given, where)
        run = _DOCUMENTS[given.direction].model_validate_json(ended.stdout).run(given.duration)
    except ValidationError as error:
        raise _not_understood(describe_problem(error), where) from None
    for way in run.ways:
        _check_way(way, given, where)
    return run


def _not_understood(what: str, where: str) -> ToolFailed:
    return ToolFailed(
        f"what iperf3 printed cannot be read: {what}",
        where,
        "iperf3 3.12 and later is understood; the image `lab` has it",
        cause=Cause.MEASUREMENT_INVALID,
    )


def _check_asked(told: _TestStart, given: Iperf3Parameters, where: str) -> None:
    asked = (given.protocol.upper(), given.duration, given.parallel, given.direction == "reverse")
    if (told.protocol, told.duration, told.num_streams, bool(told.reverse)) != asked:
        raise _not_understood(f"it is about another test than the one asked for: {told}", where)


def _check_way(way: Way, given: Iperf3Parameters, where: str) -> None:
    if way.sent.seconds < SHORTEST * given.duration:
        raise ToolFailed(f"iperf3 stopped after {way.sent.seconds:g} s of {given.duration:g} s", where)
    if given.protocol == "udp" and not way.received.bytes and way.sent.packets:
        return  # all are lost, which the receiver cannot know
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
