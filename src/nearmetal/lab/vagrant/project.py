"""A folder with a Vagrantfile, and Vagrant at work in it: its own program, run on the controller's host.

Vagrant asks nothing: it has no terminal and nothing to read. Every call has a limit.
"""

import asyncio
import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from nearmetal.errors import HostCannot, MachineError, TimedOut
from nearmetal.lab.vagrant import output
from nearmetal.lab.vagrant.output import MachineStatus, OutputLine, VagrantLogin
from nearmetal.model import Site

PROGRAM: Final = "vagrant"
LOOK: Final = 120.0
"""Seconds that Vagrant may take to read a Vagrantfile, which is a program, and to ask its provider."""
UP: Final = 1800.0
"""Seconds that a machine may take to come up: its box may have to be fetched, and its provisioners install systems."""
DOWN: Final = 300.0
_LOCKED: Final = 180.0
"""Seconds to wait for another Vagrant that works on the machine."""
_PAUSE: Final = 2.0
_BUSY: Final = ("MachineLocked", "MachineActionLockedError")
_BOTH_LET_GO: Final = re.compile(r"/machine-index/\S+\.lock \(Errno::ENOENT\)")
"""Of what Vagrant 2.3 ends with, naming no class, where another lets go of the same machine in the same moment."""

_REMEDIES: Final[Mapping[str, str]] = {
    "NoEnvironmentError": "name the folder where the Vagrantfile is",
    "ProviderNotUsable": "install what the provider needs, or name another by VAGRANT_DEFAULT_PROVIDER",
    "ProviderNotFound": "install the provider's plugin, or name another by VAGRANT_DEFAULT_PROVIDER",
    "UIExpectsTTY": "nearmetal answers no questions: let the Vagrantfile ask none",
    "MachineLocked": "wait until the other vagrant ends",
    "MachineActionLockedError": "wait until the other vagrant ends",
}


class VagrantError(HostCannot):
    """Vagrant ended with an error; `kind` is its class, "" where it names none."""

    def __init__(self, kind: str, what: str, folder: str) -> None:
        remedy = _REMEDIES.get(kind, f"see by hand: {_typed(folder, 'status')}")
        super().__init__(f"vagrant: {what}", folder, remedy)
        self.kind = kind

    @property
    def is_busy(self) -> bool:
        """Another Vagrant is at work on the machine."""
        return self.kind in _BUSY or (not self.kind and _BOTH_LET_GO.search(self.what) is not None)


def _typed(folder: str, *argv: str) -> str:
    return f"cd {shlex.quote(folder)} && {shlex.join([PROGRAM, *argv])}"


class Project:
    def __init__(self, folder: str, site: Site) -> None:
        self.folder = folder
        self._site = site

    def by_hand(self, *argv: str) -> str:
        return _typed(self.folder, *argv)

    async def machines(self, *, when_free: bool = False) -> Mapping[str, MachineStatus]:
        """All machines of the Vagrantfile. HostCannot with what Vagrant says of it.

        `when_free`: after another Vagrant is done with them, because even to look at a machine it is locked.
        """
        return output.parse_machines(await (self._run_when_free if when_free else self._run)("status", limit=LOOK))

    async def up(self, machine: str, is_provisioned: bool) -> None:
        """Returns when it runs, and a new one is provisioned."""
        await self._run("up", *(() if is_provisioned else ("--no-provision",)), machine, limit=UP)

    async def login(self, machine: str) -> VagrantLogin:
        return output.parse_login(await self._run("ssh-config", machine, limit=LOOK))

    async def halt(self, machine: str) -> None:
        await self._run_when_free("halt", machine, limit=DOWN)

    async def destroy(self, machine: str) -> None:
        await self._run_when_free("destroy", "--force", machine, limit=DOWN)

    async def discard(self, machine: str) -> None:
        """Remove what an interrupted Vagrant left of a machine that is not there: vagrant-libvirt makes its disk first,
        removes it last, and brings up no other over it. If another Vagrant is at work, that is its own.
        """
        try:
            await self._run("destroy", "--force", machine, limit=DOWN)
        except VagrantError as error:
            if not error.is_busy:
                raise

    def identity(self, machine: str, provider: str) -> str | None:
        """Which machine it is, as its provider calls it; None where there is none."""
        kept = os.environ.get("VAGRANT_DOTFILE_PATH") or ".vagrant"
        try:
            return Path(self.folder, kept, "machines", machine, provider, "id").read_text("utf-8").strip() or None
        except OSError:
            return None

    async def _run_when_free(self, *argv: str, limit: float) -> list[OutputLine]:
        until = asyncio.get_running_loop().time() + _LOCKED
        while True:
            try:
                return await self._run(*argv, limit=limit)
            except VagrantError as error:
                if not error.is_busy or asyncio.get_running_loop().time() > until:
                    raise
            await asyncio.sleep(_PAUSE)

    async def _run(self, *argv: str, limit: float) -> list[OutputLine]:
        # It ends with us: one that went on alone would bring up what nobody removes any more.
        command = [self._site.probe, "launch", *self._site.bound, "--", PROGRAM, *argv, "--machine-readable"]
        where = {"VAGRANT_CWD": self.folder, "VAGRANT_CHECKPOINT_DISABLE": "1", "VAGRANT_NO_COLOR": "1"}
        try:
            ended = await self._site.exec(command, env=where, timeout=limit)
        except TimedOut:
            what = f"`vagrant {argv[0]}` did not end within {limit:g} s: it waits for something, or asks"
            raise VagrantError("", what, self.folder) from None
        except MachineError as error:
            raise VagrantError("", error.what, self.folder) from None
        told = output.parse_lines(ended.stdout)
        if ended.status != 0:
            kind, what = output.find_refusal(told) or ("", output.shorten(ended.stderr.decode("utf-8", "replace")))
            raise VagrantError(kind, what or f"`vagrant {argv[0]}` ended with status {ended.status}", self.folder)
        return told
