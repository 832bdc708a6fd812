"""The closed set of things that can be changed: for each kind, how its value is read and written.

A value is text. Reading gives None where there is nothing yet; writing None takes away what was not there before.
"""

import operator
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from nearmetal.config import LIMITS
from nearmetal.errors import HostCannot
from nearmetal.lab.changes import congestion, ethtool
from nearmetal.lab.changes.congestion import NetworkOwner
from nearmetal.lab.cpus import free_cpus
from nearmetal.lab.cpus.free_cpus import BYSTANDERS, CPUSET
from nearmetal.lab.local_site import require_success, run_checked
from nearmetal.model import Change, ChangeKind, Commands, Completed

Read = Callable[[Commands, str], Awaitable[str | None]]
Write = Callable[[Commands, str, str | None], Awaitable[None]]

GRUB_DROP_IN = "/etc/default/grub.d/99-nearmetal.cfg"
"""A file of our own: the user's GRUB configuration is never edited."""
_NO_SUCH_PROGRAM = 127
_UPDATE_GRUB = 4 * LIMITS.command


def _unmet(change: Change) -> str:
    return f"{change.kind} {change.target} could not be set to {change.after!r}"


@dataclass(frozen=True)
class Kind:
    read: Read
    write: Write
    holds: Callable[[str | None, str], bool] = operator.eq
    """Whether what was read is what was asked for."""
    passes: bool = False
    """Whether what has the value comes and goes: a process, a network card. What is gone is owed nothing."""
    shown: Callable[[str | None], str] = repr
    """A value, for people."""
    unmet: Callable[[Change], str] = _unmet
    """What was wished for and did not come about, for people."""
    put_back: Callable[[Commands, Change], Awaitable[str]] | None = None
    """For a value that is made of many: put each back that is still as we set it; what is not, in words, or ""."""


async def _read_file(commands: Commands, target: str) -> str | None:
    ended = await commands.exec(["cat", target])
    return ended.text if ended.status == 0 else None


async def _write_file(commands: Commands, target: str, value: str | None) -> None:
    if value is None:
        await run_checked(commands, "rm", "-f", target)
    else:
        await commands.put(value.encode(), target)


async def _exec_on_network(commands: Commands, *argv: str) -> Completed:
    """A container sees /proc/sys read-only and has no CAP_NET_ADMIN, so that its network is set from its host."""
    if isinstance(commands, NetworkOwner):
        return await commands.exec_in_network(argv)
    return await commands.exec(argv)


async def _exec_sysctl(commands: Commands, *argv: str) -> Completed:
    if argv[-1].startswith("net."):
        return await _exec_on_network(commands, "sysctl", *argv)
    return await commands.exec(["sysctl", *argv])


async def _read_sysctl(commands: Commands, target: str) -> str | None:
    """With single spaces: the kernel puts tabs between several numbers."""
    ended = await _exec_sysctl(commands, "-n", target)
    return " ".join(ended.text.split()) if ended.status == 0 else None


async def _write_sysctl(commands: Commands, target: str, value: str | None) -> None:
    ended = await _exec_sysctl(commands, "-q", "-w", f"{target}={value}")
    if ended.status != 0:
        raise HostCannot(ended.complaint[-300:] or f"sysctl ended with status {ended.status}")


async def _read_congestion(commands: Commands, target: str) -> str | None:
    return await congestion.read(commands, target) if isinstance(commands, NetworkOwner) else None


async def _write_congestion(commands: Commands, target: str, value: str | None) -> None:
    if isinstance(commands, NetworkOwner):
        await congestion.write(commands, target, value)


async def _read_affinity(commands: Commands, target: str) -> str | None:
    ended = await commands.exec(["taskset", "-pc", target])
    return ended.text.rsplit(":", 1)[1].strip() if ended.status == 0 else None


async def _write_affinity(commands: Commands, target: str, value: str | None) -> None:
    await run_checked(commands, "taskset", "-pc", str(value), target)


def _irq_file(target: str) -> str:
    return f"/proc/irq/{target}/smp_affinity_list"


async def _read_irq(commands: Commands, target: str) -> str | None:
    text = await _read_file(commands, _irq_file(target))
    return text.strip() if text is not None else None


async def _write_irq(commands: Commands, target: str, value: str | None) -> None:
    await run_checked(commands, "tee", _irq_file(target), stdin=str(value).encode())


async def _read_ethtool(commands: Commands, target: str) -> str | None:
    """`target` is "CARD FEATURE,FEATURE": the card an interface, or on a site "NAMESPACE/INTERFACE".

    The value is "FEATURE=off FEATURE=on" without those that are fixed, in place of "on" the kernel's own features that
    are on, where it stands for several. All at once, since a command takes an emulated guest a tenth of a second.
    """
    tool, interface, names = _ethtool(target)
    found = ethtool.parse((await _exec_on_network(commands, *tool, "-k", interface)).text)
    if not found:
        return None
    settable = {name: found[name] for name in names if name in found and not found[name].is_fixed}
    return " ".join(f"{name}={','.join(one.parts) or 'on' if one.is_on else 'off'}" for name, one in settable.items())


