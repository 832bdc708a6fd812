"""What `ethtool -k` prints, read: the excerpt is a veth's, with what a tap and a guest's card print otherwise."""

import pytest

from nearmetal.lab.changes.ethtool import FEATURES, Feature, parse

TEXT = """Features for data:
rx-checksumming: on [fixed]
tx-checksumming: on
\ttx-checksum-ipv4: off [fixed]
\ttx-checksum-ip-generic: on
\ttx-checksum-sctp: on
scatter-gather: on
\ttx-scatter-gather: on
\ttx-scatter-gather-fraglist: off [fixed]
tcp-segmentation-offload: off
\ttx-tcp-segmentation: off [requested on]
\ttx-tcp-mangleid-segmentation: off
generic-segmentation-offload: off [requested on]
generic-receive-offload: on
large-receive-offload: off [fixed]
rx-vlan-offload: on
"""


def test_every_feature_is_known_by_its_short_name() -> None:
    found = parse(TEXT)
    assert {name: found[name].told for name in FEATURES} == {
        "tso": "off [requested on]",
        "gso": "off [requested on]",
        "lro": "off [fixed]",
        "gro": "on",
        "tx": "on",
        "rx": "on [fixed]",
        "sg": "on",
    }
    assert found["generic-receive-offload"] is found["gro"]
    assert found["tx-checksum-ip-generic"].is_on


def test_what_a_feature_stands_for_is_what_is_on_below_it() -> None:
    found = parse(TEXT)
    assert found["tx"].parts == ("tx-checksum-ip-generic", "tx-checksum-sctp")
    assert found["sg"].parts == ("tx-scatter-gather",)
    assert found["tso"].parts == ()
    assert found["gro"].parts == ()


def test_fixed_and_refused_are_told_apart() -> None:
    found = parse(TEXT)
    assert [name for name in FEATURES if found[name].is_fixed] == ["lro", "rx"]
    assert [name for name in FEATURES if found[name].is_refused] == ["tso", "gso"]
    assert not Feature(True, "requested off").is_refused


@pytest.mark.parametrize("text", ["", "netlink error: No such device", "Features for data:\n", "tso: maybe\n: on\n"])
def test_what_is_no_list_has_no_features(text: str) -> None:
    assert parse(text) == {}
