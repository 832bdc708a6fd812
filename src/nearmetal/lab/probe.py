"""The probe: where it lies here, its hash, and how it gets to where it is needed."""

import hashlib
import os
import sys
from functools import cache
from pathlib import Path

from nearmetal.config import Paths
from nearmetal.errors import HostCannot, ToolFailed
from nearmetal.lab import container_privileges
from nearmetal.model import Machine
from nearmetal.system import files

INSIDE = "/run/nearmetal/nearmetal-probe"
"""Where it lies in every machine of ours: on a tmpfs, so that no disk image differs by it."""

_NAME = "nearmetal-probe"


@cache
def path() -> Path:
    """The probe for this host's architecture: the package's own, or a checkout's, which lies beside its Python.

    HostCannot when there is none.
    """
    named = os.environ.get("NEARMETAL_PROBE")
    places = [Path(named)] if named else [Path(__file__).with_name(_NAME), Path(sys.executable).with_name(_NAME)]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        remedy = "in a checkout: make setup; else install the package again"
        raise HostCannot("the probe is missing", str(places[-1]), remedy)
    # An engine mounts it by a path of its host's, where a container of ours has its cache from.
    is_usable = os.access(found, os.X_OK) and not container_privileges.is_contained()
    return found if is_usable else _copy_to_cache(found)


def _copy_to_cache(found: Path) -> Path:
    """A program there: what unpacks a package does not always keep that a file is one. HostCannot."""
    content = found.read_bytes()
    copy = Paths.default().cache / "probe" / hashlib.sha256(content).hexdigest() / _NAME
    if not copy.is_file():
        try:
            files.write_whole(copy, content)
            copy.chmod(0o755)
        except OSError as error:
            why = f"the probe cannot be used where it lies, and cannot be copied: {error.strerror}"
            raise HostCannot(why, str(copy), f"chmod +x {found}") from error
    return copy


@cache
def content() -> bytes:
    return path().read_bytes()


@cache
def sha256() -> str:
    return hashlib.sha256(content()).hexdigest()


async def ensure(machine: Machine) -> None:
    """Have exactly this probe in a machine. ToolFailed when what lies there afterwards is another."""
    if await _hash_there(machine) == sha256():
        return
    await machine.put(content(), machine.probe, mode=0o755)
    there = await _hash_there(machine)
    if there != sha256():
        raise ToolFailed(f"the probe arrived changed: {there or 'nothing'} instead of {sha256()}", machine.name)


async def _hash_there(machine: Machine) -> str:
    return (await machine.exec(["sha256sum", machine.probe])).text.partition(" ")[0]
