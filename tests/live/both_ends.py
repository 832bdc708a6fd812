"""What the captures of both ends say themselves, read by nothing of ours: which packets crossed, and in what order."""

import struct
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_NANOSECONDS = 0xA1B23C4D
_ETHERNET, _IPV4, _ADDRESSES = 14, 20, slice(12, 20)

_EPHEMERAL = 32768
"""Ports from here on are clients'."""

Way = tuple[bytes, int, int]
"""Addresses and ports of a connection, from whoever sends."""
Packet = tuple[int, int, int, int]
"""Identification, sequence number, acknowledgement, flags."""


def orders(pcap: bytes) -> Mapping[Way, Sequence[Packet]]:
    """The packets of each way in the order of the file.

    Of a little-endian file with nanoseconds, of IPv4 without options over Ethernet: as tcpdump writes it here.
    """
    assert struct.unpack_from("<I", pcap)[0] == _NANOSECONDS
    found: dict[Way, list[Packet]] = defaultdict(list)
    for packet in _packets(pcap):
        ip = packet[_ETHERNET:]
        (identification,) = struct.unpack_from("!H", ip, 4)
        source, destination, sequence, acknowledgement, flags = struct.unpack_from("!HHIIxB", ip, _IPV4)
        way = (ip[_ADDRESSES], source, destination)
        found[way].append((identification, sequence, acknowledgement, flags))
    return found


def _packets(pcap: bytes) -> Iterator[bytes]:
    at = 24
    while at < len(pcap):
        (captured,) = struct.unpack_from("<I", pcap, at + 8)
        yield pcap[at + 16 : at + 16 + captured]
        at += 16 + captured


def _overtaken(left: Sequence[Packet], arrived: Sequence[Packet]) -> int:
    """How many arrived after one that left later."""
    newest = late = 0
    for packet in arrived:
        order = left.index(packet)
        late += order < newest
        newest = max(newest, order)
    return late


def check(told: Mapping[str, Any], client: bytes, server: bytes) -> None:
    """A record's figures of a cable: nothing was lost on it, and exactly so much overtaken as the files say.

    That may be more than nothing: a bare ACK, sent by one CPU, and the next request, sent by another, are in a race.
    """
    at_client, at_server = orders(client), orders(server)
    crossed = overtaken = 0
    for way, here in at_client.items():
        there = at_server[way]
        assert sorted(here) == sorted(there)
        crossed += len(here)
        _, source, _ = way
        overtaken += _overtaken(here, there) if source >= _EPHEMERAL else _overtaken(there, here)
    assert (told["lost"], told["overtaken"], told["crossed"]) == (0, overtaken, crossed)
