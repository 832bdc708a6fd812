"""What the environment `vagrant` asks of Vagrant, and what it refuses before anything is brought up."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from nearmetal.config import Limits
from nearmetal.environments import vagrant
from nearmetal.environments.vagrant import plugin
from nearmetal.errors import BadInput, HostCannot, NotProvisioned
from nearmetal.lab.local_site import LocalSite
from nearmetal.lab.ssh import login as ssh_login
from nearmetal.lab.vagrant import login, project
from nearmetal.lab.vagrant.output import VagrantLogin
from nearmetal.lab.vagrant.project import Project
from nearmetal.model import EnvironmentSpec, Finding, Handle, HostSpec, MachineSpec, Order
from nearmetal.study.study_file import read
from tests import fake_vagrant
from tests.fake_vagrant import FakeVagrant

WAY = {"ssh": "vagrant@127.0.0.1:9"}
REFUSED = "1,,error-exit,Vagrant::Errors::{},{}"


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeVagrant:
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/sbin:/usr/bin:/sbin:/bin")
    return fake_vagrant.install(tmp_path / "bin", tmp_path / "project")


class Notes:
    def __init__(self) -> None:
        self.handles: list[Handle] = []

    def creating(self, handle: Handle) -> None:
        self.handles.append(handle)


async def found(fake: FakeVagrant, **options: Any) -> Finding | None:
    """The first thing that is wrong."""
    given = EnvironmentSpec.model_validate({"kind": "vagrant", "folder": str(fake.folder), **options})
    return next((one for one in await plugin.check(given, MachineSpec(), LocalSite()) if not one.ok), None)


def order(fake: FakeVagrant, provision: Any = "boot", **options: Any) -> Order:
    return Order(
        name="nm-test-1",
        role="server",
        spec=MachineSpec(),
        options={"folder": str(fake.folder), **options},
        provision=provision,
        port=None,
        cpus="",
    )


async def test_a_machine_that_can_be_brought_up_lacks_nothing(fake: FakeVagrant) -> None:
    assert await found(fake) is None
    assert fake.calls == []


@pytest.mark.parametrize(
    ("machines", "options", "detail", "remedy"),
    [
        ({"web": "not_created", "db": "running"}, {}, "has 2 machines: web, db", "machine ="),
        ({}, {}, "has 0 machines", "machine ="),
        ({"web": "running"}, {"machine": "/w.*/"}, "no machine '/w.*/'", "one of: web"),
        ({"web": "running"}, {"machine": "--force"}, "no machine '--force'", "one of: web"),
        ({"web": "saved"}, {"provision": "reuse"}, "web is saved", "vagrant up web"),
        ({"web": "running"}, {}, "there already (running)", 'provision = "reuse"'),
        ({"web": "shutoff"}, {"provision": "boot"}, "there already (shutoff)", "vagrant destroy web"),
        ({"web": "not_created"}, {"provision": "reuse"}, "is not there", "vagrant up web"),
    ],
)
async def test_which_machine_and_whether_it_can_be_had_so(
    machines: dict[str, str], options: dict[str, str], detail: str, remedy: str, fake: FakeVagrant
) -> None:
    fake.machines(**machines)
    wrong = await found(fake, **options)
    assert wrong and detail in wrong.detail and remedy in wrong.remedy
    assert fake.calls == []


@pytest.mark.parametrize(
    ("ssh", "options", "detail"),
    [
        (("HostName 127.0.0.1", "User root", "Port 2222"), {}, "reached by a port of this host"),
        (("HostName 10.0.0.1", "User root", "ProxyCommand nc"), {}, "ProxyCommand"),
        (("HostName 10.0.0.1",), {}, "vagrant ssh-config said"),
    ],
)
async def test_a_running_machine_that_cannot_be_measured_is_told_before(
    ssh: tuple[str, ...], options: dict[str, str], detail: str, fake: FakeVagrant
) -> None:
    fake.machines(default="running")
    fake.reached("Host default", *ssh)
    wrong = await found(fake, provision="reuse", **options)
    assert wrong and detail in wrong.detail


@pytest.mark.parametrize(
    ("said", "detail", "remedy"),
    [
        (
            {"stdout": REFUSED.format("ProviderNotUsable", "no VirtualBox%!(VAGRANT_COMMA) no")},
            "no VirtualBox, no",
            "install",
        ),
        ({"stdout": REFUSED.format("UIExpectsTTY", "Vagrant is attempting to ask")}, "attempting to ask", "answers no"),
        ({"stderr": "There is a syntax\nerror in the Vagrantfile"}, "There is a syntax error", "vagrant status"),
        ({}, "ended with status 1", "vagrant status"),
    ],
)
async def test_what_vagrant_refuses_is_told_in_its_words(
    said: dict[str, str], detail: str, remedy: str, fake: FakeVagrant
) -> None:
    fake.answers("status", 1, **said)
    wrong = await found(fake)
    assert wrong and detail in wrong.detail and remedy in wrong.remedy


async def test_a_vagrantfile_that_waits_is_given_up(fake: FakeVagrant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project, "LOOK", 0.5)
    fake.answers("status", 0, hangs=30)
    wrong = await found(fake)
    assert wrong and "did not end within 0.5 s: it waits for something, or asks" in wrong.detail


async def test_no_vagrant_and_no_vagrantfile(fake: FakeVagrant, monkeypatch: pytest.MonkeyPatch) -> None:
    (fake.folder / "Vagrantfile").unlink()
    wrong = await found(fake)
    assert wrong and wrong.detail == "there is none" and str(fake.folder) in wrong.what
    empty = fake.folder.parent / "empty"
    empty.mkdir()
    for name, program in (("sh", "sh"), ("apt-get", "true")):
        (empty / name).symlink_to(f"/bin/{program}")
    monkeypatch.setenv("PATH", str(empty))
    wrong = await found(fake)
    assert wrong and (wrong.what, wrong.remedy) == (
        "vagrant",
        "apt-get install vagrant vagrant-libvirt",
    )


@pytest.mark.parametrize("name", ["Vagrantfile", "vagrantfile", "."])
async def test_a_vagrantfile_is_named_by_itself_or_its_folder(name: str, fake: FakeVagrant) -> None:
    (fake.folder / "Vagrantfile").rename(fake.folder / (name if name != "." else "Vagrantfile"))
    assert await found(fake, folder=None, vagrantfile=str(fake.folder / name)) is None
    notes = Notes()
    with pytest.raises(NotProvisioned):  # nobody answers there
        await plugin.create(order(fake, folder=None, vagrantfile=str(fake.folder / name)), LocalSite(), notes)
    assert fake.calls == ["up default"]
    assert {handle.data["folder"] for handle in notes.handles} == {str(fake.folder)}


async def test_what_is_no_vagrantfile_is_told(fake: FakeVagrant) -> None:
    (fake.folder / "Vagrantfile").rename(fake.folder / "web.rb")
    wrong = await found(fake, folder=None, vagrantfile=str(fake.folder / "Vagrantfile"))
    assert wrong and wrong.detail == "there is none" and wrong.what == f"a Vagrantfile in {fake.folder}"
    wrong = await found(fake, folder=None, vagrantfile=str(fake.folder / "web.rb"))
    assert wrong and "a file, and of another name" in wrong.detail and "vagrantfile = " in wrong.remedy


def test_a_folder_may_have_the_name_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "Vagrantfile").mkdir()
    named = vagrant.Options(vagrantfile=str(tmp_path / "Vagrantfile"))
    assert named.whole_folder == str(tmp_path / "Vagrantfile")


async def test_what_does_not_come_up_is_in_the_ledger_before_and_is_removed(fake: FakeVagrant) -> None:
    notes = Notes()
    fake.answers("up", 1, stdout=REFUSED.format("VagrantError", "The provisioner ended with 3"), makes="new")
    with pytest.raises(NotProvisioned, match="The provisioner ended with 3"):
        await plugin.create(order(fake), LocalSite(), notes)
    assert fake.calls == ["up default"]
    assert [handle.data["found"] for handle in notes.handles] == ["not_created"] * 2
    assert [handle.data["identity"] for handle in notes.handles] == [None, "new"]
    await plugin.destroy(notes.handles[-1], LocalSite())
    assert fake.calls[1:] == ["destroy --force default"]


async def test_its_identity_is_in_the_ledger_while_it_still_comes_up(fake: FakeVagrant) -> None:
    """Killed then, that machine goes, and none that its owner brings up after."""
    fake.machines(default="not_created")
    (fake.folder / ".vagrant/machines/default/libvirt/id").write_text("stale")
    fake.answers("up", 0, makes="ours", hangs=30)
    notes = Notes()
    creating = asyncio.create_task(plugin.create(order(fake), LocalSite(), notes))
    async with asyncio.timeout(20):
        while not notes.handles or notes.handles[-1].data["identity"] is None:
            assert not creating.done()
            await asyncio.sleep(0.02)
    creating.cancel()
    await asyncio.wait([creating])
    assert [handle.data["identity"] for handle in notes.handles] == [None, "ours"]
    await plugin.destroy(notes.handles[-1], LocalSite())
    assert fake.calls == ["up default", "destroy --force default"]


async def test_a_machine_whose_maker_nothing_tells_is_told_and_left(fake: FakeVagrant) -> None:
    """Killed before it had an identity: what is there since may be its owner's."""
    notes = Notes()
    fake.answers("up", 1)
    with pytest.raises(NotProvisioned):
        await plugin.create(order(fake), LocalSite(), notes)
    (before,) = notes.handles
    await plugin.destroy(before, LocalSite())  # nothing is there
    fake.machines(default="running")
    with pytest.raises(HostCannot, match=r"default is there \(running\)") as told:
        await plugin.destroy(before, LocalSite())
    assert told.value.remedy.endswith(f"cd {fake.folder} && vagrant destroy default")
    fake.machines(default="not_created")  # and what stood there is stale
    await plugin.destroy(before, LocalSite())
    assert fake.calls == ["up default", *["destroy --force default"] * 2]


