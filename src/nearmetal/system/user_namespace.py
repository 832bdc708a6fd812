"""Root without root: a user namespace of an ordinary user's own, in which this process is root, and its mounts.

docs/adr/rootless-by-user-namespace.md has the reasons. A child makes the namespaces, and this process joins them if all
went well: what the host forbids is found out there.
"""

import ctypes
import errno
import json
import os
import pwd
import socket
import subprocess
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, NoReturn

from nearmetal.config import Paths
from nearmetal.errors import HostCannot

_NEW_MOUNTS, _NEW_USER = 0x0002_0000, 0x1000_0000
"""Flags of unshare(2)."""
_OPEN_TREE, _MOVE_MOUNT = 428, 429
"""System calls since Linux 5.2, which the C library need not know."""
_CLONE, _WHOLE, _FROM_DESCRIPTOR, _HERE = 1, 0x8000, 4, -100
"""Their flags OPEN_TREE_CLONE, AT_RECURSIVE, MOVE_MOUNT_F_EMPTY_PATH, and AT_FDCWD."""
_RUN: Final = Path("/run")
"""`ip netns` keeps its namespaces there, in a folder that only root of the host can make or change."""
_COVERED: Final = ".host"
"""In `_RUN`, all that was there before."""
_OWN: Final = "netns"
"""In `_RUN`, what is not its host's."""
_USERS: Final = Path("/proc/self/uid_map")
"""Of this process's namespace, each line a first number within, the same user's outside, and how many."""
_FORBIDS: Final = {
    "/proc/sys/kernel/unprivileged_userns_clone": "0",
    "/proc/sys/user/max_user_namespaces": "0",
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1",
}
"""Settings of kernels, each with the value by which it forbids user namespaces: Debian's, everybody's, Ubuntu's."""

_SET_ASIDE: Final = (
    "apt-get install uidmap, and sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $USER; or run "
    "nearmetal as root"
)
_GO_ON: Final = b"."

Range = tuple[int, int]
"""The first number, and how many."""

_refused: list[HostCannot] = []
"""Why this process could not enter."""


def enter() -> None:
    """Be root, unless this process is already, in namespaces of its own or those of this user's machines that are up.

    Idempotent. If the host forbids it, this process stays as it is, and `explain_refusal` says why. To be called before
    a thread begins: the kernel lets no process enter that has several.
    """
    if os.geteuid() == 0 or _refused:
        return
    # Where root's files lie is the host's; the user's stay at home.
    for name, at_home in (("XDG_CACHE_HOME", ".cache"), ("XDG_STATE_HOME", ".local/state")):
        os.environ.setdefault(name, str(Path.home() / at_home))
    try:
        folder = Path.cwd()
        if not _join_machines():
            _make_and_join(_find_range(Path("/etc/subuid")), _find_range(Path("/etc/subgid")))
    except HostCannot as error:
        _refused.append(error)
        return
    except OSError as error:
        _refused.append(_explain(error))
        return
    os.chdir(folder)  # who joins mounts is at their root


def is_entered() -> bool:
    """Whether this process is root in such a namespace alone, and not on its host."""
    return os.geteuid() == 0 and is_map_of_one_user(_USERS.read_text())


def is_map_of_one_user(users: str) -> bool:
    """Whether root of a namespace is one ordinary user outside: `users` is its uid_map. Pure.

    Of a container without privileges, such as LXD's, root stands for the first of a range that is the container's own.
    """
    lines = [line.split() for line in users.splitlines()]
    return any(first == "0" and outside != "0" and size == "1" for first, outside, size in lines)


def explain_refusal() -> HostCannot:
    """What an ordinary user is told who lacks the power of root."""
    return _refused[0] if _refused else HostCannot("this takes root", remedy="run nearmetal as root")


def _explain(error: OSError) -> HostCannot:
    """With the setting that forbids it, if one does."""
    for file, forbidding in _FORBIDS.items():
        with suppress(OSError):
            if Path(file).read_text().strip() == forbidding:
                name, value = file.removeprefix("/proc/sys/").replace("/", "."), "0" if forbidding == "1" else "1"
                value = "10000" if name.startswith("user.") else value
                return HostCannot(
                    f"this host lets no ordinary user make a user namespace ({name} = {forbidding})",
                    remedy=f"sudo sysctl -w {name}={value}; or run nearmetal as root",
                )
    what = f"no user namespace can be made here, as in many containers: {error.strerror or error}"
    return HostCannot(what, remedy="run nearmetal as root")


