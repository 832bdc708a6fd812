"""Machines that are in a network of somebody's, for the conformance tests: what a study says of each."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from nearmetal.lab.image import Image
from tests import vagrant_place
from tests.existing_domain import existing_domain
from tests.libvirt_network import LibvirtNetwork


@contextmanager
def domain(network: LibvirtNetwork, image: Image) -> Iterator[Mapping[str, str]]:
    """A domain of libvirt that runs."""
    with existing_domain(network, image, f"nml{os.getpid()}-conformance") as domain:
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
