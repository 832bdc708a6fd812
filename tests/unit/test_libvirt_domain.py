"""The XML of a domain: what a study asks for is in it, and whatever a name holds stays text."""

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from nearmetal.lab.libvirt import domain, virsh
from nearmetal.lab.qemu import arguments
from nearmetal.lab.qemu.arguments import CONTROL_MAC, GuestSpec
from nearmetal.model import SharedFolder
from tests.guests import GUEST, PORT


def described(guest: GuestSpec = GUEST, cpus: str = "2-3") -> ElementTree.Element:
    return ElementTree.fromstring(domain.describe(guest, "u-u-i-d", "/machines/nm-1-1", "nm-1-1", cpus))


def one(root: ElementTree.Element, path: str) -> ElementTree.Element:
    found = root.find(path)
    assert found is not None, path
    return found


def test_what_was_asked_for_is_in_it() -> None:
    root = described()
    assert root.get("type") == "qemu"
    assert one(root, "memory").text == str(512 * 2**20) and one(root, "memory").get("unit") == "bytes"
    assert (one(root, "vcpu").text, one(root, "vcpu").get("cpuset")) == ("2", "2-3")
    assert [(pin.get("vcpu"), pin.get("cpuset")) for pin in root.findall("cputune/vcpupin")] == [("0", "2"), ("1", "3")]
    assert one(root, "cputune/emulatorpin").get("cpuset") == "2-3"
    assert one(root, "devices/interface/mac").get("address") == PORT.mac
    assert one(root, "devices/interface/target").attrib == {"dev": "nm-1-1", "managed": "no"}
    assert f"nearmetal.data={PORT.mac},10.111.0.7/16" in str(one(root, "os/cmdline").text)
    words = [word.get("value") for word in root.iter("{http://libvirt.org/schemas/domain/qemu/1.0}arg")]
    assert any(CONTROL_MAC in str(word) for word in words)


def test_an_emulated_processor_does_not_pretend_to_copy_fast() -> None:
    asked = {feature.get("name"): feature.get("policy") for feature in described().findall("cpu/feature")}
    assert asked == {"erms": "disable", "fsrm": "disable"}
    assert described(replace(GUEST, accel="kvm")).findall("cpu/feature") == []


@pytest.mark.parametrize(
    ("change", "path", "attribute", "value"),
    [
        ({"accel": "kvm"}, ".", "type", "kvm"),
        ({"nic": "e1000e"}, "devices/interface/model", "type", "e1000e"),
        ({"disk": "ide"}, "devices/disk/target", "bus", "sata"),
        ({"disk_format": "raw"}, "devices/disk/driver", "type", "raw"),
        ({"disk_cache": "none"}, "devices/disk/driver", "cache", "none"),
        ({}, "devices/disk/driver", "error_policy", "report"),
        ({}, "devices/disk/driver", "rerror_policy", "report"),
        ({"cpu_model": "host"}, "cpu", "mode", "host-passthrough"),
        ({"cpu_model": "qemu64"}, "cpu", "mode", "custom"),
        ({"share": SharedFolder(source="/srv/a b", mountpoint="/mnt")}, "devices/filesystem/source", "dir", "/srv/a b"),
    ],
)
def test_each_level_shows(change: dict[str, object], path: str, attribute: str, value: str) -> None:
    root = described(replace(GUEST, **change))  # type: ignore[arg-type]
    assert one(root, path).get(attribute) == value


def test_qemu_itself_carries_the_packets_as_it_does_without_libvirt() -> None:
    """On KVM libvirt would leave that to the host's kernel (vhost), and the two would be other machines."""
    card = one(described(replace(GUEST, accel="kvm")), "devices/interface")
    assert one(card, "driver").attrib == {"name": "qemu"}
    assert not any("vhost" in word for word in arguments.build_command(replace(GUEST, accel="kvm")))
    assert described(replace(GUEST, nic="e1000e")).find("devices/interface/driver") is None


def test_vcpus_without_a_cpu_each_are_not_pinned() -> None:
    assert described(cpus="1").findall("cputune/vcpupin") == []
    assert described(cpus="").find("cputune") is None
    assert domain.pin_vcpus(2, "4,6") == {0: 4, 1: 6} and domain.pin_vcpus(2, "4") == {}


def test_hostile_words_stay_text() -> None:
    hostile = "/a'\"<b>&;{}"
    guest = replace(GUEST, kernel=hostile, kernel_arguments=("</cmdline><seclabel/>",))
    root = described(guest)
    assert one(root, "os/kernel").text == hostile
    assert root.find("seclabel") is None and "</cmdline><seclabel/>" in str(one(root, "os/cmdline").text)


def test_what_libvirt_says_is_told_without_its_prefixes() -> None:
    said = b"error: failed to connect to the hypervisor\nerror: No such file or directory\n"
    assert virsh.reason(said) == "failed to connect to the hypervisor; No such file or directory"
    assert virsh.reason(b"") == "it said nothing"