async def test_what_is_left_of_a_machine_that_is_not_there_is_removed(fake: FakeVagrant) -> None:
    """Before it has an identity and after, its disk may be there. A Vagrant that is at work keeps its own."""
    notes = Notes()
    fake.answers("up", 1, stdout=REFUSED.format("VagrantError", "no such network"))
    with pytest.raises(NotProvisioned):
        await plugin.create(order(fake), LocalSite(), notes)
    (before,) = notes.handles
    busy = REFUSED.format("MachineLocked", "Vagrant can't use the requested machine")
    fake.answers("destroy", 1, stdout=busy)
    await plugin.destroy(before, LocalSite())
    await plugin.destroy(before.knowing(data={"identity": "gone"}), LocalSite())
    assert fake.calls == ["up default", *["destroy --force default"] * 2]


async def test_what_another_vagrant_brings_up_at_the_same_time_is_not_ours(fake: FakeVagrant) -> None:
    fake.answers("up", 1, stdout=REFUSED.format("MachineActionLockedError", "locked"), makes="theirs", hangs=0.3)
    notes = Notes()
    with pytest.raises(NotProvisioned, match="locked"):
        await plugin.create(order(fake), LocalSite(), notes)
    await plugin.destroy(notes.handles[-1], LocalSite())
    assert (fake.calls, fake.states) == (["up default"], {"default": "running"})