def _join_machines() -> bool:
    """Join the namespaces in which machines of this user's are up; whether there are any."""
    for file in Paths.default().state.glob("up/*.json"):
        with suppress(OSError, ValueError, KeyError):
            kept = json.loads(file.read_bytes())
            keeper = Path(f"/proc/{int(kept['keeper'])}")
            started = int((keeper / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[19])
            if started == kept["keeper_started"]:  # else its number is another process's by now
                _join(keeper)
                return True
    return False


def _join(process: Path) -> None:
    """Join the user and the mounts of a process, which is a folder of /proc. OSError."""
    with ExitStack() as opened:
        namespaces = [os.open(process / "ns" / name, os.O_RDONLY | os.O_CLOEXEC) for name in ("user", "mnt")]
        for one in namespaces:
            opened.callback(os.close, one)
        for one in namespaces:
            _call(_libc.setns, one, 0)


def _make_and_join(users: Range, groups: Range) -> None:
    """HostCannot, or OSError with what the kernel refused."""
    ours, its = socket.socketpair()
    with ours:
        child = os.fork()
        if child == 0:
            ours.close()
            _be_maker(its)
        its.close()
        try:
            _hear(ours)
            _map("newuidmap", child, os.geteuid(), users)
            _map("newgidmap", child, os.getegid(), groups)
            ours.sendall(_GO_ON)
            _hear(ours)
            _join(Path(f"/proc/{child}"))
        finally:
            ours.close()
            os.waitpid(child, 0)


def _hear(maker: socket.socket) -> None:
    """Wait until the maker's step succeeded. OSError if it did not."""
    told = maker.recv(4)
    number = int.from_bytes(told, "big") if told else errno.EPERM
    if number:
        raise OSError(number, os.strerror(number))


def _be_maker(controller: socket.socket) -> NoReturn:
    """Make the namespaces, in two steps whose errors the controller hears, and live until it has joined."""
    try:
        _call(_libc.unshare, _NEW_USER | _NEW_MOUNTS)
        controller.sendall(bytes(4))
        if controller.recv(1) == _GO_ON:
            _cover_run()
        controller.sendall(bytes(4))
        controller.recv(1)
    except OSError as error:
        with suppress(OSError):
            controller.sendall((error.errno or errno.EPERM).to_bytes(4, "big"))
    finally:
        os._exit(0)


def _cover_run() -> None:
    """Have a folder of our own for network namespaces; all else of `_RUN` is as it was."""
    run = bytes(_RUN)
    names = [path.name for path in _RUN.iterdir()]
    before = _call(_libc.syscall, _OPEN_TREE, _HERE, run, _CLONE | _WHOLE | os.O_CLOEXEC)
    _call(_libc.mount, b"tmpfs", run, b"tmpfs", ctypes.c_ulong(0), b"mode=755")
    (covered := _RUN / _COVERED).mkdir()
    _call(_libc.syscall, _MOVE_MOUNT, before, b"", _HERE, bytes(covered), _FROM_DESCRIPTOR)
    os.close(before)
    for name in names:
        if name != _OWN:
            (_RUN / name).symlink_to(f"{_COVERED}/{name}")


def _map(program: str, child: int, own: int, others: Range) -> None:
    """Have a user of ours be root in a process's namespace, and others be there beside it. HostCannot."""
    first, count = others
    words = map(str, (child, 0, own, 1, 1, first, count))
    try:
        ended = subprocess.run([program, *words], check=False, capture_output=True, text=True)
    except FileNotFoundError:
        raise HostCannot(f"there is no program {program!r}", remedy="apt-get install uidmap") from None
    if ended.returncode != 0:
        raise HostCannot(f"{program} failed: {ended.stderr.strip()}", remedy=_SET_ASIDE)


def _find_range(file: Path) -> Range:
    """The largest in a file like subuid(5) that is set aside for this user. HostCannot if there is none."""
    names = {str(os.geteuid())}
    with suppress(KeyError):
        names.add(pwd.getpwuid(os.geteuid()).pw_name)
    ranges: list[Range] = []
    with suppress(OSError, ValueError):
        for line in file.read_text().splitlines():
            name, *numbers = line.strip().split(":")
            if name in names and len(numbers) == 2:
                ranges.append((int(numbers[0]), int(numbers[1])))
    if not ranges:
        raise HostCannot(f"no users are set aside for you in {file}, and machines have several", remedy=_SET_ASIDE)
    return max(ranges, key=lambda one: one[1])


_libc = ctypes.CDLL(None, use_errno=True)


def _call(function: Callable[..., int], *arguments: object) -> int:
    """OSError."""
    result = function(*arguments)
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
