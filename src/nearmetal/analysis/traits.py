"""What records tell beside their responses, each as one number of a trial that can be compared with another's."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from nearmetal.analysis.traits_of_packets import (
    counted,
    crossing,
    for_each,
    late,
    mebibytes,
    of_stream,
    places,
    requests,
    traces,
    typical,
)
from nearmetal.model import Scale, TrialRecord


@dataclass(frozen=True, slots=True)
class Trait:
    name: str
    """As data files have it."""
    title: str
    """ "packets for each request": what people read."""
    of: Callable[[TrialRecord], float | None]
    """None where the record does not tell."""
    unit: str = ""
    """An SI unit; "" for a plain number."""
    slight: float = 0.0
    """So little of it, in its unit, is next to nothing: it keeps one lost packet from ranking above all else."""
    least: float = 0.0
    """A smaller difference, in its unit, is hardly one: the few packets of a connection that are of no request are more
    for each where it carries fewer."""

    scale: Scale = "ratio"
    """A difference of what may well be none: of segments that were sent again, say."""

    @property
    def of_events(self) -> Trait:
        """The same where what is served are no requests."""
        return replace(self, title=self.title.replace("for each request", "for each event"))


_SELDOM = 0.1
"""Once in ten requests."""
_HARDLY = 0.01
"""Once in a hundred requests."""
_HARDLY_BYTES = 1.0
"""What that is of the smallest packets, with all headers."""
_FEW = 0.01
"""A packet in a hundred."""
_SOME_TIME = 0.05
"""A twentieth of the time."""
_CLOSE = 0.001
"""Seconds by which clocks of machines that agree may be apart."""


def _servers(record: TrialRecord) -> list[Mapping[str, Any]]:
    return list_watched(record, "server-")


def list_watched(record: TrialRecord, prefix: str) -> list[Mapping[str, Any]]:
    """What `usage` saw at the places of this name, as far as there is anything."""
    return [one for one in places(record, "usage", prefix) if one.get("seconds")]


def has_foreign_time(record: TrialRecord) -> bool:
    """Whether the time of a server's CPUs may be others' too: a kernel of its own would tell its context switches."""
    return any(
        "context_switches" not in one and any(name.startswith("cpu.") for name in one) for one in _servers(record)
    )


def answered(record: TrialRecord) -> float | None:
    """Requests that got a reply, whichever and whenever: `transactions` lacks error pages, and of a closed loop the
    replies after the window, of which there are the more the longer each takes.

    None where the record does not tell, or where what it tells are no requests: bytes, or runs of a program that counts
    its own.
    """
    count = record.responses.get("transactions")
    if count is None or count.unit or record.events is None or record.events < count.value:
        return None
    return record.events or None


def _shared_out(record: TrialRecord, rates: Iterable[tuple[Mapping[str, Any], float]]) -> float | None:
    """What happened in these places, at so much in a second, for each request or event; None where none is told.

    A rate is an average over all the time in which its place was watched, and that is longer than the load: servers
    wait for the instant at which several clients begin, and for what is late at the end. So all that happened in it is
    shared out to all requests that were answered in it, as `cpu_per_event` is. What was done for requests that got no
    reply is in it too. Of events there is only their rate; the one program that makes them waits for nobody. So it is
    of requests in records of a version that did not keep their number: that is too little by as much as the wait.
    """
    count = answered(record)
    if count is not None:
        return sum(rate * float(place["seconds"]) for place, rate in rates) / count
    for name in ("throughput", "events"):
        each = record.responses.get(name)
        if each is not None and each.unit == "1/s" and each.value > 0:
            return sum(rate for _, rate in rates) / each.value
    return None


def _rate(place: str, name: str) -> Callable[[TrialRecord], float | None]:
    """Of all servers together, or of their whole host, whoever's, for each request or event."""

    def of(record: TrialRecord) -> float | None:
        told = [(one, one[name]) for one in list_watched(record, place) if name in one]
        return _shared_out(record, told) if told else None

    return of


def _clocks_apart(record: TrialRecord) -> float | None:
    """By how much the server's clock is surely ahead of the client's, or behind it, when both begin to have packets."""
    told = [one for one in traces(record) if "clock_offset" in one and "clock_uncertainty" in one]
    apart = (abs(one["clock_offset"]) - one["clock_uncertainty"] for one in told)
    return max(0.0, *apart) if told else None


def _time(*states: str) -> Callable[[TrialRecord], float | None]:
    """CPU seconds in these states, of all CPUs of the servers and whoever's, for each request or event."""

    def of(record: TrialRecord) -> float | None:
        told = [
            (one, _cpus(one) * sum(one.get(f"cpu.all.{state}", 0.0) for state in states) / 100)
            for one in _servers(record)
        ]
        return _shared_out(record, told) if told else None

    return of


def _cpus(place: Mapping[str, Any]) -> int:
    return len({name.split(".")[1] for name in place if name.startswith("cpu.")} - {"all"}) or 1


def is_told_of_steal(record: TrialRecord) -> bool:
    """Whether each server's kernel learns of time that is stolen from it: a guest under emulation does not."""
    return all("steal" not in one for one in _servers(record))


