"""Where commands run: what this host and one by SSH do alike, and what goes wrong on the way to one by SSH."""

import asyncio
import os
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path

import asyncssh
import pytest
import pytest_asyncio

from nearmetal.errors import BadInput, HostCannot, MachineLost, TimedOut, ToolFailed
from nearmetal.lab.image import Image, transfer
from nearmetal.lab.local_site import LocalSite
from nearmetal.lab.site_registry import Sites
from nearmetal.lab.ssh.ssh_site import SshSite
from nearmetal.model import HostSpec, Site
from tests.ports import free_port

from .far_host import FarHost
from .two_hosts import Login

pytestmark = pytest.mark.live


@pytest_asyncio.fixture(params=["local", "far"])
async def either(request: pytest.FixtureRequest, lab_image: Image) -> AsyncIterator[Site]:
    """This host, and one by SSH: what holds of the one holds of the other."""
    if request.param == "local":
        yield LocalSite()
        return
    host = request.getfixturevalue("far")
    sites = Sites({"far": HostSpec(ssh=host.ssh)})
    try:
        yield await sites("far")
    finally:
        await sites.aclose()


# ── What every site does alike ────────────────────────────────────────────────────────────────────────────────────

BINARY = bytes(range(256)) * 64


async def test_it_tells_what_it_is(either: Site) -> None:
    assert either.arch == os.uname().machine
    assert either.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    ended = await either.exec([either.probe, "--version"])
    assert ended.status == 0


async def test_a_command_has_its_status_and_streams(either: Site) -> None:
    ended = await either.exec(["sh", "-c", "cat; echo err >&2; exit 7"], stdin=BINARY)
    assert (ended.status, ended.stdout, ended.stderr) == (7, BINARY, b"err\n")
    assert (await either.exec(["sh", "-c", "kill -9 $$"])).status == 137
    assert (await either.exec(["printenv", "ODD"], env={"ODD": "a b'c\n$d"})).text == "a b'c\n$d\n"


async def test_the_files_of_an_image_are_roots_alone(either: Site, lab_image: Image) -> None:
    for mode in ("anew", "755"):
        folder = await transfer.place_root(lab_image, either)
        assert (await either.exec(["stat", "-c", "%a", folder])).text == "700\n", mode
        await either.exec(["chmod", "755", folder])  # as earlier versions left it


async def test_hostile_words_stay_words(either: Site) -> None:
    for word in ("$(touch /tmp/owned)", "; id", "`id`", "a b", "'", '"', "*", "\\", "-n", "ü", "a\nb"):
        assert (await either.exec(["printf", "%s", word])).text == word


async def test_a_command_over_its_time_is_killed(either: Site) -> None:
    with pytest.raises(TimedOut):
        await either.exec(["sh", "-c", "sleep 4322 & sleep 4322"], timeout=0.5)
    for _ in range(100):
        if not await running(either, "4322"):
            return
        await asyncio.sleep(0.05)
    pytest.fail("it still runs")


async def running(site: Site, word: str) -> bool:
    listed = (await site.exec(["ps", "-eo", "args"])).text
    return any(word in line.split() for line in listed.splitlines())


@pytest.mark.parametrize("name", ["plain", "with space/and 'quote'", "ümlaut/$HOME/*"])
async def test_files_arrive_whole(either: Site, tmp_path: Path, name: str) -> None:
    path = f"/tmp/nmt{os.getpid()}/{name}"
    content = os.urandom(2**20) + BINARY
    await either.put(content, path, mode=0o750)
    assert await either.get(path) == content
    assert (await either.exec(["stat", "-c", "%a", path])).text == "750\n"
    await either.exec(["rm", "-rf", f"/tmp/nmt{os.getpid()}"])


async def test_the_first_line_is_told_while_it_goes_on(either: Site) -> None:
    going = await either.spawn(["sh", "-c", "sleep 0.2; printf 'rea'; sleep 0.1; echo dy; echo more; exec sleep 60"])
    assert await going.first_line(10) == b"ready"
    assert await going.first_line(10) == b"ready"
    with pytest.raises(TimedOut):
        await going.wait(0.1)
    assert (await going.stop()).stdout == b"ready\nmore\n"


async def test_without_a_line_the_end_is_the_first_line(either: Site) -> None:
    for script, said in (("printf abc; exit 3", b"abc"), ("exit 3", b""), ("echo; exit 3", b"")):
        ended = await either.spawn(["sh", "-c", script])
        assert await ended.first_line(10) == said
        assert (await ended.wait(10)).status == 3
    silent = await either.spawn(["sleep", "61"])
    with pytest.raises(TimedOut):
        await silent.first_line(0.2)
    await silent.stop()


