"""A directory of its host that a machine sees, and that way cannot write to: found there, and read back from inside."""

from nearmetal.lab.host_checks import finding
from nearmetal.model import Finding, Machine, MachineSpec, Readback, SharedFolder, Site


def parse_share(spec: MachineSpec) -> SharedFolder | None:
    return SharedFolder.parse(spec.share) if spec.share else None


async def check_share(spec: MachineSpec, site: Site) -> list[Finding]:
    """Whether the host has what a machine is to see; nothing to tell without a share."""
    wanted = parse_share(spec)
    if wanted is None:
        return []
    is_there = (await site.exec(["test", "-d", wanted.source])).status == 0
    remedy = "make it, or set machine.share to a directory that is there"
    return [finding(f"directory {wanted.source}", is_there, "it is not there", remedy)]


async def verify(machine: Machine, spec: MachineSpec) -> Readback:
    """Whether it is mounted in the machine, and as it should be."""
    wanted = parse_share(spec)
    if wanted is None:
        return Readback()
    mounts = (await machine.exec(["cat", "/proc/mounts"])).text
    fields = [line.split() for line in mounts.splitlines()]
    # Spaces and the like are written in octal there.
    found = [one for one in fields if one[1].encode().decode("unicode_escape") == wanted.mountpoint]
    if not found:
        return Readback(ok=False, reason=f"nothing is mounted at {wanted.mountpoint}")
    kind, options = found[-1][2], found[-1][3].split(",")
    values = {"mountpoint": wanted.mountpoint, "filesystem": kind, "readonly": "ro" in options}
    return Readback(values=values, ok="ro" in options, reason="" if "ro" in options else "it can be written to")
