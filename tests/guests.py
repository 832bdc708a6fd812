"""A guest on paper, for tests of what is said to its monitor."""

from nearmetal.lab.qemu.arguments import GuestSpec
from nearmetal.model import Port

PORT = Port(address="10.111.0.7", prefix=16, mac="02:00:00:00:00:07", switch="/run/netns/lab", outside="port7")
GUEST = GuestSpec(
    name="nm-a-1",
    machine="q35",
    accel="tcg",
    cpu_model="max",
    vcpus=2,
    memory=512 * 2**20,
    kernel="/images/vmlinux",
    disk="virtio-blk",
    disk_format="qcow2",
    disk_cache="writeback",
    nic="virtio-net",
    port=PORT,
)
