"""What virsh says of a domain that is somebody's: its tables and lists, in the C locale. Pure."""

import re
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address
from xml.etree import ElementTree

from nearmetal.errors import ToolFailed
from nearmetal.model import Cost

Address = IPv4Address | IPv6Address

_LISTED = re.compile(r"(?P<uuid>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}) (?P<name>.*)")
_MAC = re.compile(r"(?:[0-9a-f]{2}:){5}[0-9a-f]{2}")


def parse_uuids(listed: str, name: str) -> Sequence[str]:
    """Of the domains that are called exactly so, from `list --all --uuid --name`.

    virsh itself would take a name for an id or a UUID where it looks like one.
    """
    found = (_LISTED.fullmatch(line.strip()) for line in listed.splitlines())
    return [one["uuid"] for one in found if one and one["name"] == name]


def parse_facts(info: str) -> Mapping[str, str]:
    """Of `dominfo`: "State", "Persistent", "Managed save" and more."""
    pairs = (line.partition(":") for line in info.splitlines())
    return {key.strip(): value.strip() for key, colon, value in pairs if colon}


def parse_macs(interfaces: str) -> Sequence[str]:
    """Of `domiflist`, in its order."""
    words = (line.lower().split() for line in interfaces.splitlines())
    return [one[-1] for one in words if one and _MAC.fullmatch(one[-1])]


def parse_address(addresses: str, of: Sequence[str]) -> Address | None:
    """One that a domain's interfaces with these MACs have, from `domifaddr`: IPv4 before IPv6; None where none has.

    A guest's agent tells more than those of its cards, and a line without a MAC goes on with the one before.
    """
    found: list[Address] = []
    mac = ""
    for words in (line.split() for line in addresses.splitlines()):
        if len(words) != 4:
            continue
        mac = words[1].lower() if words[1] != "-" else mac
        one = _host(words[3])
        if one and mac in of and not (one.is_loopback or one.is_link_local or one.is_multicast):
            found.append(one)
    return min(found, key=lambda one: one.version, default=None)


def parse_mark(element: str) -> str | None:
    """Of an element of `metadata`; None where it has none."""
    try:
        return ElementTree.fromstring(element.strip()).get("mark")
    except ElementTree.ParseError:
        return None


def _host(text: str) -> Address | None:
    try:
        return ip_address(text.partition("/")[0])
    except ValueError:
        return None


def parse_cost(stats: str) -> Cost:
    """From `domstats --cpu-total`, which counts the whole monitor. ToolFailed where it does not tell.

    Its memory is not told: what libvirt counts includes pages that others share.
    """
    pairs = (line.strip().partition("=") for line in stats.splitlines())
    values = {key: value for key, equals, value in pairs if equals}
    try:
        return Cost(cpu_seconds=int(values["cpu.time"]) / 1e9, memory_bytes=None)
    except (KeyError, ValueError):
        raise ToolFailed(f"virsh domstats said {stats[:300]!r}") from None