async def test_what_is_to_provision_it_can_be_left_out(fake: FakeVagrant) -> None:
    with pytest.raises(NotProvisioned):
        await plugin.create(order(fake, provisioners=False), LocalSite(), Notes())
    assert fake.calls == ["up --no-provision default"]


async def test_a_state_that_changed_since_the_check_is_refused(fake: FakeVagrant) -> None:
    fake.machines(default="running")
    notes = Notes()
    with pytest.raises(NotProvisioned, match="there already"):
        await plugin.create(order(fake), LocalSite(), notes)
    assert (fake.calls, notes.handles) == ([], [])


async def test_a_machine_that_somebody_made_since_is_not_removed(fake: FakeVagrant) -> None:
    notes = Notes()
    with pytest.raises(NotProvisioned):  # nobody answers there
        await plugin.create(order(fake), LocalSite(), notes)
    assert notes.handles[-1].data["identity"] and fake.states == {"default": "running"}
    fake.machines(default="running")  # another one
    await plugin.destroy(notes.handles[-1], LocalSite())
    assert fake.calls == ["up default"]


async def test_a_machine_that_was_off_is_halted_and_not_removed(fake: FakeVagrant) -> None:
    fake.machines(default="shutoff", other="running")
    notes = Notes()
    with pytest.raises(NotProvisioned):
        await plugin.create(order(fake, "reuse", machine="default"), LocalSite(), notes)
    await plugin.destroy(notes.handles[-1], LocalSite())
    assert fake.calls == ["up default", "halt default"]
    assert fake.states == {"default": "shutoff", "other": "running"}


