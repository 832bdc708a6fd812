"""Latencies of several clients as one distribution."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from nearmetal.errors import ToolFailed


def counted(histograms: Sequence[str], without: Sequence[str]) -> Mapping[int, int]:
    """How often there is each value in several HdrHistograms (V2, compressed, base64), ascending, less those `without`.

    ToolFailed when one cannot be read, or when together they hold nothing.
    """
    found: Counter[int] = Counter()
    try:
        for parts, sign in ((histograms, 1), (without, -1)):
            for histogram in _decoded(parts):
                for index in range(histogram.counts_len):  # its own iterator takes six times as long
                    if count := histogram.get_count_at_index(index):
                        value = histogram.get_highest_equivalent_value(histogram.get_value_from_index(index))
                        found[value] += sign * count
    except Exception as error:
        raise _unreadable(error) from None
    if histograms and not found:
        raise ToolFailed("the latency histograms are empty")
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
