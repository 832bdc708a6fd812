"""Where processes of a machine listen, from its kernel's own tables. Pure."""

import ipaddress
import struct

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_LISTEN = "0A"
"""TCP_LISTEN of include/net/tcp_states.h."""


def find_listeners(text: str, port: int) -> frozenset[Address]:
    """The local addresses at which something listens on this port, from /proc/net/tcp and tcp6 (proc_net_tcp.txt)."""
    found: set[Address] = set()
    for line in text.splitlines():
        words = line.split()
        if len(words) > 3 and words[3] == _LISTEN:
            address, _, number = words[1].partition(":")
            try:
                if int(number, 16) == port:
                    found.add(_parse_address(address))
            except ValueError:
                continue
    return frozenset(found)


def is_loopback(address: Address) -> bool:
    """Whether nobody but the machine itself reaches it; also of an IPv4 address within IPv6."""
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def _parse_address(digits: str) -> Address:
    """Each word of 32 bits as a number of the machine's own order. ValueError."""
    # Every architecture that machines have here is little-endian.
    words = [int(digits[at : at + 8], 16) for at in range(0, len(digits), 8)]
    packed = struct.pack(f"<{len(words)}I", *words)
    return ipaddress.IPv4Address(packed) if len(packed) == 4 else ipaddress.IPv6Address(packed)