def was_off(fake: FakeVagrant, **more: Any) -> Handle:
    """One that was brought up by a process that is dead."""
    data = {"folder": str(fake.folder), "machine": "default", "provider": "libvirt", "identity": "of-default"}
    return Handle(kind="vagrant", name="nm-test-2", site="local", data={**data, "found": "shutoff", **more})


@pytest.mark.parametrize(
    ("ledger", "seen", "calls"),
    [
        ({"way": WAY, "boot_id": "a"}, "a", ["halt default"]),
        ({"way": WAY, "boot_id": "a"}, "b", []),
        ({"way": WAY, "boot_id": "a"}, HostCannot("nobody answers"), "nobody answers"),
        ({"way": WAY, "boot_id": "a"}, BadInput("no such key file"), "no such key file"),
        ({}, "a", "its start was interrupted"),
    ],
)
async def test_only_the_boot_that_was_ours_is_halted(
    ledger: dict[str, Any],
    seen: str | Exception,
    calls: list[str] | str,
    fake: FakeVagrant,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And where that cannot be known, it is told for as long as it runs."""

    async def boot_id(way: HostSpec) -> str:
        assert way == HostSpec.from_json(WAY)
        if isinstance(seen, Exception):
            raise seen
        return seen

    monkeypatch.setattr(login, "read_boot_id", boot_id)
    fake.machines(default="running")
    handle = was_off(fake, **ledger)
    if isinstance(calls, list):
        await plugin.destroy(handle, LocalSite())
        assert fake.calls == calls
        return
    with pytest.raises(HostCannot, match=calls) as told:
        await plugin.destroy(handle, LocalSite())
    assert told.value.remedy.endswith(f"cd {fake.folder} && vagrant halt default")
    fake.machines(default="shutoff")
    await plugin.destroy(handle, LocalSite())
    assert fake.calls == []


async def test_one_that_ran_and_was_switched_off_meanwhile_is_let_go(fake: FakeVagrant) -> None:
    """Nobody is asked there, and nothing is done to it."""
    fake.machines(default="shutoff")
    found_running = {"folder": str(fake.folder), "machine": "default", "provider": "libvirt", "identity": "of-default"}
    way = {"ssh": "root@127.0.0.1:9"}
    for found in (
        {**found_running, "found": "running", "way": way},
        {**found_running, "found": "running", "way": way, "identity": "of-another"},
    ):
        await plugin.destroy(Handle(kind="vagrant", name="nm-test-1", site="local", data=found), LocalSite())
    assert (fake.calls, fake.states) == ([], {"default": "shutoff"})


BOTH_LET_GO = """\
/usr/share/gems/vagrant-2.3.4/lib/vagrant/machine_index.rb:304:in `delete': No such file or directory @ apply2files -
/root/.vagrant.d/data/machine-index/a5846c2bfb0f414d.lock (Errno::ENOENT)
from /usr/share/gems/vagrant-2.3.4/lib/vagrant/machine_index.rb:304:in `unlocked_release'
"""
"""What Vagrant ends with where it and another let go of one machine in the same moment."""


async def test_one_that_another_vagrant_looks_at_is_let_go_after_it(
    fake: FakeVagrant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a run lets go of one machine twice at once, which is locked even to be looked at."""
    monkeypatch.setattr(project, "_PAUSE", 0.01)
    fake.machines(default="shutoff")
    fake.answers("status", 1, stdout=REFUSED.format("MachineLocked", "Vagrant can't use the requested machine"))
    found_running = {"folder": str(fake.folder), "machine": "default", "provider": "libvirt", "identity": "of-default"}
    data = {**found_running, "found": "running", "way": {"ssh": "root@127.0.0.1:9"}}
    await plugin.destroy(Handle(kind="vagrant", name="nm-test-1", site="local", data=data), LocalSite())
    assert (fake.calls, fake.states) == ([], {"default": "shutoff"})


async def test_another_vagrant_at_work_is_waited_for(fake: FakeVagrant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project, "_PAUSE", 0.01)
    fake.machines(default="running")
    fake.answers("destroy", 1, stdout=REFUSED.format("MachineLocked", "Vagrant can't use the requested machine"))
    await Project(str(fake.folder), LocalSite()).destroy("default")
    assert fake.calls == ["destroy --force default"] * 2
    fake.answers("destroy", 1, stderr=BOTH_LET_GO)
    await Project(str(fake.folder), LocalSite()).destroy("default")
    assert fake.calls[2:] == ["destroy --force default"] * 2
    fake.answers("destroy", 1, stdout=REFUSED.format("ProviderError", "no such pool"))
    with pytest.raises(HostCannot, match="no such pool"):
        await Project(str(fake.folder), LocalSite()).destroy("default")


async def test_a_machine_that_says_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login, "LIMITS", Limits(command=0.2))
    monkeypatch.setattr(ssh_login, "LIMITS", Limits(command=0.2))
    async with await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0) as silent:
        port = silent.sockets[0].getsockname()[1]
        with pytest.raises(HostCannot, match=r"nothing answers by SSH: no answer within 0\.2 s"):
            await login.find_way(VagrantLogin("127.0.0.1", port, "vagrant", (), by_command=False), None)


