"""A domain as somebody would have it in virt-manager: defined by its XML, our image its disk, an address by DHCP."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncssh

from nearmetal.config import read_patience
from nearmetal.lab.image import Image
from nearmetal.lab.image.initrd import seed_archive
from nearmetal.lab.qemu import arguments
from nearmetal.lab.vagrant import box
from tests.libvirt_network import NETWORK, LibvirtNetwork

_XML = """
<domain type="{kind}">
  <name>{name}</name>
  <memory unit="MiB">768</memory>
  <vcpu>1</vcpu>
  <os>
    <type arch="x86_64" machine="q35">hvm</type>
    <kernel>{kernel}</kernel><initrd>{folder}/initrd</initrd><cmdline>{command_line}</cmdline>
  </os>
  <features><acpi/><apic/></features>
  <cpu mode="maximum">{withheld}</cpu>
  <on_reboot>restart</on_reboot>
  <devices>
    <disk type="file" device="disk">
      <driver name="qemu" type="qcow2"/><source file="{folder}/disk"/><target dev="vda" bus="virtio"/>
    </disk>
    <interface type="network"><source network="{network}"/><model type="virtio"/></interface>
    <serial type="file"><source path="{folder}/console"/></serial>
    <rng model="virtio"><backend model="random">/dev/urandom</backend></rng>
    <memballoon model="none"/>
    <controller type="usb" model="none"/>
  </devices>
</domain>
"""


@dataclass(frozen=True)
class ExistingDomain:
    network: LibvirtNetwork
    name: str
    folder: Path

    @property
    def key(self) -> str:
        """The file of a key that it lets in."""
        return str(self.folder / "key")

    @property
    def host_key(self) -> str:
        """What it shows, in the form of a known_hosts file."""
        return (self.folder / "host_key.pub").read_text().strip()

    @property
    def state(self) -> str:
        return self.network.virsh("domstate", self.name).strip()

    def start(self) -> None:
        """By whose it is; returns when it answers by SSH."""
        self.network.virsh("start", self.name)
        until = time.monotonic() + 120 * read_patience(os.environ)
        while not self._answers():
            assert time.monotonic() < until, (self.folder / "console").read_text()
            time.sleep(0.5)

    def _answers(self) -> bool:
        lease = self.network.virsh("domifaddr", self.name).split()
        if not lease:
            return False
        try:
            with socket.create_connection((lease[-1].partition("/")[0], 22), timeout=2):
                return True
        except OSError:
            return False

    @property
    def options(self) -> dict[str, str]:
        """What a study says of it."""
        return {"uri": self.network.uri, "domain": self.name, "key": self.key, "host_key": self.host_key}

    @property
    def definition(self) -> str:
        return self.network.virsh("dumpxml", "--inactive", self.name)


@contextmanager
def define_existing_domain(network: LibvirtNetwork, image: Image, name: str) -> Iterator[ExistingDomain]:
    """Defined, and off."""
    folder = network.folder / name
    folder.mkdir()
    key, host_key = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))
    key.write_private_key(str(folder / "key"))
    host_key.write_public_key(str(folder / "host_key.pub"))
    seed = {
        **box.make_seed(image, key.export_public_key("openssh")),
        "ssh_host_ed25519_key": (host_key.export_private_key("openssh"), 0o600),
    }
    (folder / "initrd").write_bytes(image.initrd.read_bytes() + seed_archive(seed))
    overlay = ["qemu-img", "create", "-q", "-f", "qcow2", "-b", str(image.disk), "-F", "qcow2", str(folder / "disk")]
    subprocess.run(overlay, check=True)
    (folder / "domain.xml").write_text(
        _XML.format(
            kind="kvm" if os.environ.get("NEARMETAL_TEST_ACCEL") == "kvm" else "qemu",
            name=name,
            kernel=image.kernel,
            folder=folder,
            # What makes an emulated guest's boot short.
            command_line=" ".join((*arguments.KERNEL, *arguments.EMULATED)),
            withheld="".join(f'<feature policy="disable" name="{one}"/>' for one in arguments.PRETENDED),
            network=NETWORK,
        )
    )
    network.virsh("define", str(folder / "domain.xml"))
    domain = ExistingDomain(network, name, folder)
    try:
        yield domain
    finally:
        if domain.state != "shut off":
            network.virsh("destroy", name)
        network.virsh("undefine", name)
        shutil.rmtree(folder)
