"""What captures, and kernels beside them, tell of packets, for one trial at a time: for each request, MiB or packet."""

import statistics
from collections.abc import Callable, Mapping
from typing import Any

from nearmetal.model import TrialRecord
from nearmetal.units import MIB


def places(record: TrialRecord, observer: str, prefix: str) -> list[Mapping[str, Any]]:
    observed = record.observers.get(observer, {})
    return [place for name, place in observed.items() if name.startswith(prefix)]


def traces(record: TrialRecord) -> list[Mapping[str, Any]]:
    """The figures of each client's requests, as far as there are any."""
    return [one for one in places(record, "capture", "trace-") if one.get("requests")]


def streams(record: TrialRecord) -> list[Mapping[str, Any]]:
    """Captures that hold no requests, but bytes."""
    return [one for one in places(record, "capture", "trace-") if one.get("payload")]


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


def of_stream(name: str) -> Callable[[TrialRecord], float | None]:
    """Of all clients together, for each MiB; they tell it so."""

    def of(record: TrialRecord) -> float | None:
        told = [one for one in streams(record) if name in one]
        payload = sum(one["payload"] for one in told)
        return sum(one[name] * one["payload"] for one in told) / payload if told else None

    return _of_whole(of)


def typical(name: str) -> Callable[[TrialRecord], float | None]:
    """The mean over clients; they tell it for each request, or as the median time of those that a capture holds."""

    def of(record: TrialRecord) -> float | None:
        told = [one[name] for one in traces(record) if name in one]
        return statistics.fmean(told) if told else None

    return of


def for_each(name: str) -> Callable[[TrialRecord], float | None]:
    """A count for each request."""
    return _of_whole(typical(name))


def requests(record: TrialRecord) -> float:
    return float(sum(one["requests"] for one in traces(record)))


def mebibytes(record: TrialRecord) -> float:
    return float(sum(one["payload"] for one in streams(record)) / MIB)


def late(among: Callable[[TrialRecord], float]) -> Callable[[TrialRecord], float | None]:
    """Segments that came late in the whole trial, shared out to its requests or MiB."""

    def of(record: TrialRecord) -> float | None:
        told = [one["reordered"] for one in places(record, "capture", "trace-") if "reordered" in one]
        whole = among(record)
        return sum(told) / whole if told and whole else None

    return _of_whole(of)


def crossing(name: str) -> Callable[[TrialRecord], float | None]:
    """The share of packets that crossed.

    Both are counted alike in a trial, and not always in another: on the way a super-segment is one packet, or as many
    as it was cut into.
    """

    def of(record: TrialRecord) -> float | None:
        told = [one for one in places(record, "capture", "trace-") if one.get("crossed") and name in one]
        return sum(one[name] for one in told) / sum(one["crossed"] for one in told) if told else None

    return _of_whole(of)


def counted(
    counter: str, end: str = "", among: Callable[[TrialRecord], float] = requests
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
