"""A machine as vSphere is told and tells of it, in pyVmomi's types."""

from collections.abc import Iterator, Mapping
from typing import Any

from nearmetal.lab.vmware.vmware_machine import MARK, NICS, HardwareSettings, Power, Reconfiguration, VsphereMachine

READ = ["name", "config", "guest", "runtime.powerState"]
"""The properties that `seen` takes."""
_POWERS: Mapping[str, Power] = {"poweredOn": "on", "poweredOff": "off", "suspended": "suspended"}


def read_machine(reference: str, told: Mapping[str, Any]) -> VsphereMachine:
    config, guest = told["config"], told.get("guest")
    hardware = config.hardware
    cards = [str(type(card).__name__).rpartition(".")[2].removeprefix("Virtual").lower() for card in _cards(config)]
    return VsphereMachine(
        reference=reference,
        uuid=config.instanceUuid or config.uuid,
        name=told["name"],
        version=config.changeVersion,
        hardware=HardwareSettings(
            vcpus=hardware.numCPU,
            cores=hardware.numCoresPerSocket or 0,
            memory=hardware.memoryMB,
            nic=cards[0] if len(cards) == 1 else "",
        ),
        cards=len(cards),
        power=_POWERS[told["runtime.powerState"]],
        is_template=config.template,
        has_tools=guest is None or guest.toolsStatus != "toolsNotInstalled",
        addresses=tuple(_addresses(guest)),
        mark=next((str(one.value) for one in config.extraConfig if one.key == MARK), ""),
    )


def _addresses(guest: Any) -> Iterator[str]:
    if guest is None:
        return
    if guest.ipAddress:
        yield guest.ipAddress
    for card in guest.net or []:
        yield from card.ipAddress or []


def _cards(config: Any) -> list[Any]:
    from pyVmomi import vim

    return [one for one in config.hardware.device if isinstance(one, vim.vm.device.VirtualEthernetCard)]


def make_config_spec(machine: Any, version: str | None, change: Reconfiguration) -> Any:
    from pyVmomi import vim

    spec = vim.vm.ConfigSpec(changeVersion=version)
    if change.vcpus is not None:
        spec.numCPUs = change.vcpus
    if change.cores is not None:
        spec.numCoresPerSocket = change.cores
    if change.memory is not None:
        spec.memoryMB = change.memory
    if change.nic:
        spec.deviceChange = _exchanged(machine.config, change.nic)
    if change.mark is not None:
        spec.extraConfig = [vim.option.OptionValue(key=MARK, value=change.mark)]
    return spec


def _exchanged(config: Any, nic: str) -> list[Any]:
    """A card of another model in place of the only one, on the same network, with the same address and place."""
    from pyVmomi import vim

    device = vim.vm.device
    models = dict(zip(NICS, (device.VirtualVmxnet3, device.VirtualE1000e, device.VirtualE1000), strict=True))
    (old,) = _cards(config)
    kept = (
        *("backing", "connectable", "slotInfo", "controllerKey", "unitNumber"),
        *("addressType", "macAddress", "wakeOnLanEnabled"),
    )
    new = models[nic](key=-1, **{name: getattr(old, name) for name in kept})
    operation = device.VirtualDeviceSpec.Operation
    return [
        device.VirtualDeviceSpec(operation=operation.remove, device=old),
        device.VirtualDeviceSpec(operation=operation.add, device=new),
    ]


def make_clone_spec(source: Any, pool: Any, change: Reconfiguration) -> Any:
    """A clone in the template's own place, with what it computes from this pool."""
    from pyVmomi import vim

    where, config = vim.vm.RelocateSpec(pool=pool), make_config_spec(source, None, change)
    return vim.vm.CloneSpec(location=where, powerOn=False, template=False, config=config)
