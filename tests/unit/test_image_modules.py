"""The order in which kernel modules load."""

import json

import pytest

from nearmetal.errors import ToolFailed
from nearmetal.lab.image.modules import list_modules, parse, strip_signature
from nearmetal.lab.image.recipe import Modules, ModuleSet

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


def test_what_is_listed_loads_in_the_order_of_its_needs() -> None:
    tree = parse(DEPENDENCIES, BUILT_IN)
    wanted = Modules(
        buses=("virtio",),
        disks=ModuleSet(("ext4",), {}),
        network=ModuleSet(("virtio_net",), {"8086:100e": ("failover",)}),
        guest=(),
    )
    document = json.loads(list_modules(tree, wanted, "/modules"))
    assert document["buses"] == ["/modules/kernel/drivers/virtio/virtio.ko"]
    assert document["disks"] == {"always": [], "by_device": {}}, "what is built in has no file"
    names = [path.rsplit("/", 1)[1] for path in document["network"]["always"]]
    assert names == ["virtio.ko", "failover.ko", "net_failover.ko", "virtio_net.ko"]
    assert document["network"]["by_device"] == {"8086:100e": ["/modules/kernel/net/core/failover.ko"]}


def test_a_signature_is_taken_off_and_nothing_else() -> None:
    signature, signer, key = b"S" * 300, b"signer", b"key"
    about = bytes([0, 0, 2, len(signer), len(key), 0, 0, 0]) + len(signature).to_bytes(4, "big")
    signed = b"\x7fELF module" + signer + key + signature + about + b"~Module signature appended~\n"
    assert strip_signature(signed) == b"\x7fELF module"
    assert strip_signature(b"\x7fELF module") == b"\x7fELF module"
