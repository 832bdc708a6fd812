"""The way into a machine of Vagrant's, as root: a real sshd shows what a box's would.

Its other user has root's number, and a `sudo` that needs no more than to be asked, so that no more has to be installed.
"""

from pathlib import Path

import asyncssh
import pytest

from nearmetal.errors import HostCannot
from nearmetal.lab.ssh_site import SshSite
from nearmetal.lab.vagrant import login
from nearmetal.lab.vagrant.output import Login

from .far_host import FarHost, User

pytestmark = pytest.mark.live

ASKED = '#!/bin/sh\n[ "$1" = -n ] || exit 1\nshift\nexec "$@"\n'
REFUSES = "#!/bin/sh\necho 'sudo: a password is required' >&2\nexit 1\n"


@pytest.fixture
def boxed(far: FarHost, request: pytest.FixtureRequest, tmp_path: Path) -> Login:
    """As `vagrant ssh-config` would tell it: the first key is none of the machine's."""
    someone: User = request.getfixturevalue("login")[0]
    other = asyncssh.generate_private_key("ssh-ed25519")
    other.write_private_key(str(tmp_path / "other"))
    far.run("useradd", "--non-unique", "--uid", "0", "--create-home", "--password", "*", "vagrant")
    keys = (str(tmp_path / "other"), str(someone.home / ".ssh/id_ed25519"))
    return Login(far.address, far.port, "vagrant", keys, by_command=False)


def sudo(far: FarHost, script: str) -> None:
    far.run("sh", "-c", 'printf %s "$1" >/usr/local/bin/sudo; chmod 755 /usr/local/bin/sudo', "write", script)


async def test_the_key_that_is_accepted_is_taken_and_the_host_key_is_kept(boxed: Login, far: FarHost) -> None:
    way = await login.way(boxed, None)
    assert (way.ssh, way.key) == (f"vagrant@{far.address}:{far.port}", boxed.keys[1])
    assert way.host_key == far.host_key.export_public_key().decode().strip()
    with pytest.raises(HostCannot, match="none of your keys"):
        await login.way(Login(boxed.host, boxed.port, boxed.user, boxed.keys[:1], by_command=False), None)


async def test_root_is_let_in_by_the_same_key(boxed: Login, far: FarHost) -> None:
    sudo(far, ASKED)
    way = await login.let_root_in(await login.way(boxed, None))
    assert way.ssh == f"root@{far.address}:{far.port}"
    authorized = far.run("cat", "/root/.ssh/authorized_keys")
    assert authorized.split()[1] == asyncssh.read_private_key(boxed.keys[1]).export_public_key().decode().split()[1]
    assert far.run("stat", "-c", "%a", "/root/.ssh/authorized_keys").strip() == "600"
    there = await SshSite.open("box", way, lambda text: None)
    await there.close()


async def test_a_sudo_that_asks_is_told(boxed: Login, far: FarHost) -> None:
    sudo(far, REFUSES)
    with pytest.raises(HostCannot, match="may not become root: sudo: a password is required") as refused:
        await login.let_root_in(await login.way(boxed, None))
    assert "without a password" in refused.value.remedy


async def test_nobody_there_is_told() -> None:
    with pytest.raises(HostCannot, match="nothing answers by SSH"):
        await login.way(Login("127.0.0.1", 9, "vagrant", (), by_command=False), None)
