"""A guest of the user's own image, which brings its kernel: by the SSH server that cloud-init set up."""

from collections.abc import Mapping, Sequence

from nearmetal.config import Paths
from nearmetal.errors import BadInput
from nearmetal.lab import machine_programs, probe
from nearmetal.lab.architecture import X86_64
from nearmetal.lab.keys import lab_keys
from nearmetal.lab.ssh import ssh_machine as ssh
from nearmetal.model import Handle, Running, Site

from . import cloud_image
from .guest import LOOPBACK, Guest


class CloudImageGuest(Guest, ssh.SshMachine):
    boot_limit = cloud_image.BOOT
    remedy = (
        f"use an image in which cloud-init and an SSH server start by themselves, for {X86_64.title} and a BIOS; how "
        f"far it came is seen where its kernel writes to the first serial line (console={X86_64.console})"
    )

    def __init__(self, handle: Handle, site: Site, ports: Mapping[str, int], running: Running | None) -> None:
        keys = lab_keys(Paths.default().state)
        endpoint = ssh.SshEndpoint(LOOPBACK, ports["ssh_port"], "root", keys.client.loaded(), keys.host.loaded())
        super().__init__(handle, site, running, endpoint=endpoint)

    async def settle(self) -> None:
        await cloud_image.wait_settled(self)
        await probe.ensure(self)

    def started(self, argv: Sequence[str], env: Mapping[str, str]) -> list[str]:
        """The guest ends with us, and so does what runs in it: `env` then does, at half of the probe's cost."""
        if "=" in argv[0]:
            raise BadInput(f"{argv[0]!r} cannot be the name of a program in a guest", self.name, "leave out the '='")
        return machine_programs.build_env(argv, env)
