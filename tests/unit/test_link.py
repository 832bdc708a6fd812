"""What shapes a link, and with which words."""

import pytest

from nearmetal.lab import link
from nearmetal.lab.link import Shaper
from nearmetal.model import LinkSpec

RATE = LinkSpec(rate=50e6)
DELAYED = LinkSpec(delay=0.005, jitter=0.001, loss=0.01)
BOTH = frozenset({"netem", "tbf"})


@pytest.mark.parametrize(
    ("spec", "kernel_has", "by"),
    [
        (LinkSpec(), BOTH, "none"),
        (LinkSpec(switch="direct"), BOTH, "none"),
        (RATE, BOTH, "netem"),
        (RATE, frozenset({"tbf"}), "tbf"),
        (RATE, frozenset(), "relay"),
        (DELAYED, frozenset({"tbf"}), "relay"),
        # netem reorders only what it delays.
        (LinkSpec(reorder=0.01), BOTH, "relay"),
        (LinkSpec(reorder=0.01, delay=0.001), BOTH, "netem"),
    ],
)
def test_the_kernel_shapes_what_it_can(spec: LinkSpec, kernel_has: frozenset[str], by: Shaper) -> None:
    assert link.shaper(spec, kernel_has) == by


def test_the_words_of_each_shaper() -> None:
    assert link.discipline(RATE, "tbf") == ["tbf", "rate", "50000000bit", "burst", "25000", "limit", "1514000"]
    assert link.discipline(DELAYED, "netem") == [
        "netem",
        "limit",
        "65536",
        "delay",
        "5000us",
        "1000us",
        "loss",
        "random",
        "1%",
    ]
    slow = LinkSpec(rate=1e6, delay=0.001, reorder=0.05)
    assert link.discipline(slow, "netem") == [
        "netem",
        "limit",
        "1000",
        "delay",
        "1000us",
        "reorder",
        "5%",
        "rate",
        "1000000bit",
    ]
    assert link.relay(slow) == ["--delay", "1000us", "--reorder", "5%", "--rate", "1000000bit/s"]
    assert link.relay(DELAYED) == ["--delay", "5000us", "--jitter", "1000us", "--loss", "1%"]


def test_where_machines_hang() -> None:
    assert [link.bridge(LinkSpec(), role) for role in ("server", "client")] == ["switch", "switch"]
    assert [link.bridge(RATE, role) for role in ("server", "client")] == ["switch", "clients"]
    assert [link.bridge(LinkSpec(switch="direct"), role) for role in ("server", "client")] == [None, None]
