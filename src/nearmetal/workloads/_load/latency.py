"""Latencies of several clients as one distribution."""

import struct
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence

from nearmetal.errors import ToolFailed
from nearmetal.histograms import decode_histogram


def count_values(histograms: Sequence[str], without: Sequence[str]) -> Mapping[int, int]:
    """How often there is each value in several HdrHistograms (V2, compressed, base64), ascending, less those `without`.

    ToolFailed when one cannot be read, or when together they hold nothing.
    """
    found: Counter[int] = Counter()
    try:
        for parts, sign in ((histograms, 1), (without, -1)):
            for histogram in parts:
                for value, count in decode_histogram(histogram):
                    found[value] += sign * count
    except (ValueError, TypeError, struct.error, zlib.error) as error:
        raise ToolFailed(f"a latency histogram cannot be read: {error!r}") from None
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
