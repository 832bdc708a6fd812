"""The closed set of things that can be changed: for each kind, how its value is read and written.

A value is text. Reading gives None where there is nothing yet; writing None takes away what was not there before.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from nearmetal.errors import HostCannot
from nearmetal.lab.site import must
from nearmetal.model import ChangeKind, Commands

Read = Callable[[Commands, str], Awaitable[str | None]]
Write = Callable[[Commands, str, str | None], Awaitable[None]]

GRUB_DROP_IN = "/etc/default/grub.d/99-nearmetal.cfg"
"""A file of our own: the user's GRUB configuration is never edited."""


@dataclass(frozen=True)
class Kind:
    read: Read
    write: Write


async def _read_file(commands: Commands, target: str) -> str | None:
    ended = await commands.exec(["cat", target])
    return ended.text if ended.status == 0 else None


async def _write_file(commands: Commands, target: str, value: str | None) -> None:
    if value is None:
        await must(commands, "rm", "-f", target)
    else:
        await commands.put(value.encode(), target)


async def _read_sysctl(commands: Commands, target: str) -> str | None:
    ended = await commands.exec(["sysctl", "-n", target])
    return ended.text.strip() if ended.status == 0 else None


async def _write_sysctl(commands: Commands, target: str, value: str | None) -> None:
    await must(commands, "sysctl", "-q", "-w", f"{target}={value}")


async def _read_affinity(commands: Commands, target: str) -> str | None:
    ended = await commands.exec(["taskset", "-pc", target])
    return ended.text.rsplit(":", 1)[1].strip() if ended.status == 0 else None


async def _write_affinity(commands: Commands, target: str, value: str | None) -> None:
    await must(commands, "taskset", "-pc", str(value), target)


def _irq_file(target: str) -> str:
    return f"/proc/irq/{target}/smp_affinity_list"


async def _read_irq(commands: Commands, target: str) -> str | None:
    text = await _read_file(commands, _irq_file(target))
    return text.strip() if text is not None else None


async def _write_irq(commands: Commands, target: str, value: str | None) -> None:
    await must(commands, "tee", _irq_file(target), stdin=str(value).encode())


async def _read_ethtool(commands: Commands, target: str) -> str | None:
    """`target` is "INTERFACE FEATURE"; the value is "on" or "off", with "[fixed]" where it cannot be changed."""
    interface, feature = target.split()
    ended = await commands.exec(["ethtool", "-k", interface])
    for line in ended.text.splitlines():
        name, colon, value = line.strip().partition(": ")
        if colon and name == feature:
            return value.strip()
    return None


async def _write_ethtool(commands: Commands, target: str, value: str | None) -> None:
    interface, feature = target.split()
    await must(commands, "ethtool", "-K", interface, feature, str(value))


async def _read_boot(commands: Commands, target: str) -> str | None:
    """The kernel arguments that our drop-in adds; "" when there is none."""
    text = await _read_file(commands, GRUB_DROP_IN)
    if text is None:
        return ""
    return text.partition("$GRUB_CMDLINE_LINUX_DEFAULT ")[2].rstrip('"\n')


async def _write_boot(commands: Commands, target: str, value: str | None) -> None:
    if value:
        drop_in = f'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT {value}"\n'
        await commands.put(drop_in.encode(), GRUB_DROP_IN)
    else:
        await must(commands, "rm", "-f", GRUB_DROP_IN)
    ended = await commands.exec(["update-grub"], timeout=120)
    if ended.status != 0:
        raise HostCannot(
            "the boot loader could not be told the kernel arguments",
            "update-grub",
            f"set them by hand for this machine: {value or 'none'}",
        )


KINDS: Mapping[ChangeKind, Kind] = {
    "file": Kind(_read_file, _write_file),
    "sysctl": Kind(_read_sysctl, _write_sysctl),
    "affinity": Kind(_read_affinity, _write_affinity),
    "irq": Kind(_read_irq, _write_irq),
    "ethtool": Kind(_read_ethtool, _write_ethtool),
    "boot": Kind(_read_boot, _write_boot),
}
