"""Machines that are somebody's: a host by SSH, those of a Vagrantfile and of a vCenter. Each stays as it was found."""

import contextlib
import json
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from nearmetal.lab import machine_image
from tests import libvirt_network, libvirt_service, vagrant_place, vcenter
from tests.conftest import SHARED_CACHE
from tests.live.two_hosts import Pair
from tests.waiting import wait_until

from .killed import Service, Surroundings
from .services import KilledService

_THREE = """
  config.vm.define "new"
  config.vm.define "off"
  config.vm.define "theirs"
"""


def look_inside(run: Callable[..., str]) -> list[str]:
    """Files, processes, links and namespaces of a machine; `run` runs a command on it."""
    files = run("find", "/run", "/tmp", "/var/tmp", "/root", "-mindepth", "1").splitlines()
    processes = run("ps", "-eo", "args").splitlines()
    links = [line.split()[0] for line in run("ip", "-brief", "link").splitlines()]
    # Sessions of SSH end in their own time; what looks is no part of what it sees. The kernel's threads are its own.
    kept = [line for line in processes if not line.startswith(("ps ", "sshd: ", "["))]
    return [*files, *kept, *links, *run("ip", "netns", "list").splitlines()]


def lacking_vcenter() -> str:
    """Why there is no simulated vCenter; "" if there is one."""
    try:
        vcenter.program(SHARED_CACHE)
    except pytest.skip.Exception as why:
        return str(why.msg)
    return ""


def lacking_vagrant() -> str:
    return libvirt_network.lacking() or vagrant_place.lacking()


def serve_vcenter(around: Surroundings, pair: Pair, base: Path, made: contextlib.ExitStack) -> None:
    """One with a machine that is off, one that runs, and a template. What the first two have inside is the host that is
    looked at; a clone's goes with it."""
    inside = pair.far.address
    machines = [
        vcenter.machine("off", cpus=4, nics=["e1000e"], address=inside),
        vcenter.machine("theirs", cpus=1, memory=256, running=True, address=inside),
        vcenter.machine("golden", template=True),
    ]
    program = vcenter.program(SHARED_CACHE)
    simulated = made.enter_context(vcenter.vcenter(program, machines, clones=pair.fars[1].address, netns=pair.near))
    wait_until(lambda: simulated.machines()["theirs"]["Address"])
    certificate = base / "vcenter.pem"
    certificate.write_text(simulated.certificate)
    around.environment[vcenter.PASSWORD_ENV] = vcenter.PASSWORD
    around.options |= {"vcenter": simulated.address, "user": vcenter.USER, "certificate": str(certificate)}
    around.looks["machines of the vCenter"] = lambda: [
        json.dumps(one, sort_keys=True) for one in simulated.machines().values()
    ]


def serve_vagrant(around: Surroundings, base: Path, made: contextlib.ExitStack) -> None:
    """A Vagrantfile with a machine that is not there, one that is off, and one that runs."""
    base.mkdir()
    started: list[KilledService] = []

    @contextlib.contextmanager
    def serve_libvirt(folder: Path, netns: str) -> Iterator[str]:
        serving = partial(libvirt_service.serving, netns=netns)
        with libvirt_service.prepared(folder), KilledService(folder, serving) as libvirtd:
            started.append(libvirtd)
            yield libvirtd.url

    network = made.enter_context(libvirt_network.libvirt_network(base, serve_libvirt))
    vagrant = made.enter_context(vagrant_place.vagrant_place(network, machine_image.find_image("lab")))
    folder = vagrant.project("chaos", _THREE, memory=512)
    vagrant.run(folder, "up", "off", "theirs")
    vagrant.run(folder, "halt", "off")
    login = folder / "ssh_config"
    login.write_text(vagrant.run(folder, "ssh-config", "theirs"))

    def run_inside(*argv: str) -> str:
        command = ["ssh", "-F", str(login), "theirs", *argv]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def list_domains() -> list[str]:
        domains = network.virsh("list", "--all", "--name").split()
        return [f"{name} {network.virsh('domuuid', name)} {network.virsh('domstate', name)}" for name in domains]

    around.environment["VAGRANT_HOME"] = vagrant_place.environment(vagrant.home)["VAGRANT_HOME"]
    around.options["vagrant"] = str(folder)
    around.looks["Vagrant's machine inside"] = lambda: look_inside(run_inside)
    around.looks["domains of Vagrant's"] = list_domains
    around.looks["disks of Vagrant's"] = lambda: network.virsh("vol-list", "default").splitlines()
    # Not "theirs": whoever has it would find it off.
    named = (str(base / "libvirt"), "guest=chaos_new", "guest=chaos_off")
    around.services["vagrant"] = Service(named, started[0].restart, ("libvirtd",))
