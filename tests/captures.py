"""Captures with a known content, written packet by packet: none is committed, and what they hold is read here."""

import socket
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

CLIENT, SERVER = ("10.0.0.2", 40_000), ("10.0.0.1", 80)
REQUEST = b"GET / HTTP/1.1\r\nHost: 10.0.0.1\r\n\r\n"
REPLY = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
ROUND_TRIP = 1_000
"""Microseconds between a request and the next on a connection that stays open."""
ON_THE_WAY = 7
"""Microseconds from one end to the other."""
_SYN, _ACK, _PUSH = 0x02, 0x10, 0x08


class Packet(NamedTuple):
    """One TCP segment on its way: when it leaves its sender (in microseconds), whose it is, and what it carries."""

    at: int
    of_client: bool
    numbers: tuple[int, int]
    payload: bytes = b""
    flags: int = _ACK | _PUSH

    @property
    def bytes(self) -> bytes:
        """As a capture of raw IPv4 has it. Checksums are left out, as a NIC that computes them does."""
        (own, port), (other, to) = (CLIENT, SERVER) if self.of_client else (SERVER, CLIENT)
        length = 40 + len(self.payload)
        network = struct.pack("!BBHHHBBH", 0x45, 0, length, 1, 0x4000, 64, 6, 0) + socket.inet_aton(own)
        segment = struct.pack("!HHIIBBHHH", port, to, *self.numbers, 5 << 4, self.flags, 500, 0, 0)
        return network + socket.inet_aton(other) + segment + self.payload


def conversation(requests: int, reply: bytes = REPLY) -> Iterable[Packet]:
    """A handshake, and as many requests on the connection, each answered 100 us after it came."""
    sent, received = 1_001, 5_001
    yield Packet(0, True, (sent - 1, 0), flags=_SYN)
    yield Packet(10, False, (received - 1, sent), flags=_SYN | _ACK)
    yield Packet(20, True, (sent, received), flags=_ACK)
    for number in range(requests):
        start = ROUND_TRIP * (number + 1)
        yield Packet(start, True, (sent, received), REQUEST)
        sent += len(REQUEST)
        yield Packet(start + 100 + ON_THE_WAY, False, (received, sent), reply)
        received += len(reply)
        yield Packet(start + 120 + 2 * ON_THE_WAY, True, (sent, received), flags=_ACK)


def write(path: Path, packets: Sequence[Packet], at_client: bool) -> Path:
    """What one end captures: its own packets as they leave, the other's when they have come."""
    seen = sorted((one.at + (ON_THE_WAY if one.of_client != at_client else 0), one.bytes) for one in packets)
    records = [struct.pack("<IIII", 1_700_000_000, at, len(data), len(data)) + data for at, data in seen]
    path.write_bytes(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535, 101) + b"".join(records))
    return path


def both_ends(folder: Path, packets: Iterable[Packet]) -> tuple[Path, Path]:
    """The captures of the client and of the server."""
    sent = list(packets)
    return write(folder / "client.pcap", sent, True), write(folder / "server.pcap", sent, False)
