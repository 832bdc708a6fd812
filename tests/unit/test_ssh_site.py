"""A host of the user's own, as far as it can be told without one."""

from pathlib import Path

import asyncssh
import pytest

from nearmetal.errors import Unreachable
from nearmetal.lab.ssh.ssh_site import SshSite
from nearmetal.model import HostSpec
from tests.ssh_server import CLIENT, HOST, Server


async def test_a_host_that_lets_in_and_runs_nothing_is_told_of(tmp_path: Path) -> None:
    """As one is that just goes down to boot again, or whose sshd allows no sessions."""
    key = tmp_path / "key"
    CLIENT.write_private_key(str(key))
    async with await asyncssh.listen("127.0.0.1", 0, server_factory=Server, server_host_keys=[HOST]) as server:
        address = f"root@127.0.0.1:{server.get_port()}"
        spec = HostSpec(ssh=address, key=str(key), host_key=HOST.export_public_key().decode())
        with pytest.raises(Unreachable, match="runs no command") as error:
            await SshSite.open("far", spec, lambda text: None)
    assert address in error.value.where