def _ethtool(target: str) -> tuple[list[str], str, list[str]]:
    """The program, the interface and the features."""
    card, features = target.split()
    namespace, slash, interface = card.rpartition("/")
    tool = ["ip", "netns", "exec", namespace, "ethtool"] if slash else ["ethtool"]
    return tool, interface, features.split(",")


async def _write_ethtool(commands: Commands, target: str, value: str | None) -> None:
    """ "on" or "off" for all features, or what was read: then just that is switched on which was on."""
    tool, interface, names = _ethtool(target)
    states = _states(value) if "=" in str(value) else dict.fromkeys(names, str(value))
    words = [
        word
        for name, state in states.items()
        for part in ([name] if state in ("on", "off") else state.split(","))
        for word in (part, "off" if state == "off" else "on")
    ]
    argv = [*tool, "-K", interface, *words]
    require_success(argv, await _exec_on_network(commands, *argv))


def _states(value: str | None) -> dict[str, str]:
    return dict(word.split("=", 1) for word in (value or "").split())


def _is_switched(actual: str | None, value: str) -> bool:
    """Of what can be changed; and "on" asks for no more than that something of a feature is on."""
    return actual is not None and all((state != "off") == (value == "on") for state in _states(actual).values())


async def _put_ethtool_back(commands: Commands, change: Change) -> str:
    before = _states(change.before)
    now = _states(await _read_ethtool(commands, change.target))
    differing = {name: state for name, state in before.items() if now.get(name, state) != state}
    ours = {name: state for name, state in differing.items() if (now[name] != "off") == (change.after == "on")}
    if ours:
        await _write_ethtool(commands, change.target, " ".join(f"{name}={state}" for name, state in ours.items()))
    theirs = differing.keys() - ours.keys()
    return "; ".join(f"{name} is {now[name]} now, which nearmetal did not set" for name in theirs)


async def _read_boot(commands: Commands, target: str) -> str | None:
    """The kernel arguments that our drop-in adds; "" when there is none."""
    return arguments_in(await _read_file(commands, GRUB_DROP_IN) or "")


def arguments_in(drop_in: str) -> str:
    """The kernel arguments that a drop-in of ours adds."""
    return drop_in.partition("$GRUB_CMDLINE_LINUX_DEFAULT ")[2].rstrip('"\n')


async def _write_boot(commands: Commands, target: str, value: str | None) -> None:
    if value:
        drop_in = f'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT {value}"\n'
        await commands.put(drop_in.encode(), GRUB_DROP_IN)
    else:
        await run_checked(commands, "rm", "-f", GRUB_DROP_IN)
    ended = await commands.exec(["update-grub"], timeout=_UPDATE_GRUB)
    if ended.status == _NO_SUCH_PROGRAM:
        await run_checked(commands, "rm", "-f", GRUB_DROP_IN)  # of which nobody has heard
        if value:
            remedy = "set the arguments by hand in its boot loader, or leave isolation by the kernel out"
            raise HostCannot("it has no update-grub, by which kernel arguments are set", remedy=remedy)
    elif ended.status != 0:
        said = ended.complaint[-300:] or f"status {ended.status}"
        raise HostCannot(f"update-grub failed: {said}", remedy="put right what it says, then run it by hand")


KINDS: Mapping[ChangeKind, Kind] = {
    "file": Kind(_read_file, _write_file),
    "sysctl": Kind(_read_sysctl, _write_sysctl),
    "congestion": Kind(_read_congestion, _write_congestion, passes=True),
    "affinity": Kind(_read_affinity, _write_affinity, passes=True),
    "irq": Kind(_read_irq, _write_irq),
    "ethtool": Kind(_read_ethtool, _write_ethtool, _is_switched, passes=True, put_back=_put_ethtool_back),
    "boot": Kind(_read_boot, _write_boot, unmet=lambda change: f"the boot loader could not be told {change.after}"),
    "cpuset": Kind(
        CPUSET.read,
        free_cpus.set_apart,
        CPUSET.holds,
        shown=CPUSET.show,
        unmet=CPUSET.describe_unmet,
        put_back=free_cpus.undo_apart,
    ),
    "bystanders": Kind(
        BYSTANDERS.read,
        free_cpus.move_bystanders,
        shown=BYSTANDERS.show,
        unmet=BYSTANDERS.describe_unmet,
        put_back=free_cpus.return_bystanders,
    ),
}