async def test_what_was_spawned_can_be_stopped(either: Site) -> None:
    going = await either.spawn(["sh", "-c", "trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.02; done"])
    assert await going.first_line(10) == b"up"
    ended = await going.stop()
    assert (ended.status, ended.stdout) == (3, b"up\nbye\n")
    assert await going.stop() == ended


# ── A host by SSH ─────────────────────────────────────────────────────────────────────────────────────────────────


async def opened(host: FarHost) -> SshSite:
    return await SshSite.open("far", HostSpec(ssh=host.ssh), print)


async def test_more_commands_at_once_than_a_connection_takes(far: FarHost) -> None:
    site = await opened(far)
    going = [await site.spawn(["sh", "-c", "echo up; exec sleep 63"]) for _ in range(25)]
    assert {await one.first_line(10) for one in going} == {b"up"}
    assert (await site.exec(["true"])).status == 0
    await asyncio.gather(*(one.stop() for one in going))
    await site.close()


async def test_what_runs_there_ends_with_the_connection(far: FarHost) -> None:
    site = await opened(far)
    await (await site.spawn(["sh", "-c", "echo up; exec sleep 4323"])).first_line(10)
    await site.close()
    for _ in range(100):
        if "sleep 4323" not in far.run("ps", "-eo", "args"):
            return
        await asyncio.sleep(0.05)
    pytest.fail("it outlived the connection")


async def test_a_lost_connection_is_made_again(far: FarHost) -> None:
    site = await opened(far)
    waiting = asyncio.ensure_future(site.exec(["sleep", "60"]))
    await asyncio.sleep(0.2)
    site.connection.abort()
    with pytest.raises(MachineLost):
        await waiting
    assert (await site.exec(["true"])).status == 0
    await site.close()


async def test_a_file_is_sent_once_and_whole(far: FarHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr("nearmetal.lab.ssh.ssh_site._CHUNK", 2**20)
    site = await SshSite.open("far", HostSpec(ssh=far.ssh), said.append)
    content = os.urandom(5 * 2**20 + 17)
    (tmp_path / "big").write_bytes(content)
    digest = sha256(content).hexdigest()
    path = await site.place(tmp_path / "big", digest)
    assert await site.get(path) == content
    assert said and "big" in said[-1]
    said.clear()
    assert await site.place(tmp_path / "big", digest) == path
    assert said == []
    with pytest.raises(HostCannot, match="arrived changed"):
        await site.place(tmp_path / "big", "0" * 64)
    await site.exec(["rm", path])
    await site.close()


async def test_a_file_that_is_not_there_is_told(far: FarHost) -> None:
    site = await opened(far)
    with pytest.raises(ToolFailed, match="No such file"):
        await site.get("/nowhere")
    await site.close()


async def test_an_unknown_host_key_is_refused(far: FarHost, login: Login) -> None:
    (login[0].folder / "known_hosts").unlink()
    with pytest.raises(HostCannot, match="host key") as refused:
        await opened(far)
    assert "known_hosts" in refused.value.remedy
    # Whoever switches the check off for all of SSH has not switched it off here.
    (login[0].folder / "config").write_text("Host *\n  UserKnownHostsFile none\n  StrictHostKeyChecking no\n")
    with pytest.raises(HostCannot, match="host key"):
        await opened(far)


async def test_another_key_than_the_known_one_is_refused(far: FarHost, login: Login) -> None:
    far.host_key = asyncssh.generate_private_key("ssh-ed25519")
    login[0].know(far)
    with pytest.raises(HostCannot, match="host key"):
        await opened(far)


async def test_a_host_that_takes_no_key_of_ours_is_told(far: FarHost, login: Login) -> None:
    (login[0].folder / "id_ed25519").unlink()
    with pytest.raises(HostCannot, match="none of your keys"):
        await opened(far)


async def test_a_host_that_does_not_answer_is_told() -> None:
    with pytest.raises(HostCannot, match="cannot be reached") as refused:
        await SshSite.open("far", HostSpec(ssh=f"root@127.0.0.1:{free_port()}"), print)
    assert "try: ssh -p" in refused.value.remedy and "Connection refused" in refused.value.what


async def test_an_address_that_is_none_is_bad_input() -> None:
    with pytest.raises(BadInput, match="no address"):
        await SshSite.open("far", HostSpec(ssh="root@host:99999"), print)
