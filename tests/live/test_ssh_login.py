"""Logging in to a real sshd as the user has it: by their agent's keys, by what their configuration says."""

import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import asyncssh
import pytest

from nearmetal.errors import HostCannot
from nearmetal.lab.ssh.ssh_site import SshSite
from nearmetal.model import HostSpec

from .far_host import FarHost
from .two_hosts import Login

pytestmark = pytest.mark.live


@asynccontextmanager
async def reached(spec: HostSpec) -> AsyncIterator[SshSite]:
    site = await SshSite.open("metal", spec, print)
    try:
        yield site
    finally:
        await site.close()


@contextmanager
def agent(folder: Path, *keys: Path) -> Iterator[str]:
    """An ssh-agent of the test's own, with these keys; the path of its socket."""
    path = str(folder / "agent")
    with subprocess.Popen(["ssh-agent", "-D", "-a", path], stdout=subprocess.DEVNULL) as process:
        try:
            for key in keys:
                _given(key, path)
            yield path
        finally:
            process.terminate()


def _given(key: Path, socket: str) -> None:
    add = ["sh", "-c", 'until [ -S "$SSH_AUTH_SOCK" ]; do sleep 0.01; done; exec ssh-add -q "$0"', str(key)]
    subprocess.run(add, env={**os.environ, "SSH_AUTH_SOCK": socket}, check=True, timeout=20)


@pytest.fixture
def elsewhere(login: Login, tmp_path: Path) -> Path:
    """The user's key, moved to where nobody looks for it."""
    key = tmp_path / "a key"
    (login[0].folder / "id_ed25519").rename(key)
    key.chmod(0o600)
    return key


async def test_a_key_of_the_agents_is_used(
    far: FarHost, elsewhere: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with agent(tmp_path, elsewhere) as socket:
        elsewhere.unlink()
        with pytest.raises(HostCannot, match="none of your keys"):
            async with reached(HostSpec(ssh=far.ssh)):
                pass
        monkeypatch.setenv("SSH_AUTH_SOCK", socket)
        async with reached(HostSpec(ssh=far.ssh)) as site:
            assert (await site.exec(["hostname"])).text == "far\n"


async def test_an_agent_that_is_no_more_is_as_none(
    far: FarHost, login: Login, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "none"))
    async with reached(HostSpec(ssh=far.ssh)) as site:
        assert (await site.exec(["hostname"])).text == "far\n"


async def test_a_host_of_the_configuration_is_reached_by_its_name(far: FarHost, login: Login, elsewhere: Path) -> None:
    """Its HostName, Port, User and IdentityFile."""
    (login[0].folder / "config").write_text(
        f'Host metal\n  HostName {far.address}\n  Port {far.port}\n  User root\n  IdentityFile "{elsewhere}"\n'
        "Host *\n  HostName 192.0.2.1\n  Port 1\n  User nobody\n"
    )
    async with reached(HostSpec(ssh="metal")) as site:
        assert (await site.exec(["hostname"])).text == "far\n"
        assert (await site.exec(["id", "-u"])).text == "0\n"
        assert site.underlay == far.address


async def test_a_host_whose_key_is_of_another_kind_than_the_known_one_is_refused(far: FarHost, login: Login) -> None:
    told = f"[{far.address}]:{far.port} "
    for known in (asyncssh.generate_private_key(kind) for kind in ("ssh-rsa", "ecdsa-sha2-nistp256")):
        (login[0].folder / "known_hosts").write_text(told + known.export_public_key().decode())
        with pytest.raises(HostCannot, match="ANOTHER than the one known: of another kind") as refused:
            await SshSite.open("metal", HostSpec(ssh=far.ssh), print)
        assert known.get_fingerprint() in refused.value.what and far.host_key.get_fingerprint() in refused.value.what
        with pytest.raises(HostCannot, match="of another kind") as refused:
            public = known.export_public_key().decode()
            await SshSite.open("metal", HostSpec(ssh=far.ssh, host_key=public), print)
        assert "compare host_key" in refused.value.remedy