def test_an_address_of_this_host_is_one_however_it_is_written() -> None:
    for host in ("127.0.0.1", "127.8.9.1", "::1", "localhost"):
        assert login.find_problem(VagrantLogin(host, 22, "root", (), by_command=False), None)
    assert login.find_problem(VagrantLogin("10.0.0.1", 22, "root", (), by_command=False), None) is None


@pytest.mark.parametrize(
    "wrong",
    [
        'machine = ["a"]',
        'machine = ""',
        "provisioners = 1",
        'data = "lab"',
        'folder = ""',
        'vagrantfile = ""',
        "verbose = true",
    ],
)
def test_an_option_that_cannot_be_is_refused_with_its_line(wrong: str) -> None:
    text = f"""\
name = "s"
[environments.web]
kind = "vagrant"
{wrong}
[factors]
environment = ["web"]
[[workloads]]
name = "w"
kind = "ping"
"""
    with pytest.raises(BadInput, match=r"s\.toml:4"):
        read(text, "s.toml", [])


def test_one_place_is_named_and_not_two() -> None:
    text = """\
name = "s"
[environments.web]
kind = "vagrant"
folder = "a"
vagrantfile = "b"
[factors]
environment = ["web"]
[[workloads]]
name = "w"
kind = "ping"
"""
    with pytest.raises(BadInput, match="only one of vagrantfile and folder"):
        read(text, "s.toml", [])


def test_the_folder_is_one_whatever_the_place() -> None:
    assert vagrant.Options(folder="~/x").whole_folder == str(Path.home() / "x")
    assert Path(vagrant.Options().whole_folder).is_absolute()
