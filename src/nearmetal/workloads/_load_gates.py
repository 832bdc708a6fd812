"""Whether the load generator itself can be believed. Pure; judges the instrument and never sees a response."""

from collections.abc import Iterator, Sequence
from math import sqrt

from nearmetal.model import Warned
from nearmetal.units import show_duration
from nearmetal.workloads._load_document import LoadDocument

LATE = 1e-3
"""Seconds at the 99th percentile. A generator with a processor of its own stays below 0.2 ms; one that was later had
to wait for the processor, and its own waiting is part of the latencies it tells."""

LATE_OF_SPACING = 0.05
"""Share of the mean time between requests. At a low rate, what is later than LATE but small beside the spacing leaves
the arrivals as they were meant."""

SHORT = 0.005
"""Share of the planned requests. The generator keeps its rate within 0.0005 on a free processor: ten times that is a
load other than the declared one, by as much as a quarter of the default margin."""

BUSY = 0.95
"""Share of the generator's threads' processors. A thread that never waits still loses some to interrupts, so that one
at its limit shows less than 1."""

OWN_SHORTAGES = ("fd_unavailable", "fd_table_full", "address_unavailable")
"""Errors by which a request never left the client: no descriptor or no port to send it from."""


def invalid(documents: Sequence[LoadDocument]) -> str | None:
    """Why the trial must not count; None when the generators did what they were told."""
    for client, document in enumerate(documents):
        for reason in _reasons(document):
            return f"client {client}: {reason}" if len(documents) > 1 else reason
    ends = {document.saturation.censored for document in documents if document.saturation}
    if {"left", "right"} <= ends:
        return "some clients' ramps ended too early and others' began too late, so that their sum bounds nothing"
    return None


def _reasons(document: LoadDocument) -> Iterator[str]:
    own = sum(document.errors.get(name, 0) for name in OWN_SHORTAGES)
    if own > SHORT * document.attempted:
        yield f"{own} of {document.attempted} requests never left the client, which had no descriptor or port left"
    if document.rate.offered is not None:
        yield from _short(document, document.rate.offered, document.attempted - own)
        yield from _late(document, max(LATE, LATE_OF_SPACING / document.rate.offered))
    elif document.saturation is not None:
        yield from _late(document, LATE)


def _short(document: LoadDocument, offered: float, begun: int) -> Iterator[str]:
    planned = offered * document.seconds
    # A Poisson count scatters by its root: four of these are no shortfall.
    scatter = 4 * sqrt(planned) if document.arrivals == "poisson" else 1.0
    if planned - begun > max(SHORT * planned, scatter):
        yield f"the generator began {begun} requests of {planned:.0f}: the rate was not reached"


def _late(document: LoadDocument, allowed: float) -> Iterator[str]:
    late = (document.lateness_ns.p99 or 0.0) / 1e9
    if late > allowed:
        yield (
            f"the generator was late: 1 % of the requests began {show_duration(late)} or more after their time, "
            f"and {show_duration(allowed)} is tolerated"
        )


def warnings(documents: Sequence[LoadDocument], threads: int, closed: bool) -> list[Warned]:
    """What a reader should know though the trial counts. `threads` are each generator's."""
    found = []
    for client, document in enumerate(documents):
        share = (document.cpu_ns.user + document.cpu_ns.system) / (max(document.elapsed_ns, 1) * threads)
        if closed and share > BUSY:
            found.append(
                Warned(
                    code="client-limited",
                    text=f"client {client} used {share:.0%} of the processors of its {threads} thread(s): "
                    "what was measured may be the client's capacity and not the server's",
                )
            )
        if document.requests.resent:
            found.append(
                Warned(
                    code="requests-resent",
                    text=f"client {client} sent {document.requests.resent} requests again, because the server had "
                    "closed the connection that it had kept",
                )
            )
    return found
