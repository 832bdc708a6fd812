"""QEMU's command line, without QEMU."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from nearmetal.errors import BadInput
from nearmetal.lab.qemu.arguments import CONTROL_MAC, GuestSpec, build_command, kernel_command_line
from tests.guests import GUEST, PORT


def values(words: list[str], option: str) -> list[str]:
    return [value for name, value in pairwise(words) if name == option]


def test_the_resources_are_those_ordered() -> None:
    words = build_command(GUEST)
    assert values(words, "-smp") == ["cpus=2,sockets=1,cores=2,threads=1"]
    assert values(words, "-m") == ["536870912B"]
    assert values(words, "-accel") == ["tcg,thread=multi"]
    assert values(build_command(replace(GUEST, accel="kvm")), "-accel") == ["kvm"]


def test_cpu_model_and_disk_are_those_ordered() -> None:
    words = build_command(replace(GUEST, cpu_model="Haswell", disk="ide", disk_format="raw", disk_cache="none"))
    assert values(words, "-cpu") == ["Haswell"]
    assert values(words, "-drive") == [
        "if=none,id=root,file=disk.raw,format=raw,cache=none,werror=report,rerror=report"
    ]
    assert "ide-hd,drive=root" in values(words, "-device")
    with pytest.raises(BadInput, match="no name that QEMU knows"):
        build_command(replace(GUEST, cpu_model="max,pmu=on"))


@pytest.mark.parametrize(
    ("nic", "device"),
    [("virtio-net", "virtio-net-pci"), ("e1000", "e1000"), ("vmxnet3", "vmxnet3"), ("igb", "igb")],
)
def test_the_data_network_has_the_nic_ordered_on_the_tap(nic: str, device: str) -> None:
    words = build_command(replace(GUEST, nic=nic))
    assert f"{device},netdev=data,mac={PORT.mac},romfile=" in values(words, "-device")
    assert "tap,id=data,fd={tap0}" in values(words, "-netdev")


def test_without_a_port_there_is_only_the_control_network() -> None:
    words = build_command(replace(GUEST, port=None))
    assert len(values(words, "-netdev")) == 1
    assert "nearmetal.data" not in " ".join(words)


def test_the_control_network_is_on_loopback_and_leads_nowhere() -> None:
    (control,) = (value for value in values(build_command(GUEST), "-netdev") if value.startswith("user,"))
    assert "restrict=on" in control.split(",")
    assert "hostfwd=tcp:127.0.0.1:0-:22" in control.split(",")


def test_the_kernel_is_told_who_it_is_and_what_was_ordered_comes_last() -> None:
    guest = replace(GUEST, name="n" * 80, kernel_arguments=("isolcpus=1", "audit=1"))
    words = kernel_command_line(guest).split()
    assert f"nearmetal.control={CONTROL_MAC}" in words
    assert f"nearmetal.data={PORT.mac},10.111.0.7/16" in words
    assert f"nearmetal.hostname={'n' * 63}" in words
    assert words[-2:] == ["isolcpus=1", "audit=1"]
    assert words.index("audit=0") < words.index("audit=1")


def test_only_an_emulated_processor_does_not_pretend_to_copy_fast() -> None:
    def model(guest: GuestSpec) -> str:
        words = build_command(guest)
        return words[words.index("-cpu") + 1]

    assert model(GUEST) == "max,-erms,-fsrm"
    assert model(replace(GUEST, accel="kvm")) == "max"
    assert model(replace(GUEST, cpu_model="qemu64")) == "qemu64"


@pytest.mark.parametrize("word", ["norandmaps", "clearcpuid=141"])
def test_what_an_emulator_needs_no_other_kernel_is_told(word: str) -> None:
    assert word in kernel_command_line(GUEST).split()
    assert word not in kernel_command_line(replace(GUEST, accel="kvm")).split()


@pytest.mark.parametrize("field", ["nic", "disk", "machine", "accel"])
@pytest.mark.parametrize("name", ["e1000,romfile=/etc/passwd", "", "a b", "$(id)"])
def test_a_name_cannot_smuggle_in_another_option(field: str, name: str) -> None:
    smuggled: dict[str, Any] = {field: name}
    with pytest.raises(BadInput, match="no name that QEMU knows"):
        build_command(replace(GUEST, **smuggled))
