"""The order in which kernel modules load."""

import subprocess

import pytest

from nearmetal.errors import ToolFailed
from nearmetal.lab.image.modules import dependencies, parse, shell_functions
from nearmetal.lab.image.recipe import Modules

DEPENDENCIES = """\
kernel/net/virtio_net.ko: kernel/net/core/net_failover.ko kernel/net/core/failover.ko kernel/drivers/virtio/virtio.ko
kernel/net/core/net_failover.ko: kernel/net/core/failover.ko
kernel/net/core/failover.ko:
kernel/drivers/virtio/virtio.ko:
kernel/drivers/char/hw_random/virtio-rng.ko.xz: kernel/drivers/virtio/virtio.ko
"""
BUILT_IN = "kernel/fs/ext4/ext4.ko\nkernel/lib/crc-t10dif.ko\n"


def test_a_module_comes_after_what_it_needs_and_once() -> None:
    tree = parse(DEPENDENCIES, BUILT_IN)
    assert tree.ordered(["virtio_net", "failover"]) == ["virtio", "failover", "net_failover", "virtio_net"]


def test_dash_and_underscore_are_one_and_compression_is_no_part_of_the_name() -> None:
    tree = parse(DEPENDENCIES, BUILT_IN)
    assert tree.ordered(["virtio_rng"]) == tree.ordered(["virtio-rng"]) == ["virtio", "virtio_rng"]


def test_what_is_built_in_needs_no_file() -> None:
    assert parse(DEPENDENCIES, BUILT_IN).ordered(["ext4", "crc_t10dif"]) == []


def test_an_unknown_module_is_an_error() -> None:
    with pytest.raises(ToolFailed, match="no module e1000"):
        parse(DEPENDENCIES, BUILT_IN).ordered(["e1000"])


def test_the_part_of_the_dependencies_reads_back_as_written() -> None:
    tree = parse(DEPENDENCIES, BUILT_IN)
    part = parse(dependencies(tree, ["virtio_net"]), "")
    assert part.ordered(["virtio_net"]) == tree.ordered(["virtio_net"])
    assert "virtio_rng" not in part.files


@pytest.mark.parametrize(
    ("device", "modules"),
    [
        (("8086:100e", "class:0200"), "e1000"),
        (("ffff:0001", "class:0200"), ""),
        (("10ec:8139", "class:0200"), "8139cp"),
    ],
)
def test_the_shell_functions_choose_by_device(device: tuple[str, str], modules: str) -> None:
    script = shell_functions(Modules.of_recipe()) + 'modules_of_network "$@"; echo $modules'
    ran = subprocess.run(["sh", "-c", script, "sh", *device], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == modules
