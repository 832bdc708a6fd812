"""The closed set of things that can be changed: for each kind, how its value is read and written.

A value is text. Reading gives None where there is nothing yet; writing None takes away what was not there before.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from nearmetal.errors import HostCannot
from nearmetal.lab import ethtool
from nearmetal.lab.site import must
from nearmetal.model import ChangeKind, Commands

Read = Callable[[Commands, str], Awaitable[str | None]]
Write = Callable[[Commands, str, str | None], Awaitable[None]]

GRUB_DROP_IN = "/etc/default/grub.d/99-nearmetal.cfg"
"""A file of our own: the user's GRUB configuration is never edited."""


def _is_equal(actual: str | None, value: str) -> bool:
    return actual == value


@dataclass(frozen=True)
class Kind:
    read: Read
    write: Write
    holds: Callable[[str | None, str], bool] = _is_equal
    """Whether what was read is what was asked for."""
    passes: bool = False
    """Whether what has the value comes and goes: a process, a network card. What is gone is owed nothing."""
    shown: Callable[[str | None], str] = repr
    """A value, for people."""
    put_back: Callable[[Commands, str, str], Awaitable[str]] | None = None
    """For a value that is made of many: put each back that is still as we set it; what is not, in words, or ""."""


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
    """`target` is "INTERFACE FEATURE", or "NAMESPACE/INTERFACE FEATURE" on a site.

    The value is "off" or "on"; where a feature stands for several of the kernel's, "on: " and those that are on.
    """
    feature = await _feature(commands, target)
    if feature is None or not feature.is_on:
        return None if feature is None else "off"
    return f"on: {' '.join(feature.parts)}" if feature.parts else "on"


async def _feature(commands: Commands, target: str) -> ethtool.Feature | None:
    tool, interface, feature = _ethtool(target)
    return ethtool.parse((await commands.exec([*tool, "-k", interface])).text).get(feature)


def _ethtool(target: str) -> tuple[list[str], str, str]:
    """The program, the interface and the feature."""
    card, feature = target.split()
    namespace, slash, interface = card.rpartition("/")
    return ["ip", "netns", "exec", namespace, "ethtool"] if slash else ["ethtool"], interface, feature


async def _write_ethtool(commands: Commands, target: str, value: str | None) -> None:
    """Of what a feature stands for, just that is switched on which was on: its driver may be able to do more."""
    tool, interface, feature = _ethtool(target)
    state, _, parts = str(value).partition(": ")
    words = [word for part in parts.split() or [feature] for word in (part, state)]
    ended = await commands.exec([*tool, "-K", interface, *words])
    if ended.status != 0:
        found = await _feature(commands, target)
        said = (ended.stderr or ended.stdout).decode("utf-8", "replace").strip()[-300:]
        raise HostCannot("its driver cannot change that" if found and found.is_fixed else said)


def _is_switched(actual: str | None, value: str) -> bool:
    """ "on" asks for no more than that something of it is on."""
    return actual is not None and (actual == value or actual.partition(":")[0] == value)


CLEAR = "clear"
"""Nothing that could be moved may run there."""


async def _read_bystanders(commands: Commands, target: str) -> str | None:
    """`target` is "PROBE CPUS", the CPUs to keep free; the value "clear", or the probe's list of who may run there."""
    probe, cpus = target.split()
    ended = await commands.exec([probe, "bystanders", "list", "--json", "--cpus", cpus])
    if ended.status != 0:
        return None
    return ended.text.strip() if json.loads(ended.text)["movable"] else CLEAR


async def _write_bystanders(commands: Commands, target: str, value: str | None) -> None:
    probe, cpus = target.split()
    await must(commands, probe, "bystanders", "away", "--json", "--cpus", cpus)


async def _put_bystanders_back(commands: Commands, target: str, before: str) -> str:
    probe, _ = target.split()
    done = json.loads(await must(commands, probe, "bystanders", "back", "--json", stdin=before.encode()))
    return "; ".join(f"{one['name']}: {one['why']}" for one in [*done["left"], *done["refused"]])


def _show_bystanders(value: str | None) -> str:
    if value is None or value == CLEAR:
        return repr(value)
    there = json.loads(value)
    names = sorted({one["name"] for one in there["movable"].values()})
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"still there: {', '.join(names[:_NAMED])}{more}"


_NAMED = 10


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
    "affinity": Kind(_read_affinity, _write_affinity, passes=True),
    "irq": Kind(_read_irq, _write_irq),
    "ethtool": Kind(_read_ethtool, _write_ethtool, _is_switched, passes=True),
    "boot": Kind(_read_boot, _write_boot),
    "bystanders": Kind(_read_bystanders, _write_bystanders, shown=_show_bystanders, put_back=_put_bystanders_back),
}