def _share(state: str) -> Callable[[TrialRecord], float | None]:
    def of(record: TrialRecord) -> float | None:
        told = [one.get(f"cpu.all.{state}", 0.0) / 100 for one in _servers(record)]
        return statistics.fmean(told) if told else None

    return of


def _stolen(record: TrialRecord) -> float | None:
    """Nothing where a kernel is not told: what it counts is no figure."""
    return _share("steal")(record) if is_told_of_steal(record) else None


def _response(name: str) -> Callable[[TrialRecord], float | None]:
    def of(record: TrialRecord) -> float | None:
        response = record.responses.get(name)
        return None if response is None else response.value

    return of


def _make_seldom(
    name: str,
    title: str,
    of: Callable[[TrialRecord], float | None],
    unit: str = "",
    slight: float = _SELDOM,
    least: float = 0.0,
) -> Trait:
    """Of what may well be none, and has no ratio then."""
    return Trait(name, title, of, unit, slight, least, "difference")


_OF_PACKETS = (
    Trait("packets", "packets for each request", for_each("packets"), least=_HARDLY),
    Trait("bytes", "bytes for each request", for_each("bytes"), "B", least=_HARDLY_BYTES),
    Trait("segments", "segments of the server for each request", for_each("segments"), least=_HARDLY),
    _make_seldom("super_segments", "super-segments for each request", for_each("coalesced"), least=_HARDLY),
    _make_seldom("acks", "bare ACKs of the client for each request", for_each("acks"), least=_HARDLY),
    _make_seldom("joined_writes", "small writes joined for each request", for_each("joined_writes"), least=_HARDLY),
    _make_seldom(
        "autocorked",
        "writes that the server's kernel corked for each request",
        counted("TCPAutoCorking", "server-"),
        least=_HARDLY,
    ),
    _make_seldom("retransmitted", "segments that kernels sent again for each request", counted("RetransSegs")),
    _make_seldom("lost", "share of packets lost between both ends", crossing("lost"), "share", _FEW),
    _make_seldom("reordered", "segments that came late for each request", late(requests)),
    _make_seldom("overtaken", "share of packets overtaken between both ends", crossing("overtaken"), "share", _FEW),
    _make_seldom(
        "out_of_order",
        "segments that the client's kernel queued out of order for each request",
        counted("TCPOFOQueue", "client-"),
    ),
    Trait("stream_packets", "packets for each MiB", of_stream("packets_per_mib"), least=_SELDOM),
    Trait("stream_segments", "segments for each MiB", of_stream("segments_per_mib"), least=_SELDOM),
    _make_seldom("stream_super_segments", "super-segments for each MiB", of_stream("coalesced_per_mib"), least=_SELDOM),
    _make_seldom("stream_acks", "bare ACKs for each MiB", of_stream("acks_per_mib"), least=_SELDOM),
    _make_seldom(
        "stream_retransmitted",
        "segments that kernels sent again for each MiB",
        counted("RetransSegs", among=mebibytes),
    ),
    _make_seldom("stream_reordered", "segments that came late for each MiB", late(mebibytes)),
)

TRAITS = (
    *_OF_PACKETS,
    Trait("network", "time of a request on the way, there and back", typical("network"), "s"),
    Trait("server", "time of a request in the server", typical("server"), "s"),
    _make_seldom("transfer", "time in which a reply comes in", typical("transfer"), "s", 0.0),
    Trait("interrupts", "interrupts in the server for each request", _rate("server-", "interrupts")),
    Trait("context_switches", "context switches in the server for each request", _rate("server-", "context_switches")),
    Trait("host_interrupts", "interrupts of the whole host for each request", _rate("host", "interrupts")),
    Trait(
        "host_context_switches",
        "context switches of the whole host for each request",
        _rate("host", "context_switches"),
    ),
    _make_seldom("exits", "exits of guests to the host's kernel for each request", _rate("host", "exits")),
    Trait("kernel_time", "time of the server's CPUs in the kernel for each request", _time("sys"), "s"),
    Trait("interrupt_time", "time of the server's CPUs in interrupts for each request", _time("irq", "soft"), "s"),
    Trait("user_time", "time of the server's CPUs in programs for each request", _time("usr", "nice"), "s"),
    _make_seldom("steal", "share of the time of the server's CPUs that was stolen", _stolen, "share", _SOME_TIME),
    _make_seldom("clock", "time by which the clocks of both ends differ", _clocks_apart, "s", _CLOSE),
    _make_seldom("idle", "share of the time of the server's CPUs that was idle", _share("idle"), "share", _SOME_TIME),
    Trait("cpu_per_event", "CPU time of the host for each request", _response("cpu_per_event"), "s"),
)
"""In the order in which they are told when nothing else tells them apart."""

OF_PACKETS = frozenset(one.name for one in _OF_PACKETS)
"""What captures, and kernels beside them, tell of packets."""

OF_CPUS = frozenset({"kernel_time", "interrupt_time", "user_time", "steal", "idle"})
"""What they tell of CPUs, whoever's programs ran there."""
