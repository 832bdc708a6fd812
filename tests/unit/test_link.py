"""What shapes a link, and with which words."""

import pytest

from nearmetal.lab.networks import link
from nearmetal.lab.networks.link import Shaper
from nearmetal.model import LinkSpec

RATE = LinkSpec(rate=50e6)
DELAYED = LinkSpec(delay=0.005, jitter=0.001, loss=0.01)
ALL = frozenset({"netem", "tbf", "htb"})


@pytest.mark.parametrize(
    ("spec", "kernel_has", "by"),
    [
        (LinkSpec(), ALL, "none"),
        (LinkSpec(switch="direct"), ALL, "none"),
        (RATE, ALL, "netem"),
        (RATE, frozenset({"tbf", "htb"}), "tbf"),
        (RATE, frozenset({"htb"}), "htb"),
        (RATE, frozenset(), "relay"),
        (DELAYED, frozenset({"tbf", "htb"}), "relay"),
        # netem reorders only what it delays.
        (LinkSpec(reorder=0.01), ALL, "relay"),
        (LinkSpec(reorder=0.01, delay=0.001), ALL, "netem"),
    ],
)
def test_the_kernel_shapes_what_it_can(spec: LinkSpec, kernel_has: frozenset[str], by: Shaper) -> None:
    assert link.choose_shaper(spec, kernel_has) == by


def test_the_words_of_each_shaper() -> None:
    slow = LinkSpec(rate=1e6, delay=0.001, reorder=0.05)
    root = "qdisc add dev far0 root"
    expected: tuple[tuple[LinkSpec, Shaper, list[str]], ...] = (
        (RATE, "tbf", [f"{root} tbf rate 50000000bit burst 25000 limit 1514000"]),
        (
            RATE,
            "htb",
            [
                f"{root} handle 1: htb default 1",
                "class add dev far0 parent 1: classid 1:1 htb rate 50000000bit quantum 1514 burst 25000 cburst 25000",
                "qdisc add dev far0 parent 1:1 bfifo limit 1514000",
            ],
        ),
        (DELAYED, "netem", [f"{root} netem limit 65536 delay 5000us 1000us loss random 1%"]),
        (slow, "netem", [f"{root} netem limit 1001 delay 1000us reorder 5% rate 1000000bit"]),
    )
    for spec, by, commands in expected:
        assert [" ".join(words) for words in link.build_discipline(spec, by, "far0")] == commands
    assert link.build_relay(slow, 7) == [
        "--seed",
        "7",
        "--delay",
        "1000us",
        "--reorder",
        "5%",
        "--rate",
        "1000000bit/s",
    ]
    assert link.build_relay(DELAYED, 8) == ["--seed", "8", "--delay", "5000us", "--jitter", "1000us", "--loss", "1%"]


def test_what_a_long_wire_holds_is_no_queue() -> None:
    """netem drops what is under way when its limit is reached: 60 Mbit/s over 300 ms is 1,487 frames."""
    (words,) = link.build_discipline(LinkSpec(rate=60e6, delay=0.25, jitter=0.05), "netem", "far0")
    assert words[words.index("limit") + 1] == "2487"


def test_where_machines_hang() -> None:
    assert [link.choose_bridge(LinkSpec(), role) for role in ("server", "client")] == ["switch", "switch"]
    assert [link.choose_bridge(RATE, role) for role in ("server", "client")] == ["switch", "clients"]
    own = LinkSpec(rate=1e6, each=True)
    assert [link.choose_bridge(own, role) for role in ("server", "client")] == ["switch", None]
    assert [link.choose_bridge(LinkSpec(each=True), role) for role in ("server", "client")] == ["switch", "switch"]
    assert [link.choose_bridge(LinkSpec(switch="direct"), role) for role in ("server", "client")] == [None, None]
