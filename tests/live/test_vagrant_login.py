"""The way into a machine of Vagrant's: a real sshd shows what a box's would."""

from pathlib import Path

import asyncssh
import pytest

from nearmetal.environments.vagrant import plugin
from nearmetal.errors import HostCannot
from nearmetal.lab.local_site import LocalSite
from nearmetal.lab.vagrant import login
from nearmetal.lab.vagrant.output import VagrantLogin
from nearmetal.model import EnvironmentSpec, Finding, MachineSpec
from tests import fake_vagrant

from .far_host import FarHost, User

pytestmark = pytest.mark.live


@pytest.fixture
def boxed(far: FarHost, request: pytest.FixtureRequest, tmp_path: Path) -> VagrantLogin:
    """As `vagrant ssh-config` would tell it: the first key is none of the machine's."""
    someone: User = request.getfixturevalue("login")[0]
    other = asyncssh.generate_private_key("ssh-ed25519")
    other.write_private_key(str(tmp_path / "other"))
    far.run("useradd", "--non-unique", "--uid", "0", "--create-home", "--password", "*", "vagrant")
    keys = (str(tmp_path / "other"), str(someone.home / ".ssh/id_ed25519"))
    return VagrantLogin(far.address, far.port, "vagrant", keys, by_command=False)


async def test_the_key_that_is_accepted_is_taken_and_the_host_key_is_kept(boxed: VagrantLogin, far: FarHost) -> None:
    way = await login.find_way(boxed, None)
    assert (way.ssh, way.key) == (f"vagrant@{far.address}:{far.port}", boxed.keys[1])
    assert way.host_key == far.host_key.export_public_key().decode().strip()
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert await login.read_boot_id(way) == boot_id
    with pytest.raises(HostCannot, match="host key"):
        other = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode().strip()
        await login.read_boot_id(way.model_copy(update={"host_key": other}))
    with pytest.raises(HostCannot, match="none of your keys"):
        await login.find_way(VagrantLogin(boxed.host, boxed.port, boxed.user, boxed.keys[:1], by_command=False), None)


async def test_what_is_wrong_in_one_that_runs_is_told_before(
    boxed: VagrantLogin, far: FarHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root can be had there, and not; the programs are there, and one is not."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}", prepend=":")
    fake = fake_vagrant.install(tmp_path / "bin", tmp_path / "project")
    fake.machines(default="running")
    far.run("useradd", "--password", "*", "nobody-there")

    async def wrong(user: str) -> Finding | None:
        fake.reached(
            *(f"HostName {boxed.host}", f"Port {boxed.port}", f"User {user}", f"IdentityFile {boxed.keys[1]}"),
        )
        options = {"kind": "vagrant", "folder": str(fake.folder), "provision": "reuse", "data": far.address}
        found = await plugin.check(EnvironmentSpec.model_validate(options), MachineSpec(), LocalSite())
        return next((one for one in found if not one.ok), None)

    assert await wrong("root") is None
    refused = await wrong("nobody-there")
    assert refused and "sudo" in refused.detail and refused.remedy
    far.run("rm", far.run("sh", "-c", "command -v ethtool").strip())
    lacking = await wrong("root")
    assert lacking and lacking.what == "ethtool"


async def test_nobody_there_is_told() -> None:
    with pytest.raises(HostCannot, match="nothing answers by SSH"):
        await login.find_way(VagrantLogin("127.0.0.1", 9, "vagrant", (), by_command=False), None)
