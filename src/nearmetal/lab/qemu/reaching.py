"""Which machine a guest of QEMU's is to those who reach it: one of the lab's image, or of the user's own."""

from nearmetal.lab.qemu.guest import Guest, QemuMachine, forwarded
from nearmetal.model import Handle, Running, Site


async def reach_guest(handle: Handle, site: Site, running: Running | None) -> Guest:
    """The machine of a handle, not connected yet. NotProvisioned when it was never whole."""
    ports = await forwarded(handle, site)
    if not handle.image.brings_kernel:
        return QemuMachine(handle, site, ports, running, running is not None)
    # With asyncssh, which takes as long to import as a guest to restore.
    from nearmetal.lab.qemu.own_disk_machine import OwnDiskMachine

    return OwnDiskMachine(handle, site, ports, running)
