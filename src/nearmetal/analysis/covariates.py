"""What records tell beside their responses, each as one number of a trial that can be compared with another's. Pure.

What captures, and kernels beside them, tell of packets is told for each request, MiB or packet.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from nearmetal.model import Scale, TrialRecord
from nearmetal.units import MIB


def list_places(record: TrialRecord, observer: str, prefix: str) -> list[Mapping[str, Any]]:
    observed = record.observers.get(observer, {})
    return [place for name, place in observed.items() if name.startswith(prefix)]


def list_traces(record: TrialRecord) -> list[Mapping[str, Any]]:
    """The figures of each client's requests, as far as there are any."""
    return [one for one in list_places(record, "capture", "trace-") if one.get("requests")]


def list_payloads(record: TrialRecord) -> list[Mapping[str, Any]]:
    """Captures that hold no requests, but bytes."""
    return [one for one in list_places(record, "capture", "trace-") if one.get("payload")]


def is_whole(captured: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether captures hold all packets.

    Where they do not, what is cut off at the end is in some counts, not in all, and kernels counted of more requests
    than are known.
    """
    return not any(
        one.get(sign) for one in captured.values() for sign in ("limit_reached", "dropped_by_kernel", "problem")
    )


def _of_whole(of: Callable[[TrialRecord], float | None]) -> Callable[[TrialRecord], float | None]:
    """Nothing where a capture is not whole."""
    return lambda record: of(record) if is_whole(record.observers.get("capture", {})) else None


def count_each_mebibyte(name: str) -> Callable[[TrialRecord], float | None]:
    """Of all clients together, for each MiB; they tell it so."""

    def of(record: TrialRecord) -> float | None:
        told = [one for one in list_payloads(record) if name in one]
        payload = sum(one["payload"] for one in told)
        return sum(one[name] * one["payload"] for one in told) / payload if told else None

    return _of_whole(of)


def average_clients(name: str) -> Callable[[TrialRecord], float | None]:
    """The mean over clients; they tell it for each request, or as the median time of those that a capture holds."""

    def of(record: TrialRecord) -> float | None:
        told = [one[name] for one in list_traces(record) if name in one]
        return statistics.fmean(told) if told else None

    return of


def count_each(name: str) -> Callable[[TrialRecord], float | None]:
    """A count for each request."""
    return _of_whole(average_clients(name))


def count_requests(record: TrialRecord) -> float:
    return float(sum(one["requests"] for one in list_traces(record)))


def count_mebibytes(record: TrialRecord) -> float:
    return float(sum(one["payload"] for one in list_payloads(record)) / MIB)


def count_late(among: Callable[[TrialRecord], float]) -> Callable[[TrialRecord], float | None]:
    """Segments that came late in the whole trial, shared out to its requests or MiB."""

    def of(record: TrialRecord) -> float | None:
        told = [one["reordered"] for one in list_places(record, "capture", "trace-") if "reordered" in one]
        whole = among(record)
        return sum(told) / whole if told and whole else None

    return _of_whole(of)


def share_crossing(name: str) -> Callable[[TrialRecord], float | None]:
    """The share of packets that crossed.

    Both are counted alike in a trial, and not always in another: on the way a super-segment is one packet, or as many
    as it was cut into.
    """

    def of(record: TrialRecord) -> float | None:
        told = [one for one in list_places(record, "capture", "trace-") if one.get("crossed") and name in one]
        return sum(one[name] for one in told) / sum(one["crossed"] for one in told) if told else None

    return _of_whole(of)


def count_by_kernels(
    counter: str, end: str = "", among: Callable[[TrialRecord], float] = count_requests
) -> Callable[[TrialRecord], float | None]:
    """A counter of the kernels of one end or of both, for each request or MiB. What did not happen is in no record."""

    def of(record: TrialRecord) -> float | None:
        captured = record.observers.get("capture", {})
        ends = [one for name, one in captured.items() if name.startswith(end or ("client-", "server-"))]
        whole = among(record)
        # Without any counter there a kernel was not asked, or did not tell.
        if not whole or not ends or not all(any(name.startswith("kernel.") for name in one) for one in ends):
            return None
        return float(sum(one.get(f"kernel.{counter}", 0) for one in ends) / whole)

    return _of_whole(of)


@dataclass(frozen=True, slots=True)
class Covariate:
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
    def of_events(self) -> Covariate:
        """This covariate with a title for workloads whose events are no requests."""
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
    return [one for one in list_places(record, "usage", prefix) if one.get("seconds")]


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
    told = [one for one in list_traces(record) if "clock_offset" in one and "clock_uncertainty" in one]
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
) -> Covariate:
    """Of what may well be none, and has no ratio then."""
    return Covariate(name, title, of, unit, slight, least, "difference")


_OF_PACKETS = (
    Covariate("packets", "packets for each request", count_each("packets"), least=_HARDLY),
    Covariate("bytes", "bytes for each request", count_each("bytes"), "B", least=_HARDLY_BYTES),
    Covariate("segments", "segments of the server for each request", count_each("segments"), least=_HARDLY),
    _make_seldom("super_segments", "super-segments for each request", count_each("coalesced"), least=_HARDLY),
    _make_seldom("acks", "bare ACKs of the client for each request", count_each("acks"), least=_HARDLY),
    _make_seldom("joined_writes", "small writes joined for each request", count_each("joined_writes"), least=_HARDLY),
    _make_seldom(
        "autocorked",
        "writes that the server's kernel corked for each request",
        count_by_kernels("TCPAutoCorking", "server-"),
        least=_HARDLY,
    ),
    _make_seldom("retransmitted", "segments that kernels sent again for each request", count_by_kernels("RetransSegs")),
    _make_seldom("lost", "share of packets lost between both ends", share_crossing("lost"), "share", _FEW),
    _make_seldom("reordered", "segments that came late for each request", count_late(count_requests)),
    _make_seldom(
        "overtaken", "share of packets overtaken between both ends", share_crossing("overtaken"), "share", _FEW
    ),
    _make_seldom(
        "out_of_order",
        "segments that the client's kernel queued out of order for each request",
        count_by_kernels("TCPOFOQueue", "client-"),
    ),
    Covariate("stream_packets", "packets for each MiB", count_each_mebibyte("packets_per_mib"), least=_SELDOM),
    Covariate("stream_segments", "segments for each MiB", count_each_mebibyte("segments_per_mib"), least=_SELDOM),
    _make_seldom(
        "stream_super_segments", "super-segments for each MiB", count_each_mebibyte("coalesced_per_mib"), least=_SELDOM
    ),
    _make_seldom("stream_acks", "bare ACKs for each MiB", count_each_mebibyte("acks_per_mib"), least=_SELDOM),
    _make_seldom(
        "stream_retransmitted",
        "segments that kernels sent again for each MiB",
        count_by_kernels("RetransSegs", among=count_mebibytes),
    ),
    _make_seldom("stream_reordered", "segments that came late for each MiB", count_late(count_mebibytes)),
)

COVARIATES = (
    *_OF_PACKETS,
    Covariate("network", "time of a request on the way, there and back", average_clients("network"), "s"),
    Covariate("server", "time of a request in the server", average_clients("server"), "s"),
    _make_seldom("transfer", "time in which a reply comes in", average_clients("transfer"), "s", 0.0),
    Covariate("interrupts", "interrupts in the server for each request", _rate("server-", "interrupts")),
    Covariate(
        "context_switches", "context switches in the server for each request", _rate("server-", "context_switches")
    ),
    Covariate("host_interrupts", "interrupts of the whole host for each request", _rate("host", "interrupts")),
    Covariate(
        "host_context_switches",
        "context switches of the whole host for each request",
        _rate("host", "context_switches"),
    ),
    _make_seldom("exits", "exits of guests to the host's kernel for each request", _rate("host", "exits")),
    Covariate("kernel_time", "time of the server's CPUs in the kernel for each request", _time("sys"), "s"),
    Covariate("interrupt_time", "time of the server's CPUs in interrupts for each request", _time("irq", "soft"), "s"),
    Covariate("user_time", "time of the server's CPUs in programs for each request", _time("usr", "nice"), "s"),
    _make_seldom("steal", "share of the time of the server's CPUs that was stolen", _stolen, "share", _SOME_TIME),
    _make_seldom("clock", "time by which the clocks of both ends differ", _clocks_apart, "s", _CLOSE),
    _make_seldom("idle", "share of the time of the server's CPUs that was idle", _share("idle"), "share", _SOME_TIME),
    Covariate("cpu_per_event", "CPU time of the host for each request", _response("cpu_per_event"), "s"),
)
"""In the order in which they are told when nothing else tells them apart."""

OF_PACKETS = frozenset(one.name for one in _OF_PACKETS)
"""What captures, and kernels beside them, tell of packets."""

OF_CPUS = frozenset({"kernel_time", "interrupt_time", "user_time", "steal", "idle"})
"""What they tell of CPUs, whoever's programs ran there."""
