"""Whether a machine is what was asked for: read back from inside, and from its monitor."""

from typing import Any

import pytest

from nearmetal.model import CpuModel, Handle, Hardware, MachineImage, MachineSpec, Monitoring, VirtualDisk
from nearmetal.run import verify
from nearmetal.study.checks.levels import MODELS

SPEC = MachineSpec(nic="e1000")
CONTAINER = Handle(kind="theirs", name="m", site="local")


def guest(**hardware: Any) -> Handle:
    """What is written down of a virtual machine that is as `SPEC` asks, but for its `hardware`."""
    as_asked = {"cpu_model": CpuModel(name="max"), "disk": VirtualDisk(format="qcow2", cache="writeback")}
    return CONTAINER.knowing(hardware=Hardware(**{"accel": "tcg", **as_asked, **hardware}))


GUEST = guest()


def facts(driver: str | None = "e1000", root: str = "/dev/vda", **limits: float) -> dict[str, Any]:
    return {
        "processor": {"allowed": "0", "online": "0"},
        "memory": {"total_bytes": SPEC.memory},
        "limits": limits,
        "interfaces": {"data": {"driver": driver}},
        "kernel": {"release": "6.1.0", "version": "#1 SMP Debian 6.1.1"},
        "filesystems": {"/": {"source": root}},
    }


def test_every_model_that_a_study_can_name_has_a_driver_to_be_read_back() -> None:
    assert verify.DRIVERS.keys() == set(MODELS["nic"])
    assert verify.DISKS.keys() == set(MODELS["disk"])


def test_the_hardware_that_was_ordered_counts() -> None:
    readback = verify.verify_resources(SPEC, facts(), GUEST)
    assert readback.ok and not readback.warnings
    assert readback.values == {
        "vcpus": 1,
        "memory": SPEC.memory,
        "quota": None,
        "accel": "tcg",
        "cpu_model": "max",
        "nic": "e1000",
        "disk": "vd",
        "disk_format": "qcow2",
        "disk_cache": "writeback",
        "kernel": "6.1.0",
    }


def test_what_runs_a_guest_is_read_back_and_counts() -> None:
    spec = SPEC.model_copy(update={"vmm_arguments": ("-global", "a.b=c")})
    run_by = Monitoring(program="/opt/qemu", version="9.1.0", board="pc-q35-9.1", power="as a user of its own")
    readback = verify.verify_resources(spec, facts(), guest(monitoring=run_by))
    assert readback.ok
    found = {key: readback.values[key] for key in ("vmm", "board", "vmm_power")}
    assert found == {"vmm": "/opt/qemu, 9.1.0", "board": "pc-q35-9.1", "vmm_power": "as a user of its own"}
    assert readback.values["vmm_arguments"] == "-global a.b=c"
    other = run_by.model_copy(update={"unlike": ("its board is pc-q35-9.1 instead of microvm",)})
    assert verify.verify_resources(SPEC, facts(), guest(monitoring=other)).reason == other.unlike[0]


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ("Linux version 6.1.0 (a@b) (gcc 12) #1 SMP Debian 6.1.1", ""),
        ("Linux version 6.1.0 (a@b) (gcc 12) #2 SMP Debian 6.1.1", "its kernel is 6.1.0 #1 SMP Debian 6.1.1 instead"),
        ("Linux version 6.1.0-rt (a@b) (gcc 12) #1 SMP Debian 6.1.1", "instead of 6.1.0-rt"),
    ],
)
def test_a_kernel_is_known_by_its_build(asked: str, reason: str) -> None:
    readback = verify.verify_resources(SPEC, facts(), guest(kernel=asked))
    assert readback.ok == (not reason)
    assert reason in readback.reason


IOMEM = """00000000-00000fff : Reserved
00001000-0009fbff : System RAM
0009fc00-0009ffff : Reserved
00100000-07fdcfff : System RAM
  01000000-01e01d31 : Kernel code
  02a00000-02c4897f : System RAM
07fdd000-07ffffff : Reserved
"""
"""Of a guest with 128 MiB: one line is made up, that of a part which is counted with the whole."""


