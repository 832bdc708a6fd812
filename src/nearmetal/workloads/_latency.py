"""Latencies of several clients as one distribution."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from nearmetal.errors import ToolFailed


def merged(histograms: Sequence[str], percentiles: Sequence[float]) -> list[float]:
    """Percentiles (0 to 100) over all of several HdrHistograms (V2, compressed, base64), in their own unit.

    ToolFailed when one cannot be read, or when together they hold nothing.
    """
    try:
        total, *others = _decoded(histograms)
        for other in others:
            total.add(other)
    except Exception as error:
        raise _unreadable(error) from None
    if total.get_total_count() == 0:
        raise ToolFailed("the latency histograms are empty")
    return [float(total.get_value_at_percentile(percentile)) for percentile in percentiles]


def counted(histograms: Sequence[str], without: Sequence[str]) -> Mapping[int, int]:
    """How often there is each value in several such histograms, ascending, less those that others hold as well.

    ToolFailed when one cannot be read.
    """
    found: Counter[int] = Counter()
    try:
        for parts, sign in ((histograms, 1), (without, -1)):
            for histogram in _decoded(parts):
                for step in histogram.get_recorded_iterator():
                    found[step.value_iterated_to] += sign * step.count_added_in_this_iter_step
    except Exception as error:
        raise _unreadable(error) from None
    return {value: count for value, count in sorted(found.items()) if count > 0}


def at_rank(counts: Mapping[int, int], rank: int) -> float:
    """The value of that rank, from 1, of ascending values; the greatest where they are not as many."""
    below = 0
    for value, count in counts.items():
        below += count
        if below >= rank:
            return float(value)
    return float(max(counts, default=0))


def _decoded(histograms: Sequence[str]) -> list[Any]:
    from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped]  # it ships no types

    return [HdrHistogram.decode(text) for text in histograms]


def _unreadable(error: Exception) -> ToolFailed:
    """The library's errors have no common root, and zlib's and base64's come through."""
    return ToolFailed(f"a latency histogram cannot be read: {error!r}")
