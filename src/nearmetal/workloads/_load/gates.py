"""Whether the load generator itself can be believed. Pure; judges the instrument and never sees a response."""

from collections.abc import Iterator, Mapping, Sequence
from math import sqrt

from nearmetal.model import Warned
from nearmetal.units import show_duration, show_share
from nearmetal.workloads._load.document import LoadDocument

LATE = 5e-3
"""Seconds at the percentile. A scheduler's slice is about 3 ms: a generator that is later than this in one request
of a hundred shares its processor, and the arrivals and latencies that it tells are that processor's."""

LATE_AT_ALL = 1e-3
"""Seconds at the percentile. On a processor of its own the generator stays below 0.2 ms; from here on, a reader of
the tail of the latencies should know that some of it is the generator's own waiting, which they include."""

FEW = 100
"""Requests. The 99th percentile of fewer is the latest one alone, which any host has at times: the 90th counts then."""

SHORT = 0.005
"""Share of the planned requests. The generator keeps its rate within 0.0005 on a free processor: ten times that is a
load other than the declared one, by as much as a quarter of the default margin."""

SILENT = 0.1
"""Share of the window. With as much of it missing at the end, no mean or percentile is that of the whole window."""

BUSY = 0.95
"""Share of the generator's threads' processors. A thread that never waits still loses some to interrupts, so that one
at its limit shows less than 1."""


def find_invalid(documents: Sequence[LoadDocument]) -> str | None:
    """Why the trial must not count; None when the generators did what they were told."""
    return name_first(list(map(_list_reasons, documents)))


def name_first(reasons: Sequence[Iterator[str]]) -> str | None:
    """The first reason of all clients', and whose it is if there are several."""
    for client, of_client in enumerate(reasons):
        for reason in of_client:
            return f"client {client}: {reason}" if len(reasons) > 1 else reason
    return None


def _list_reasons(document: LoadDocument) -> Iterator[str]:
    no_place, unbegun = document.errors.no_place, document.errors.unbegun
    if no_place > SHORT * document.attempted:
        yield f"{no_place} of {document.attempted} requests never left the client, which had no descriptor or port left"
    if document.gave_out and document.saturation and document.saturation.rate is None:
        yield f"the generator gave out at the first rate, {document.gave_out.offered:g}/s: the server was not seen"
    if document.rate.offered is None:
        return
    if unbegun > SHORT * document.attempted:
        never = f"{unbegun} of {document.attempted} requests were never begun"
        yield f"{never}: the generator was behind by more than the timeout"
    planned = document.rate.offered * document.seconds
    # A Poisson count scatters by its root: four of these are no shortfall.
    scatter = 4 * sqrt(planned) if document.arrivals == "poisson" else 1.0
    begun = document.attempted - document.errors.own_shortages
    if planned - begun > max(SHORT * planned, scatter):
        yield f"the generator began {begun} requests of {planned:.0f}: the rate was not reached"
    share, late = _find_lateness(document)
    if late > LATE:
        began = f"{share} of the requests began {show_duration(late)} or more after their time"
        yield f"the generator was late: {began}, and {show_duration(LATE)} is tolerated"


def find_silence(document: LoadDocument) -> str | None:
    """Why a server is taken to have fallen silent: the end of the window without a reply, while requests failed.

    A ramp ends where requests fail: that is its result. The generator's own shortages are no silence of the server.
    """
    silence, window = document.silence_ns / 1e9, document.seconds
    theirs = document.errors.total - document.errors.own_shortages
    if document.steps or not theirs or silence <= SILENT * window:
        return None
    heard = show_duration(window - silence)
    first = f"the last reply came {heard} after the first request" if document.requests.completed else "no reply came"
    failed = f"{theirs} of {document.attempted} requests failed ({list_counts(document.errors.by_class)})"
    return f"the server fell silent: {first}, and none in the {show_duration(silence)} to the end; {failed}"


def _find_lateness(document: LoadDocument) -> tuple[str, float]:
    """Which share of the requests began how many seconds late, or more."""
    lateness = document.lateness_ns
    share, nanoseconds = ("10 %", lateness.p90) if lateness.count < FEW else ("1 %", lateness.p99)
    return share, (nanoseconds or 0.0) / 1e9


