"""A guest as a domain of libvirt: the same machine as the one that QEMU's command line describes. Pure."""

from typing import Final
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from nearmetal import cpu_lists
from nearmetal.lab.architecture import HERE
from nearmetal.lab.qemu import arguments, disk_trouble
from nearmetal.lab.qemu.arguments import GuestSpec, list_withheld
from nearmetal.model import Port, SharedFolder

_QEMU: Final = "http://libvirt.org/schemas/domain/qemu/1.0"
_CONTROL_SLOT: Final = "0x1d"
"""Of the PCI bus: one that libvirt gives to nothing."""

_MODELS: Final = {"virtio-net": "virtio"}
"""What a study calls a network card, where libvirt has another name for it."""
_DISKS: Final = {"virtio-blk": ("vda", "virtio"), "ide": ("sda", "sata")}
"""A disk's controller to the guest's name and the bus, as libvirt calls them; the machine types here have no IDE."""


def describe(guest: GuestSpec, uuid: str, folder: str, tap: str, cpus: str) -> str:
    """The XML of a domain whose files lie in a folder; `tap` is a tap that exists, `cpus` those of the host it has."""
    domain = Element("domain", {"type": "kvm" if guest.accel == "kvm" else "qemu", "xmlns:qemu": _QEMU})
    _text(domain, "name", guest.name)
    _text(domain, "uuid", uuid)
    _text(domain, "description", "made by nearmetal, and removed by it")
    _text(domain, "memory", str(guest.memory), unit="bytes")
    _text(domain, "vcpu", str(guest.vcpus), **({"cpuset": cpus} if cpus else {}))
    _pin(domain, guest.vcpus, cpus)
    system = SubElement(domain, "os")
    _text(system, "type", "hvm", arch=HERE.machine, machine=guest.machine)
    _text(system, "kernel", guest.kernel)
    _text(system, "initrd", f"{folder}/{arguments.INITRD}")
    _text(system, "cmdline", arguments.kernel_command_line(guest))
    features = SubElement(domain, "features")
    SubElement(features, "acpi")
    SubElement(features, "apic")
    _cpu(domain, guest)
    SubElement(domain, "clock", {"offset": "utc"})
    for event, action in (("poweroff", "destroy"), ("reboot", "restart"), ("crash", "destroy")):
        _text(domain, f"on_{event}", action)
    _devices(SubElement(domain, "devices"), guest, folder, tap)
    _control_network(domain)
    return ElementTree.tostring(domain, encoding="unicode")


def pin_vcpus(vcpus: int, cpus: str) -> dict[int, int]:
    """Each vCPU on a CPU of its own where there are as many; else none has one."""
    given = cpu_lists.parse(cpus)
    return dict(enumerate(given)) if len(given) == vcpus else {}


def _text(parent: Element, tag: str, text: str, **attributes: str) -> None:
    SubElement(parent, tag, attributes).text = text


def _pin(domain: Element, vcpus: int, cpus: str) -> None:
    if not cpus:
        return
    tune = SubElement(domain, "cputune")
    for vcpu, cpu in pin_vcpus(vcpus, cpus).items():
        SubElement(tune, "vcpupin", {"vcpu": str(vcpu), "cpuset": str(cpu)})
    SubElement(tune, "emulatorpin", {"cpuset": cpus})


def _cpu(domain: Element, guest: GuestSpec) -> None:
    modes = {"max": "maximum", "host": "host-passthrough"}
    cpu = SubElement(domain, "cpu", {"mode": modes.get(guest.cpu_model, "custom"), "check": "none"})
    if guest.cpu_model not in modes:
        _text(cpu, "model", guest.cpu_model, fallback="forbid")
    for feature in list_withheld(guest.accel, guest.cpu_model):
        SubElement(cpu, "feature", {"policy": "disable", "name": feature})
    SubElement(cpu, "topology", {"sockets": "1", "cores": str(guest.vcpus), "threads": "1"})


def _devices(devices: Element, guest: GuestSpec, folder: str, tap: str) -> None:
    disk = SubElement(devices, "disk", {"type": "file", "device": "disk"})
    policies = {"error_policy": disk_trouble.POLICY, "rerror_policy": disk_trouble.POLICY}
    SubElement(disk, "driver", {"name": "qemu", "type": guest.disk_format, "cache": guest.disk_cache, **policies})
    SubElement(disk, "source", {"file": f"{folder}/{arguments.name_disk(guest.disk_format)}"})
    name, bus = _DISKS[guest.disk]
    SubElement(disk, "target", {"dev": name, "bus": bus})
    if guest.port:
        _data_network(devices, guest, guest.port, tap)
    if guest.share:
        _shared(devices, guest.share)
    console = SubElement(devices, "serial", {"type": "file"})
    SubElement(console, "source", {"path": f"{folder}/{arguments.CONSOLE}", "append": "on"})
    SubElement(console, "target", {"port": "0"})
    _text(SubElement(devices, "rng", {"model": "virtio"}), "backend", "/dev/urandom", model="random")
    SubElement(devices, "memballoon", {"model": "none"})
    SubElement(devices, "controller", {"type": "usb", "model": "none"})


def _data_network(devices: Element, guest: GuestSpec, port: Port, tap: str) -> None:
    card = SubElement(devices, "interface", {"type": "ethernet"})
    SubElement(card, "mac", {"address": port.mac})
    SubElement(card, "target", {"dev": tap, "managed": "no"})
    SubElement(card, "model", {"type": _MODELS.get(guest.nic, guest.nic)})
    if guest.nic in _MODELS:
        # By itself libvirt leaves the packets to the host's kernel (vhost) on KVM, which QEMU by itself does not.
        SubElement(card, "driver", {"name": "qemu"})
    SubElement(card, "rom", {"enabled": "no"})


def _shared(devices: Element, share: SharedFolder) -> None:
    filesystem = SubElement(devices, "filesystem", {"type": "mount", "accessmode": "passthrough", "multidevs": "remap"})
    SubElement(filesystem, "source", {"dir": share.source})
    SubElement(filesystem, "target", {"dir": arguments.SHARE})
    SubElement(filesystem, "readonly")


def _control_network(domain: Element) -> None:
    """QEMU's own network with a port of the host's loopback, which libvirt has no words for."""
    line = SubElement(domain, "qemu:commandline")
    words = (
        *("-netdev", arguments.CONTROL),
        "-device",
        f"virtio-net-pci,netdev=control,mac={arguments.CONTROL_MAC},romfile=,bus={arguments.EXPRESS},addr={_CONTROL_SLOT}",
    )
    for word in words:
        SubElement(line, "qemu:arg", {"value": word})
