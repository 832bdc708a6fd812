"""The congestion control that the routes of an interface give to the connections over it.

A kernel lets a network namespace choose only among `net.ipv4.tcp_allowed_congestion_control`, which is the host's own
(tcp_set_default_congestion_control in net/ipv4/tcp_cong.c). A route may name any that the kernel has (`congctl` in
ip-route(8); tcp_ca_dst_init, since Linux 4.0), for connections that are made and for those that are accepted.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from nearmetal.errors import HostCannot
from nearmetal.model import Completed

SYSCTL = "net.ipv4.tcp_congestion_control"
_WORD = "congctl"
_STATES = ("linkdown", "dead")
"""What `ip route show` adds and `ip route change` does not take."""


@runtime_checkable
class NetworkOwner(Protocol):
    """A machine on its host's kernel, whose network namespace the host can enter."""

    async def exec_in_network(self, argv: Sequence[str]) -> Completed:
        """Run a program of the host's there: what the machine itself may not do, or has no program for."""
        ...


async def read(machine: NetworkOwner, interface: str) -> str | None:
    """What its routes name: "" if none does, several with commas. None if it has no route."""
    lines = await _read_routes(machine, interface)
    found = {line[line.index(_WORD) + 1] if _WORD in line else "" for line in lines}
    return ",".join(sorted(found)) if found else None


async def write(machine: NetworkOwner, interface: str, name: str | None) -> None:
    """Have each of its routes name this one; with "" or None, none. HostCannot if the kernel has no such."""
    for line in await _read_routes(machine, interface):
        bare = [word for word in line if word not in _STATES]
        if _WORD in bare:
            at = bare.index(_WORD)
            del bare[at : at + 2]
        named = (_WORD, name) if name else ()
        ended = await machine.exec_in_network(["ip", "route", "change", *bare, "dev", interface, *named])
        if ended.status != 0:
            raise HostCannot(ended.complaint[-300:] or f"ip ended with status {ended.status}")


async def _read_routes(machine: NetworkOwner, interface: str) -> list[list[str]]:
    ended = await machine.exec_in_network(["ip", "-oneline", "-4", "route", "show", "dev", interface])
    return [line.split() for line in ended.text.splitlines() if line.strip()]