def test_a_guest_has_the_memory_that_its_kernel_found() -> None:
    spec = SPEC.model_copy(update={"memory": 128 * 2**20})
    ram = verify.ram_of(IOMEM)
    assert ram == 0x9FC00 - 0x1000 + 0x7FDD000 - 0x100000
    little = {**facts(), "memory": {"total_bytes": 81908 * 1024}}
    assert verify.verify_resources(spec, little, GUEST, ram).ok, "its kernel keeps a third of it"
    assert not verify.verify_resources(spec, little, GUEST).ok
    more = spec.model_copy(update={"memory": spec.memory * 10 // 9})
    assert f"it has {ram} bytes of memory instead of" in verify.verify_resources(more, little, GUEST, ram).reason
    assert not verify.verify_resources(
        spec.model_copy(update={"memory": spec.memory * 98 // 100}), little, GUEST, ram
    ).ok


@pytest.mark.parametrize("iomem", ["", "00000000-00000000 : System RAM\n00000000-00000000 : System RAM\n"])
def test_a_kernel_that_hides_addresses_does_not_tell(iomem: str) -> None:
    assert verify.ram_of(iomem) is None


@pytest.mark.parametrize("driver", ["virtio_net", None])
def test_another_card_does_not(driver: str | None) -> None:
    readback = verify.verify_resources(SPEC, facts(driver), GUEST)
    assert not readback.ok
    assert "instead of e1000" in readback.reason


def test_a_guest_without_any_card_has_not_the_one_that_was_asked_for() -> None:
    assert not verify.verify_resources(SPEC, {**facts(), "interfaces": {}}, GUEST).ok


@pytest.mark.parametrize(
    ("key", "model", "reason"),
    [
        (
            "nic",
            "igb",
            "its network card 'igb' cannot be read back: known are virtio-net, e1000, e1000e, rtl8139, vmxnet3",
        ),
        ("disk", "nvme", "its disk 'nvme' cannot be read back: known are virtio-blk, ide"),
    ],
)
def test_a_model_without_a_known_driver_fails_whatever_is_found(key: str, model: str, reason: str) -> None:
    readback = verify.verify_resources(SPEC.model_copy(update={key: model}), facts(), GUEST)
    assert not readback.ok
    assert readback.reason == reason
    assert readback.values[key] == {"nic": "e1000", "disk": "vd"}[key], "what is found is kept"


@pytest.mark.parametrize(
    ("key", "asked", "reason"),
    [
        ("accel", "kvm", "accelerator is tcg instead of kvm"),
        ("cpu_model", "Haswell", "CPU model is max instead of Haswell"),
        ("disk", "ide", "disk is vd instead of sd"),
        ("disk_format", "raw", "format is qcow2 instead of raw"),
        ("disk_cache", "none", "cache mode is writeback instead of none"),
        ("quota", 0.5, "any of their time instead of 0.5 CPUs"),
    ],
)
def test_each_setting_that_did_not_stick_is_named(key: str, asked: Any, reason: str) -> None:
    readback = verify.verify_resources(SPEC.model_copy(update={key: asked}), facts(), GUEST)
    assert not readback.ok
    assert reason in readback.reason


def test_what_a_model_lacks_is_a_warning() -> None:
    model = CpuModel(name="Haswell", lacking=("hle", "rtm"))
    readback = verify.verify_resources(
        SPEC.model_copy(update={"cpu_model": "Haswell"}), facts(), guest(cpu_model=model)
    )
    assert readback.ok
    (warned,) = readback.warnings
    assert warned.code == "cpu-model-partial" and "hle, rtm" in warned.text


def test_where_there_is_no_virtual_machine_there_is_no_hardware() -> None:
    readback = verify.verify_resources(SPEC, facts("veth"), CONTAINER)
    assert readback.ok
    assert not {"nic", "cpu_model", "disk"} & readback.values.keys()


# ── The quota ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_quota_is_of_each_cpu() -> None:
    spec = MachineSpec(quota=0.25, vcpus=2)
    seen = {**facts("veth", cpu_quota=0.5), "processor": {"allowed": "0-1", "online": "0-1"}}
    assert verify.verify_resources(spec, seen, CONTAINER).ok
    wrong = verify.verify_resources(spec, {**seen, "limits": {"cpu_quota": 0.25}}, CONTAINER)
    assert "0.25 CPUs of their time instead of 0.5 CPUs" in wrong.reason


def test_a_guests_quota_is_its_monitors_whatever_the_guest_sees() -> None:
    spec = SPEC.model_copy(update={"quota": 0.5})
    assert verify.verify_resources(spec, facts(), guest(quota=0.5)).ok
    assert not verify.verify_resources(spec, facts(cpu_quota=0.5), GUEST).ok


def test_a_quota_that_nobody_asked_for_counts_only_where_it_bites() -> None:
    assert verify.verify_resources(SPEC, facts("veth", cpu_quota=1.0), CONTAINER).ok
    assert "instead of no limit" in verify.verify_resources(SPEC, facts("veth", cpu_quota=0.9), CONTAINER).reason


def test_the_storage_driver_that_an_engine_has_is_told_and_another_does_not_count() -> None:
    made = CONTAINER.knowing(image=MachineImage(storage_driver="vfs"))
    assert verify.verify_resources(SPEC, facts("veth"), made).values["storage_driver"] == "vfs"
    other = CONTAINER.knowing(image=MachineImage(storage_driver="vfs", storage_driver_asked="overlay2"))
    readback = verify.verify_resources(SPEC, facts("veth"), other)
    assert "storage driver is vfs instead of overlay2" in readback.reason


@pytest.mark.parametrize(
    ("allowed", "kept", "holds"),
    [
        ("0-1", (), True),
        ("0", (), False),
        ("0", (1,), True),
        ("0-1", (1,), True),
        ("0", (0,), False),
        ("0-1", (2,), False),
    ],
)
def test_a_cpu_from_which_all_was_moved_is_still_the_machines(allowed: str, kept: tuple[int, ...], holds: bool) -> None:
    spec = SPEC.model_copy(update={"vcpus": 2})
    seen = {**facts("veth"), "processor": {"allowed": allowed, "online": "0-3"}}
    assert verify.verify_resources(spec, seen, CONTAINER, kept=frozenset(kept)).ok == holds


def test_another_network_than_the_one_that_was_asked_for_is_found() -> None:
    spec = MachineSpec(network="bridge")
    assert verify.verify_resources(spec, facts(), CONTAINER.knowing(network="bridge")).values["network"] == "bridge"
    assert (
        "its network is lab instead of bridge"
        in verify.verify_resources(spec, facts(), CONTAINER.knowing(network="lab")).reason
    )
