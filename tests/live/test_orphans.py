"""A command that outlives its controller for a moment has the last word no more."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from nearmetal.lab import clean
from nearmetal.lab.changes.ledger import ledgers_folder
from nearmetal.lab.image import Image
from tests.waiting import until

from .leftovers import groups, stays

pytestmark = pytest.mark.live

_CONTROLLER = """
import asyncio
from nearmetal.lab.local_site import LocalSite
from nearmetal.model import EnvironmentSpec, MachineSpec
from nearmetal.study.resolve import resolve_alone
from tests.live.laboratory import laboratory

async def main():
    async with laboratory() as lab:
        host = resolve_alone(EnvironmentSpec(kind="host"), MachineSpec())
        await lab.create(host, MachineSpec(), "server", "", LocalSite())

asyncio.run(main())
"""


@pytest.fixture
def slow_mkdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes groups only after a while, as under load; tells by a file that it was called."""
    programs, called = tmp_path / "bin", tmp_path / "called"
    programs.mkdir()
    (programs / "mkdir").write_text(f'#!/bin/sh\n: >{called}\nsleep 2\nexec /bin/mkdir "$@"\n')
    (programs / "mkdir").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    return called


async def test_a_group_that_is_still_being_made_is_removed_too(lab_image: Image, slow_mkdir: Path) -> None:
    controller = await asyncio.create_subprocess_exec(sys.executable, "-c", _CONTROLLER)
    await until(slow_mkdir.exists)
    controller.kill()
    await controller.wait()
    (ledger,) = ledgers_folder().glob("*.jsonl")
    cleaned = await clean.clean()
    assert cleaned.left == () and cleaned.ledgers == 1
    assert stays(f"nm-{ledger.stem}") == []
    assert not groups(ledger.stem)
