"""The guest for a machine that was ordered, whoever is its monitor's master."""

from nearmetal.lab.image.transfer import Parts
from nearmetal.lab.machines import share as shares
from nearmetal.model import MachineSpec, Port, Site

from . import accelerator, requirements
from .arguments import PROGRAM, GuestSpec


async def order_guest(
    name: str, spec: MachineSpec, machine: str, parts: Parts, port: Port | None, site: Site
) -> GuestSpec:
    """`machine` is QEMU's machine type; the accelerator is the best that boots where the spec leaves it open."""
    accel = await requirements.choose_accelerator(spec, site)
    return GuestSpec(
        name=name,
        machine=machine,
        accel=accel,
        cpu_model=spec.cpu_model,
        vcpus=spec.vcpus,
        memory=spec.memory,
        kernel=parts.kernel,
        disk=spec.disk,
        disk_format=spec.disk_format,
        disk_cache=spec.disk_cache,
        nic=spec.nic,
        port=port,
        backing=(parts.disk,) if spec.disk_format == "qcow2" else (),
        share=shares.parse_share(spec),
        kernel_arguments=spec.kernel_arguments,
        vmm=spec.vmm or PROGRAM,
        vmm_arguments=spec.vmm_arguments,
        tsc_khz=await accelerator.find_clock(machine, accel, site),
    )
