"""What doctor says of a host that lacks things."""

import errno
import os
import shutil
from pathlib import Path

import pytest

from nearmetal import plugins
from nearmetal.environments.mock import Mock
from nearmetal.errors import HostCannot
from nearmetal.lab import clean, container_privileges, doctor
from nearmetal.lab.changes.ledger import held, ledgers_folder
from nearmetal.lab.image import Image
from nearmetal.lab.local_site import LocalSite
from nearmetal.model import Change, EnvironmentSpec, Finding, Handle, MachineSpec, Site
from nearmetal.model.hypervisor import name_hypervisor
from nearmetal.study.kernel_table import TABLE
from tests import fake_vagrant


async def test_a_host_without_qemu_is_told_so_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(plugins, "list_names", lambda group: ("qemu",))
    for file in (file for folder in os.get_exec_path() for file in Path(folder).glob("*")):
        if file.name != "qemu-system-x86_64" and not (tmp_path / file.name).is_symlink():
            (tmp_path / file.name).symlink_to(file)
    monkeypatch.setenv("PATH", str(tmp_path))
    told = await doctor._environments(LocalSite())
    told += await doctor._accelerators(Image("lab", "key", "digest", tmp_path))
    (found,) = [one for one in told if "qemu-system-x86_64" in one.what]
    assert (found.what, found.ok, found.fatal) == ("environment qemu: qemu-system-x86_64", False, False)
    assert found.remedy == "apt-get install qemu-system-x86"


def test_a_host_without_tcpdump_is_told_what_that_means(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "apt-get").symlink_to("/bin/true")
    monkeypatch.setenv("PATH", str(tmp_path))
    found = doctor._captures()
    assert (found.what, found.ok, found.fatal) == ("captures: tcpdump", False, False)
    assert "studies that capture" in found.detail
    assert found.remedy == "apt-get install tcpdump"


def test_what_a_dead_run_left_is_told_and_not_touched() -> None:
    assert doctor._leftovers().ok
    folder = ledgers_folder()
    folder.mkdir(parents=True)
    with held(folder / "abc123.jsonl") as ledger:
        for name in ("nm-abc123-1", "nm-abc123-2", "nm-abc123-3"):
            ledger.creating(Handle(kind="mock", name=name, site="local", data={}))
        ledger.changing(Change(on="site:local", kind="sysctl", target="net.a", before="1", after="0"))
        assert doctor._leftovers().ok, "its owner lives"
    (folder / "def456.jsonl").write_text('{"op": "create"}\n')
    found = doctor._leftovers()
    assert (found.ok, found.fatal, found.remedy) == (False, False, "nearmetal clean")
    assert "left 5: mock nm-abc123-3, mock nm-abc123-2, mock nm-abc123-1, and 2 more" in found.detail
    assert len(clean.left_behind()) == 5


def test_a_state_folder_that_cannot_be_read_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> list[str]:
        raise PermissionError(errno.EACCES, "Permission denied", "/home/a/ledgers/x.jsonl")

    monkeypatch.setattr(clean, "left_behind", refused)
    found = doctor._leftovers()
    assert (found.ok, found.fatal, found.detail) == (False, True, "/home/a/ledgers/x.jsonl: Permission denied")
    assert found.remedy


async def test_a_disk_without_room_for_a_machine_is_a_finding() -> None:
    async def tried(*error: object) -> Finding:
        async def refused() -> None:
            raise OSError(*error)

        return await doctor._tried("environment host: a machine", refused, "see what it says", fatal=False)

    found = await tried(errno.ENOSPC, "No space left on device", "/home/a/ledgers/x.jsonl")
    assert (found.ok, found.fatal, found.detail) == (False, False, "/home/a/ledgers/x.jsonl: No space left on device")
    assert found.remedy.startswith("free some space")
    assert (await tried(errno.ENOSPC, "No space left on device")).detail == "No space left on device"
    assert (await tried(errno.EIO, "Input/output error")).remedy == "see what it says"


