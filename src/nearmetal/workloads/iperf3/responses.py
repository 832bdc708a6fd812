"""From what the clients' iperf3 measured to the responses of a trial, and to what a reader should know. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean

from nearmetal.model import Response, ResponseKind, Warned
from nearmetal.units import show_share, show_unit
from nearmetal.workloads.iperf3.output import Iperf3Run, Way
from nearmetal.workloads.iperf3.parameters import Iperf3Parameters

ONE_WAY = ResponseKind(unit="bit/s", better="higher")
BANDWIDTH = ResponseKind(
    unit="bit/s", better="higher", title="bandwidth", clause="moves {ratio} × the data per second of {reference}"
)
TRANSFER = ResponseKind(unit="B", better="higher", title="transfer", clause="moves {ratio} × the data of {reference}")
JITTER = ResponseKind(unit="s", better="lower", title="jitter")
LOSS = ResponseKind(unit="share", better="lower", scale="difference", title="loss")
RETRANSMITS = ResponseKind(unit="", better="lower", scale="difference", title="retransmits")

SHORT = 0.01
"""Share of the offered rate. On a free processor iperf3 keeps it within 0.0005; half the default margin is missing
when it does not send this much."""

BUSY = 0.95
"""Share of a processor. iperf3 sends from one thread, which loses some to interrupts when it never waits."""


def list_kinds(given: Iperf3Parameters) -> Mapping[str, ResponseKind]:
    """What a run can give; the primary first."""
    ways = {"bandwidth_forward": ONE_WAY, "bandwidth_reverse": ONE_WAY} if given.direction == "both" else {}
    own = {"jitter": JITTER, "loss": LOSS} if given.protocol == "udp" else {"retransmits": RETRANSMITS}
    return {"bandwidth": BANDWIDTH, **ways, "transfer": TRANSFER, **own}


def make_responses(runs: Sequence[Iperf3Run], given: Iperf3Parameters) -> dict[str, Response]:
    """Over all clients: bandwidths, bytes and retransmits are sums, jitter is the mean, loss that of all datagrams.

    Where nothing arrived, no bandwidth, transfer or jitter was measured: they are not there.
    """
    each: Mapping[str, Callable[[Iperf3Run], float | None]] = {
        "bandwidth": lambda run: run.bandwidth,
        "bandwidth_forward": lambda run: run.forward.received.bits_per_second if run.forward else 0.0,
        "bandwidth_reverse": lambda run: run.reverse.received.bits_per_second if run.reverse else 0.0,
        "transfer": lambda run: float(run.transfer),
        "jitter": _measure_jitter,
        "loss": lambda run: _measure_loss([run]),
        "retransmits": lambda run: float(sum(way.sent.retransmits or 0 for way in run.ways)),
    }
    found = {}
    for name, kind in list_kinds(given).items():
        by_client = tuple(value for value in map(each[name], runs) if value is not None)
        if len(by_client) < len(runs) or (name in _ARRIVED and not any(by_client)):
            continue
        whole = {"jitter": fmean(by_client), "loss": _measure_loss(runs)}.get(name, sum(by_client))
        found[name] = kind.of(whole, by_client=by_client if len(runs) > 1 else None)
    return found


def count_events(runs: Sequence[Iperf3Run], given: Iperf3Parameters) -> float:
    """Bytes that arrived, those of the warm-up included at the measured rate: the host's cost contains them too."""
    return sum(run.transfer + run.bandwidth / 8 * given.warmup for run in runs)


_ARRIVED = ("bandwidth", "bandwidth_forward", "bandwidth_reverse", "transfer")
"""What is only there when something arrived."""


def _measure_jitter(run: Iperf3Run) -> float | None:
    """Seconds; where data flow both ways, the mean of the two. None where a way has nothing that arrived."""
    if not all(way.received.bytes for way in run.ways):
        return None
    return fmean((way.received.jitter_ms or 0.0) / 1e3 for way in run.ways)


def _measure_loss(runs: Sequence[Iperf3Run]) -> float:
    """The share of all datagrams that did not arrive, as the receivers tell by the numbers in those that did.

    A datagram that arrives twice makes up for one that was lost, in iperf3's count; never for more than all.
    """
    datagrams = [way.datagrams for run in runs for way in run.ways]
    return max(0, sum(lost for lost, _ in datagrams)) / max(1, sum(sent for _, sent in datagrams))


def list_warnings(runs: Sequence[Iperf3Run], given: Iperf3Parameters) -> list[Warned]:
    """What a reader should know though the trial counts."""
    return [
        warning
        for client, run in enumerate(runs)
        for which, way in (("the client", run.forward), ("the server", run.reverse))
        if way is not None
        for warning in _warn_of_way(client, which, way, given)
    ]


def _warn_of_way(client: int, which: str, way: Way, given: Iperf3Parameters) -> Iterator[Warned]:
    who, used = f"{which} (client {client})", f"{show_share(way.sender_cpu, 0)} of a processor"
    if not way.received.bytes:
        text = f"nothing of what {who} sent arrived, so that its loss is 100 % and there is no jitter"
        yield Warned(code="nothing-arrived", text=text)
    elif given.protocol == "udp" and given.rate is not None:
        if way.sent.bits_per_second < (1 - SHORT) * given.rate:
            offered, sent = show_unit(given.rate, "bit/s"), show_unit(way.sent.bits_per_second, "bit/s")
            yield Warned(code="rate-not-reached", text=f"{who} offered {offered} and sent {sent}, with {used}")
    elif way.sender_cpu > BUSY:
        limits = "what was measured may be its capacity and not the network's"
        code = "client-limited" if which == "the client" else "server-limited"
        yield Warned(code=code, text=f"{who} used {used} to send, and iperf3 sends from one thread: {limits}")
