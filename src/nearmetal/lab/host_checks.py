"""What environments find out about a host before they use it."""

import shutil
from collections.abc import Callable, Mapping, Sequence, Set

from nearmetal.errors import NearmetalError
from nearmetal.lab.packages import PROGRAMS, Manager, choose_manager, describe_install, find_manager
from nearmetal.model import Commands, Finding


def finding(what: str, ok: bool, detail: str, remedy: str) -> Finding:
    """What was found out about a host: whether `what` is `ok`, and if it is not, why (`detail`) and what helps."""
    return Finding(what=what, ok=ok) if ok else Finding(what=what, ok=False, detail=detail, remedy=remedy)


def check_cpus(wanted: int, available: int, why: str = "") -> Finding:
    """Whether as many CPUs of a host can be used as a machine is to have; `why`: what it is about having fewer.

    Those that can be used may be fewer than there are: a cpuset, an affinity or an isolation may keep some from us.
    """
    remedy = f"set machine.vcpus to at most {available}; `nearmetal isolate status` tells which are kept free"
    return finding(f"{wanted} CPUs", wanted <= available, f"{available} of the host can be used{why}", remedy)


def check_provided(what: str, find: Callable[[], object]) -> Finding:
    """Whether `find` gives `what`. The NearmetalError that it raises otherwise says why, and what helps."""
    try:
        find()
    except NearmetalError as error:
        return Finding(what=what, ok=False, detail=describe_place(error), remedy=error.remedy)
    return Finding(what=what, ok=True)


def describe_place(error: NearmetalError) -> str:
    """What is wrong, behind where it is, unless it names that itself."""
    return error.what if error.where in error.what else f"{error.where}: {error.what}"


def check_program(name: str, package: str) -> Finding:
    """Whether a program is installed on this host, by the Debian package that has it, or by several."""
    return _installed(name, shutil.which(name) is not None, package, find_manager)


async def check_programs(commands: Commands, packages: Mapping[str, str]) -> list[Finding]:
    """Whether programs are installed where commands run: one Finding for each.

    `packages` has the Debian package of each program by the program's name.
    """
    found = await _list_installed(commands, [*packages, *PROGRAMS])
    manager = choose_manager(found)
    return [_installed(name, name in found, package, lambda: manager) for name, package in packages.items()]


async def find_manager_there(commands: Commands) -> Manager | None:
    return choose_manager(await _list_installed(commands, PROGRAMS))


async def _list_installed(commands: Commands, names: Sequence[str]) -> Set[str]:
    """Those of these programs that are installed where commands run."""
    ended = await commands.exec(["sh", "-c", 'for name; do command -v "$name"; done; :', "which", *names])
    return {line.rpartition("/")[2] for line in ended.text.splitlines()}


def _installed(name: str, is_there: bool, package: str, manager: Callable[[], Manager | None]) -> Finding:
    if is_there:
        return Finding(what=name, ok=True)
    packages = tuple(package.split())
    remedy = describe_install(manager(), *packages)
    return Finding(what=name, ok=False, detail="it is not installed", remedy=remedy, packages=packages)
