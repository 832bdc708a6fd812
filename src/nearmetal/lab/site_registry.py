"""From a host's name in a study to a site."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING

from nearmetal.errors import BadInput
from nearmetal.lab.local_site import LocalSite
from nearmetal.model import HostSpec, Site
from nearmetal.progress_messages import Say, ignore_text

if TYPE_CHECKING:
    from nearmetal.lab.ssh.ssh_site import SshSite


class Sites:
    """Reaches the hosts of a study when they are asked for, each once; to be closed."""

    def __init__(self, hosts: Mapping[str, HostSpec], say: Say = ignore_text) -> None:
        self._hosts = hosts
        self._say = say
        self._local = LocalSite(say)
        self._far: dict[str, SshSite] = {}
        self._reaching: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        """By name: a host that does not answer keeps nobody waiting for the others."""

    async def __call__(self, name: str) -> Site:
        """BadInput, or HostCannot with what helps."""
        if name == "local":
            return self._local
        if name not in self._hosts:
            raise BadInput(f"there is no host {name!r}", remedy=f'declare it: [hosts.{name}] ssh = "user@address"')
        async with self._reaching[name]:
            if name not in self._far:
                from nearmetal.lab.ssh.ssh_site import SshSite

                self._far[name] = await SshSite.open(name, self._hosts[name], self._say)
            return self._far[name]

    async def aclose(self) -> None:
        """Let go of all of them; what runs there ends."""
        for site in self._far.values():
            await site.close()
        self._far.clear()
