"""Machines that are somebody's, or in a network of somebody's, for the conformance tests: what a study says of each."""

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from nearmetal.lab.image import Image
from tests import vagrant_place, vcenter
from tests.existing_domain import define_existing_domain
from tests.libvirt_network import LibvirtNetwork
from tests.live.far_host import FarHost, far_host, user
from tests.live.two_hosts import FAR_CACHE, ip


@contextmanager
def domain(network: LibvirtNetwork, image: Image) -> Iterator[Mapping[str, str]]:
    """A domain of libvirt that runs."""
    with define_existing_domain(network, image, f"nml{os.getpid()}-conformance") as domain:
        domain.start()
        yield domain.options


@contextmanager
def vagrant(network: LibvirtNetwork, image: Image) -> Iterator[Mapping[str, str]]:
    """A Vagrantfile whose machine runs. Skips, with the reason, where there is no Vagrant."""
    if missing := vagrant_place.lacking():
        pytest.skip(f"vagrant cannot run here: {missing}: apt-get install vagrant vagrant-libvirt")
    with vagrant_place.vagrant_place(network, image) as place, pytest.MonkeyPatch.context() as patch:
        patch.setenv("VAGRANT_HOME", vagrant_place.environment(place.home)["VAGRANT_HOME"])
        folder = place.project("conformance")
        place.run(folder, "up")
        yield {"folder": str(folder)}
        place.run(folder, "destroy", "--force")
        shutil.rmtree(folder)


@contextmanager
def by_ssh(image: Image, folder: Path) -> Iterator[FarHost]:
    """A host at the other end of a cable: what is set on its card is set on nobody else's."""
    if os.geteuid() != 0:
        pytest.skip("there is no machine to reach: that takes root")
    name = f"nmt{os.getpid()}-c"
    subnet = f"10.114.{os.getpid() // 64 % 256}.{os.getpid() % 64 * 4}"
    near, far = (f"{subnet.rpartition('.')[0]}.{int(subnet.rpartition('.')[2]) + number}" for number in (1, 2))
    someone, key = user(folder / "user")
    ip("netns", "add", name)
    try:
        ip("-netns", name, "link", "set", "lo", "up")
        ip("link", "add", name, "type", "veth", "peer", "name", "cable", "netns", name)
        ip("address", "add", f"{near}/30", "dev", name)
        ip("-netns", name, "address", "add", f"{far}/30", "dev", "cable")
        for words in (("link", "set", name), ("-netns", name, "link", "set", "cable")):
            ip(*words, "addrgenmode", "none")  # else addresses of IPv6 come at a time of their own
        ip("link", "set", name, "up")
        ip("-netns", name, "link", "set", "cable", "up")
        with (
            pytest.MonkeyPatch.context() as patch,
            far_host(image, folder, key, address=far, port=22, netns=name, cache=FAR_CACHE) as host,
        ):
            patch.setenv("HOME", str(someone.home))
            patch.delenv("SSH_AUTH_SOCK", raising=False)
            someone.know(host)
            yield host
    finally:
        ip("netns", "delete", name)


@contextmanager
def behind_vcenter(host: FarHost, program: Path, folder: Path) -> Iterator[Mapping[str, str]]:
    """Clones of vSphere's, which have no insides: SSH leads to this host, whichever clone it is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(vcenter.PASSWORD_ENV, vcenter.PASSWORD)
        with vcenter.vcenter(program, [vcenter.machine("golden", template=True)]) as simulated:
            yield simulated.options(folder, template="golden", address=host.address, port=host.port)
