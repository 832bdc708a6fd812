"""Real Vagrant at a libvirtd of the tests' own, with our image as its box and a home of its own."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from nearmetal.lab.image import Image
from nearmetal.lab.vagrant import box
from tests.libvirt_network import SUBNET, LibvirtNetwork

BOX = "nearmetal/lab"

_VAGRANTFILE = """
Vagrant.configure("2") do |config|
  config.vm.box = "{box}"
  config.vm.provider :libvirt do |libvirt|
    libvirt.driver = "qemu"
    libvirt.uri = "{uri}"
    libvirt.cpu_mode = "maximum"
    libvirt.cpus = 1
    libvirt.memory = {memory}
    libvirt.default_prefix = "{prefix}"
    libvirt.management_network_address = "{subnet}.0/24"
    libvirt.management_network_mode = "none"
    libvirt.management_network_keep = true
  end
{more}end
"""


def lacking() -> str:
    """What is not installed; "" for nothing."""
    if shutil.which("vagrant") is None:
        return "vagrant"
    with tempfile.TemporaryDirectory() as home:
        plugins = subprocess.run(
            ["vagrant", "plugin", "list"], capture_output=True, text=True, env=environment(Path(home))
        )
    return "" if "vagrant-libvirt" in plugins.stdout else "vagrant-libvirt"


def environment(home: Path) -> dict[str, str]:
    return {**os.environ, "VAGRANT_HOME": str(home / ".vagrant.d"), "VAGRANT_CHECKPOINT_DISABLE": "1"}


@dataclass(frozen=True)
class Vagrant:
    network: LibvirtNetwork
    home: Path

    def project(self, name: str, more: str = "", memory: int = 768) -> Path:
        """A folder with a Vagrantfile; `more` are lines of it."""
        folder = self.network.folder / name
        folder.mkdir()
        text = _VAGRANTFILE.format(
            box=BOX, uri=self.network.uri, prefix=f"{name}_", subnet=SUBNET, more=more, memory=memory
        )
        (folder / "Vagrantfile").write_text(text)
        return folder

    def run(self, folder: Path, *argv: str) -> str:
        command = subprocess.run(
            ["vagrant", *argv],
            cwd=folder,
            env=environment(self.home),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        assert command.returncode == 0, (argv, command.stdout[-2000:], command.stderr[-2000:])
        return command.stdout


@contextmanager
def vagrant_place(network: LibvirtNetwork, image: Image) -> Iterator[Vagrant]:
    """With the box added."""
    place = Vagrant(network, network.folder / "vagrant-home")
    place.home.mkdir()
    try:
        file = network.folder / "lab.box"
        box.write_box(image, file)
        place.run(place.home, "box", "add", "--name", BOX, str(file))
        file.unlink()
        yield place
    finally:
        shutil.rmtree(place.home)