def list_warnings(documents: Sequence[LoadDocument], threads: int, closed: bool) -> list[Warned]:
    """What a reader should know though the trial counts. `threads` are each generator's."""
    found = [
        warning
        for client, document in enumerate(documents)
        for warnings in (
            _warn_of_generator(client, document, threads, closed),
            _warn_of_unserved(client, document),
            _warn_of_engine(client, document),
        )
        for warning in warnings
    ]
    return found + list(_warn_of_engines(documents))


def _warn_of_generator(client: int, document: LoadDocument, threads: int, closed: bool) -> Iterator[Warned]:
    share = (document.cpu_ns.user + document.cpu_ns.system) / (max(document.cpu_ns.lasted, 1) * threads)
    if closed and share > BUSY:
        limits = "what was measured may be the client's capacity and not the server's"
        used = f"client {client} used {show_share(share, 0)} of the processors of its {threads} thread(s)"
        yield Warned(code="client-limited", text=f"{used}: {limits}")
    share_late, late = _find_lateness(document)
    if document.rate.offered is not None and late > LATE_AT_ALL:
        began = f"client {client} began {share_late} of its requests {show_duration(late)} or more after their time"
        yield Warned(code="generator-late", text=f"{began}, which is part of the latencies")
    if document.gave_out:
        gave_out = f"client {client}'s generator gave out at {document.gave_out.offered:g}/s"
        yield Warned(code="generator-gave-out", text=f"{gave_out}, {_left_open(document)}")
    if document.requests.resent:
        sent = f"client {client} sent {document.requests.resent} requests again"
        why = "because the server had closed the connection that it had kept"
        yield Warned(code="requests-resent", text=f"{sent}, {why}")


def _left_open(document: LoadDocument) -> str:
    """What is known of a saturation point whose search ended with its generator."""
    upper = document.saturation.interval[1] if document.saturation else None
    if upper is None:
        return "before the server did: its saturation point is only known to lie above the rate before"
    return f"before its saturation point was narrowed down: it lies above the rate before, and below {upper:g}/s"


def _warn_of_engine(client: int, document: LoadDocument) -> Iterator[Warned]:
    """Whether a client had another engine than its like have: environments differ by what they permit."""
    engine = document.engine
    # A ramp has no times among its responses.
    is_plain = document.handshake_ns is None  # whoever speaks TLS does it by epoll, everywhere
    if engine and engine.name == "epoll" and is_plain and document.new_connections and document.saturation is None:
        yield Warned(
            code="without-io-uring",
            text=f"client {client} opened its connections by epoll ({engine.reason}): it takes connect_p50 and "
            "first_byte_p50 elsewhere than a client that may use io_uring, and the two do not compare",
        )


def _warn_of_engines(documents: Sequence[LoadDocument]) -> Iterator[Warned]:
    by_engine: dict[str, list[str]] = {}
    for client, document in enumerate(documents):
        if document.engine:
            by_engine.setdefault(document.engine.name, []).append(str(client))
    if len(by_engine) > 1:
        (one, its), (other, others) = sorted(by_engine.items(), key=lambda of_engine: of_engine[1])[:2]
        used = f"{_name_clients(its)} used {one} and {_name_clients(others)} {other}"
        yield Warned(code="engines-differ", text=f"{used}: their times are not taken alike")


def _name_clients(which: Sequence[str]) -> str:
    return f"client{'s' if len(which) > 1 else ''} {', '.join(which)}"


def _warn_of_unserved(client: int, document: LoadDocument) -> Iterator[Warned]:
    failed, pages = document.errors.total, document.error_pages
    # A ramp ends where requests fail: of it, that is the result.
    if failed and document.saturation is None:
        yield Warned(
            code="requests-failed",
            text=f"{failed} of client {client}'s {document.attempted} requests "
            f"({show_share(failed / document.attempted)}) got no reply ({list_counts(document.errors.by_class)}): "
            "in the percentiles of latency they rank above all that did",
        )
    if pages:
        errors, replies = sum(pages.values()), document.requests.completed
        yield Warned(
            code="error-pages",
            text=f"{errors} of the {replies} replies to client {client} ({show_share(errors / replies)}) were errors "
            f"({', '.join(f'{count} times {status}' for status, count in pages.items())}), which count as failed",
        )


def list_counts(by_class: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in by_class.items() if count)
