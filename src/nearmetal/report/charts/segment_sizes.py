"""Segments by size: a bar for each power of two, as a share of all."""

from collections.abc import Sequence
from dataclasses import dataclass

from nearmetal.report.charts.grammar import HALF, Spec, make_chart, make_field, make_layer
from nearmetal.report.charts.tooltips import join_tip


@dataclass(frozen=True)
class Bucket:
    """Segments of `first` to `last` bytes of payload."""

    first: int
    last: int
    count: int


def draw_sizes(title: str, subtitle: str, colour: str, buckets: Sequence[Bucket], domain: Sequence[int]) -> Spec:
    """One picture, titled by its treatment. `domain` are the first bytes of all buckets shown: they share an axis."""
    whole = sum(bucket.count for bucket in buckets) or 1
    rows = [
        {
            "from": _name_size(bucket.first),
            "share": 100 * bucket.count / whole,
            "tip": join_tip(
                title, f"{bucket.first:,} to {bucket.last:,} bytes", f"{100 * bucket.count / whole:.3g} % of segments"
            ),
        }
        for bucket in buckets
    ]
    x = make_field(
        "from",
        "nominal",
        title="bytes of payload, from",
        sort=None,
        scale={"domain": [_name_size(first) for first in domain]},
        axis={"labelAngle": 0, "grid": False, "labelOverlap": "greedy"},
    )
    y = make_field(
        "share",
        title="% of segments",
        scale={"domain": [0, 100]},
        axis={"values": [0, 25, 50, 75, 100], "format": "d"},
    )
    mark: Spec = {"type": "bar", "color": colour}
    return make_chart(title, subtitle, HALF - 62, 120, [make_layer(rows, mark, x=x, y=y)])


def _name_size(size: int) -> str:
    return f"{size // 1024}Ki" if size >= 1024 and size % 1024 == 0 else str(size)
