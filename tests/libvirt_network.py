"""A libvirtd with a network of its own whose guests this host reaches: the place of domains that are somebody's.

libvirt, its bridge and its DHCP server are in a network namespace, so that no rule and no link of theirs stays on the
host; a cable leads from the bridge to an address here.
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests import libvirt_service

BRIDGE = "guests"
NETWORK = "vagrant-libvirt"
"""Vagrant takes the network of this name where there is one."""
SUBNET = f"10.114.{os.getpid() % 256}"
"""Of this process: two test runs at a time have each their own."""

_XML = f"""
<network xmlns:dnsmasq="http://libvirt.org/schemas/network/dnsmasq/1.0">
  <name>{NETWORK}</name>
  <bridge name="{BRIDGE}" stp="off" delay="0"/>
  <ip address="{SUBNET}.1" netmask="255.255.255.0">
    <dhcp><range start="{SUBNET}.2" end="{SUBNET}.199"/></dhcp>
  </ip>
  <dnsmasq:options><dnsmasq:option value="no-ping"/></dnsmasq:options>
</network>
"""


@dataclass(frozen=True)
class LibvirtNetwork:
    uri: str
    folder: Path
    """Where tests may keep what libvirt's guests are made of."""
    netns: str

    def virsh(self, *argv: str) -> str:
        command = ["virsh", "-q", "-c", self.uri, *argv]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    @property
    def socket(self) -> str:
        return self.uri.partition("socket=")[2]


def lacking() -> str:
    """What is not installed; "" for nothing."""
    return libvirt_service.lacking() or ("" if shutil.which("dnsmasq") else "dnsmasq")


@contextmanager
def libvirt_network(
    folder: Path, serve: Callable[[Path, str], AbstractContextManager[str]] = libvirt_service.libvirt_service
) -> Iterator[LibvirtNetwork]:
    """It ends with this process, but for the namespace, which carries its number. `serve` runs libvirt."""
    netns, cable = f"nml{os.getpid()}-guests", f"nml{os.getpid()}g"
    with ExitStack() as made:
        _ip("netns", "add", netns)
        made.callback(_ip, "netns", "delete", netns)
        _ip("-netns", netns, "link", "set", "lo", "up")
        uri = made.enter_context(serve(folder / "libvirt", netns))
        network = LibvirtNetwork(uri, folder, netns)
        (folder / "network.xml").write_text(_XML)
        network.virsh("net-define", str(folder / "network.xml"))
        network.virsh("net-start", NETWORK)
        made.callback(network.virsh, "net-destroy", NETWORK)
        made.callback(_stop_all, network)
        _ip("link", "add", cable, "type", "veth", "peer", "name", "cable", "netns", netns)
        _ip("-netns", netns, "link", "set", "cable", "master", BRIDGE, "up")
        _ip("address", "add", f"{SUBNET}.254/24", "dev", cable)
        _ip("link", "set", cable, "up")
        yield network


def _stop_all(network: LibvirtNetwork) -> None:
    """What a test that failed left running: guests outlive their libvirtd."""
    for uuid in network.virsh("list", "--uuid").split():
        network.virsh("destroy", uuid)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)
