"""The files that tcpdump leaves: one that ends when it is full, or two that take turns and are put together. Pure."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

_FILE_HEADER = 24
_PACKET_HEADER = struct.Struct("<IIII")
_BIG_ENDIAN = struct.Struct(">IIII")
_MAGIC_BIG = (b"\xa1\xb2\xc3\xd4", b"\xa1\xb2\x3c\x4d")


@dataclass(frozen=True)
class JoinedCapture:
    content: bytes
    held: int
    """Packets."""


def join_captures(files: Sequence[bytes]) -> JoinedCapture:
    """Captures of one interface as one, by the time of their first packet. A packet that is cut ends its file."""
    walked = sorted((_walk_packets(one) for one in files if len(one) >= _FILE_HEADER), key=lambda one: one[0])
    if not walked:
        return JoinedCapture(b"", 0)
    header = next(one for one in files if len(one) >= _FILE_HEADER)[:_FILE_HEADER]
    return JoinedCapture(header + b"".join(packets for _, _, packets in walked), sum(count for _, count, _ in walked))


def _walk_packets(content: bytes) -> tuple[tuple[int, int], int, bytes]:
    """The time of the first packet, how many there are, and all of them."""
    header = _BIG_ENDIAN if content[:4] in _MAGIC_BIG else _PACKET_HEADER
    place, count, first = _FILE_HEADER, 0, (2**32, 0)
    while place + header.size <= len(content):
        seconds, fraction, captured, _ = header.unpack_from(content, place)
        if place + header.size + captured > len(content):
            break
        first = first if count else (seconds, fraction)
        count += 1
        place += header.size + captured
    return first, count, content[_FILE_HEADER:place]
