"""Latencies of several clients as one distribution."""

from collections.abc import Sequence

from nearmetal.errors import ToolFailed


def merged(histograms: Sequence[str], percentiles: Sequence[float]) -> list[float]:
    """Percentiles (0 to 100) over all of several HdrHistograms (V2, compressed, base64), in their own unit.

    ToolFailed when one cannot be read, or when together they hold nothing.
    """
    from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped]  # it ships no types

    try:
        total, *others = [HdrHistogram.decode(text) for text in histograms]
        for other in others:
            total.add(other)
    except Exception as error:  # the library's errors have no common root, and zlib's and base64's come through
        raise ToolFailed(f"a latency histogram cannot be read: {error!r}") from None
    if total.get_total_count() == 0:
        raise ToolFailed("the latency histograms are empty")
    return [float(total.get_value_at_percentile(percentile)) for percentile in percentiles]