async def test_a_disk_without_room_for_a_guest_is_a_finding(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def refused(*_: object) -> object:
        raise OSError(errno.ENOSPC, "No space left on device", "/home/a/proof-1")

    monkeypatch.setattr(doctor, "check_program", lambda name, package: Finding(what=name, ok=True))
    monkeypatch.setattr("nearmetal.lab.qemu.accelerator.renew_proof", refused)
    found = (await doctor._accelerators(Image("lab", "key", "digest", tmp_path)))[-1]
    assert (found.what, found.ok, found.fatal) == ("accelerator tcg", False, False)
    assert found.detail == "/home/a/proof-1: No space left on device"
    assert found.remedy.startswith("free some space")


def test_what_a_container_keeps_is_a_finding_with_the_flags_that_give_it() -> None:
    assert list(doctor._container({})) == []
    (whole,) = doctor._container({"container": {"lacks": []}})
    assert (whole.ok, whole.detail) == (True, "nearmetal runs in one, which keeps nothing of the host from it")
    (found,) = doctor._container({"container": {"lacks": ["--pid=host", "--network=host"]}})
    told = "nearmetal runs in one, without the host's processes (--pid=host); the host's network (--network=host)"
    assert (found.ok, found.fatal, found.detail) == (False, False, told)
    assert found.remedy == f"docker run {' '.join(container_privileges.FLAGS)}"


async def test_an_environment_that_cannot_be_loaded_keeps_it_from_none_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def load(group: str, name: str) -> object:
        if name == "lame":
            raise HostCannot("'lame' in environments cannot be loaded: No module named 'lame'", remedy="install it")
        return Mock()

    monkeypatch.setattr(plugins, "list_names", lambda group: ("lame", "mock"))
    monkeypatch.setattr(plugins, "load", load)
    lame, mock = await doctor._environments(LocalSite())
    assert (lame.what, lame.ok, lame.fatal, lame.remedy) == ("environment lame", False, False, "install it")
    assert (mock.what, mock.ok) == ("environment mock", True)


async def test_an_environment_whose_check_breaks_keeps_it_from_none_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Lame(Mock):
        async def check(self, spec: EnvironmentSpec, machine: MachineSpec, site: Site) -> list[Finding]:
            raise PermissionError(errno.EACCES, "Permission denied", "Vagrantfile")

    monkeypatch.setattr(plugins, "list_names", lambda group: ("lame", "mock"))
    monkeypatch.setattr(plugins, "load", lambda group, name: Lame() if name == "lame" else Mock())
    lame, mock = await doctor._environments(LocalSite())
    assert (lame.what, lame.ok, lame.fatal) == ("environment lame", False, False)
    assert "Permission denied: 'Vagrantfile'" in lame.detail
    assert (mock.what, mock.ok) == ("environment mock", True)


async def test_what_an_environment_lacks_is_fatal_if_it_was_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Lacking(Mock):
        async def check(self, spec: EnvironmentSpec, machine: MachineSpec, site: Site) -> list[Finding]:
            return [Finding(what="engine", ok=False, detail="none answers", remedy="start it")]

    async def say_nothing() -> list[Finding]:
        return []

    monkeypatch.setattr(doctor, "_what_the_host_is", say_nothing)
    monkeypatch.setattr(doctor, "_built_image", lambda: None)
    monkeypatch.setattr(plugins, "list_names", lambda group: ("lacking", "mock") if group == "environments" else ())
    monkeypatch.setattr(plugins, "load", lambda group, name: Lacking() if name == "lacking" else Mock())
    for asked, is_fatal in (((), False), (("mock", "lacking"), True)):
        found = await doctor.examine(asked)
        (lacking,) = [one for one in found.findings if one.what == "environment lacking: engine"]
        assert lacking.fatal == is_fatal
        assert not (is_fatal and found.able)


async def test_a_guest_that_is_named_takes_one_accelerator(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def say_nothing(*_: object, **__: object) -> list[Finding]:
        return []

    for name in ("_what_the_host_is", "_environments"):
        monkeypatch.setattr(doctor, name, say_nothing)
    monkeypatch.setattr(doctor, "_built_image", lambda: Image("lab", "key", "digest", tmp_path))
    for works in ((False, True), (False, False)):
        found = [Finding(what=f"accelerator {number}", ok=ok, fatal=False) for number, ok in enumerate(works)]

        async def list_accelerators(lab: Image, found: list[Finding] = found) -> list[Finding]:
            return found

        monkeypatch.setattr(doctor, "_accelerators", list_accelerators)
        told = [one for one in (await doctor.examine(("qemu",))).findings if "accelerator" in one.what]
        assert [one.fatal for one in told] == [not any(works)] * 2


def test_free_space_is_told_in_either_case() -> None:
    assert "free below" in doctor._space().detail


def test_a_folder_that_cannot_be_made_is_told_instead_of_its_space(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEARMETAL_HOME", "/proc/x")
    found = doctor._space()
    assert (found.ok, found.detail) == (False, "/proc/x/cache cannot be made: No such file or directory")
    assert found.remedy.startswith("NEARMETAL_HOME is /proc/x, which is no folder, and none can be made there")


@pytest.mark.parametrize(
    ("virtual", "named"),
    [
        ({"hypervisor_flag": False}, None),
        ({"hypervisor_flag": True, "hypervisor_signature": "KVMKVMKVM"}, "KVMKVMKVM"),
        ({"hypervisor_flag": True, "hypervisor_signature": None, "product": "Box"}, "Box"),
        ({"hypervisor_flag": True}, "of an unknown kind"),
        ({"hypervisor_flag": False, "hypervisor": "Amazon EC2"}, "Amazon EC2"),
        ({"hypervisor_flag": False, "hypervisor_type": "xen"}, "xen"),
    ],
)
def test_what_the_host_runs_on(virtual: dict[str, object], named: str | None) -> None:
    assert name_hypervisor({"virtualization": virtual}) == named


async def test_that_no_vagrantfile_is_here_is_nothing_that_this_host_lacks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(plugins, "list_names", lambda group: ("vagrant",))
    fake_vagrant.install(tmp_path / "bin", tmp_path / "project")
    sh = shutil.which("sh")
    assert sh is not None
    (tmp_path / "bin/sh").symlink_to(sh)
    (tmp_path / "bin/apt-get").symlink_to("/bin/true")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.chdir(tmp_path)
    (found,) = await doctor._environments(LocalSite())
    assert (found.what, found.ok) == ("environment vagrant", True)
    assert found.detail == "not tried: a study says where its machines are, by `vagrantfile` in [environments.NAME]"
    (tmp_path / "bin/vagrant").unlink()
    (found,) = await doctor._environments(LocalSite())
    assert (found.what, found.ok) == ("environment vagrant: vagrant", False)
    assert "apt-get install vagrant" in found.remedy and "vagrant-libvirt" in found.remedy


def test_network_settings_that_are_not_as_in_the_table_are_named() -> None:
    same = {one.name: one.value for one in TABLE.values}
    assert doctor.compare_with_table({**same, "kernel.pid_max": "1"}).ok
    assert doctor.compare_with_table({}).ok
    found = doctor.compare_with_table({**same, "net.ipv4.tcp_congestion_control": "bbr"})
    assert not found.ok and not found.fatal and "bbr (table: cubic)" in found.detail
    assert "sysctl -w" not in found.remedy
    found = doctor.compare_with_table({**same, "net.core.default_qdisc": "fq"})
    assert "sysctl -w net.core.default_qdisc='pfifo_fast'" in found.remedy
