"""Hosts whose root does not log in: somebody does, and sudo makes them root."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path

import pytest
import pytest_asyncio

from nearmetal.errors import HostCannot
from nearmetal.lab.changes.ledger import held, ledgers_folder, new_token
from nearmetal.lab.image import Image
from nearmetal.lab.lab import Lab
from nearmetal.lab.site_registry import Sites
from nearmetal.lab.ssh.ssh_site import SshSite
from nearmetal.model import EnvironmentSpec, HostSpec, MachineSpec
from nearmetal.study.resolve import resolve_alone
from tests.ports import free_port

from .far_host import FarHost, far_host
from .leftovers import groups
from .two_hosts import FAR_CACHE, Login

pytestmark = pytest.mark.live

FREELY = "operator ALL=(ALL) NOPASSWD: ALL"
ASKED = "operator ALL=(ALL) ALL"
SUDO = ("/usr/bin/sudo", "/usr/libexec/sudo", "/etc/pam.d/sudo")

Far = Callable[[str], FarHost]


@pytest.fixture
def far(lab_image: Image, tmp_path: Path, login: Login) -> Iterator[Far]:
    """A host with this line in its sudoers, known to who logs in."""
    started = []

    def begin(rule: str) -> FarHost:
        files = {"passwd": "operator:x:1000:1000::/:/bin/sh\n", "shadow": "operator:*:19000::::::\n"}
        placed = {one: Path(one) for one in SUDO}
        for name, entry in files.items():
            (tmp_path / name).write_text((lab_image.root / "etc" / name).read_text() + entry)
            placed[f"/etc/{name}"] = tmp_path / name
        (tmp_path / "sudoers").write_text(f"Defaults secure_path=/usr/sbin:/usr/bin:/sbin:/bin\n{rule}\n")
        (tmp_path / "sudoers").chmod(0o440)
        placed["/etc/sudoers"] = tmp_path / "sudoers"
        someone, key = login
        making = far_host(lab_image, tmp_path, key, port=free_port(), cache=FAR_CACHE, in_place_of=placed)
        started.append(making)
        host = making.__enter__()
        someone.know(host)
        return host

    yield begin
    for making in started:
        making.__exit__(None, None, None)


def as_operator(host: FarHost) -> HostSpec:
    return HostSpec.model_validate({"ssh": host.ssh.replace("root@", "operator@")})


@pytest_asyncio.fixture
async def site(far: Far) -> AsyncIterator[SshSite]:
    made = await SshSite.open("metal", as_operator(far(FREELY)), print)
    try:
        yield made
    finally:
        await made.close()


async def until(host: FarHost, argv: Sequence[str], holds: Callable[[str], bool]) -> bool:
    """Whether what a command says there comes to be so within some seconds."""
    for _ in range(100):
        if holds(host.run(*argv)):
            return True
        await asyncio.sleep(0.05)
    return False


async def test_what_is_done_there_is_done_as_root(site: SshSite) -> None:
    ended = await site.exec(["id", "-u"])
    assert ended.text.strip() == "0"
    assert site.underlay == "127.0.0.1", "the address that the connection leads to"


async def test_bytes_arrive_as_they_are(site: SshSite) -> None:
    content = bytes(range(256)) * 8192
    await site.put(content, "/run/bytes")
    assert await site.get("/run/bytes") == content


async def test_programs_can_be_stopped_and_end_with_the_connection(far: Far) -> None:
    host = far(FREELY)
    site = await SshSite.open("metal", as_operator(host), print)
    stopped = await site.spawn(["sleep", "4711"])
    assert (await stopped.stop()).status == 128 + signal.SIGTERM
    await site.spawn(["sleep", "4712"])
    assert await until(host, ("ps", "-eo", "args"), lambda there: "\nsleep 4712" in there)
    await site.close()
    assert await until(host, ("ps", "-eo", "args"), lambda left: "sleep 4712" not in left and "sudo" not in left)


async def test_nothing_of_the_login_stays(far: Far) -> None:
    host = far(FREELY)
    files = ("find", "/root", "/etc/ssh", "/run", "-type", "f")
    before = host.run(*files)
    site = await SshSite.open("metal", as_operator(host), print)
    assert host.run(*files) != before
    await site.close()
    assert await until(host, files, lambda after: after == before)


async def test_more_commands_at_once_than_a_connection_takes(site: SshSite) -> None:
    ended = await asyncio.gather(*(site.exec(["sh", "-c", f"sleep 0.2; echo {number}"]) for number in range(25)))
    assert [one.text.strip() for one in ended] == [str(number) for number in range(25)]


async def test_a_machine_is_confined_as_roots_would_be(far: Far) -> None:
    host = far(FREELY)
    token = new_token()
    sites = Sites({"metal": as_operator(host)})
    with held(ledgers_folder() / f"{token}.jsonl") as ledger:
        lab = Lab(token, ledger, sites)
        try:
            spec = EnvironmentSpec.model_validate({"kind": "ssh", "address": "metal"})
            small = MachineSpec(memory=128 * 2**20)
            machine = await lab.attach(
                await lab.create(
                    resolve_alone(spec.model_copy(update={"provision": "reuse"}), small),
                    small,
                    "server",
                    "0",
                    await lab.site("metal"),
                )
            )
            assert (await machine.exec(["id", "-u"])).text.strip() == "0"
            assert "nearmetal-nm-" in (await machine.exec(["cat", "/proc/self/cgroup"])).text
            cost = await machine.cost()
            assert cost is not None and cost.cpu_seconds > 0
        finally:
            left = await lab.close()
            await sites.aclose()
    assert left == []
    assert not groups(f"nearmetal-nm-{token}")
    assert await until(host, ("ps", "-eo", "args"), lambda now: "sudo" not in now)


async def test_a_sudo_that_asks_is_told(far: Far) -> None:
    with pytest.raises(HostCannot, match="password is required") as refused:
        await SshSite.open("metal", as_operator(far(ASKED)), print)
    assert "NOPASSWD" in str(refused.value.remedy)


async def test_a_host_without_sudo_is_told(far: Far, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.SUDO", ())
    with pytest.raises(HostCannot, match=r"sudo.* not found"):
        await SshSite.open("metal", as_operator(far(FREELY)), print)
