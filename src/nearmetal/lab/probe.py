"""The probe: where it lies here, its hash, and how it gets to where it is needed."""

import hashlib
import os
import sys
from functools import cache
from pathlib import Path

from nearmetal.errors import HostCannot, ToolFailed
from nearmetal.model import Machine

INSIDE = "/run/nearmetal/nearmetal-probe"
"""Where it lies in every machine of ours: on a tmpfs, so that no disk image differs by it."""


@cache
def path() -> Path:
    """The probe for this host's architecture. HostCannot when it has not been built."""
    named = os.environ.get("NEARMETAL_PROBE")
    found = Path(named) if named else Path(sys.executable).parent / "nearmetal-probe"
    if not found.is_file():
        remedy = "in a checkout: make setup; else install the package again"
        raise HostCannot("the probe is missing", str(found), remedy)
    return found


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
