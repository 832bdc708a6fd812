"""What cannot run here: each machine is asked for as it would be made, on the host where it would stand."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from nearmetal import plugins
from nearmetal.errors import BadInput, HostCannot
from nearmetal.lab.cpus.limits import check_limits
from nearmetal.lab.lab import OpenSite
from nearmetal.lab.local_site import LocalSite
from nearmetal.lab.machines.shared_kernel import check_isolation
from nearmetal.model import Completed, Description, EnvironmentSpec, Finding, MachineSpec, Site, Study
from nearmetal.run import unavailable_treatments
from nearmetal.study.resolve import resolve_treatments
from nearmetal.study.study_file import read

STUDY = """
name = "asked"
[environments.served]
kind = "mock"
[environments.loading]
kind = "mock"
[factors]
environment = ["served"]
memory = ["256MiB", "2GiB"]
[machine]
image = "mine"
vcpus = 2
isolation = "kernel"
[clients]
environment = "loading"
[[workloads]]
name = "web"
kind = "http"
"""

Asked = tuple[str, str, MachineSpec]


class FarSite(LocalSite):
    name = "far"


async def open_site(name: str) -> Site:
    if name not in ("local", "far"):
        raise HostCannot(f"the host {name!r} is out of reach", remedy="reach it")
    return FarSite() if name == "far" else LocalSite()


async def lacking_of(study: Study, opening: OpenSite) -> unavailable_treatments.Missing:
    return await unavailable_treatments.find_unavailable(study, resolve_treatments(study), opening)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Asked]:
    """Environment, host and machine of every check."""
    seen: list[Asked] = []

    async def check(spec: EnvironmentSpec, machine: MachineSpec, site: Site) -> list[Finding]:
        seen.append((spec.options.get("label", "served"), site.name, machine))
        return [Finding(what="a machine", ok=spec.options.get("label") != "bad", detail="it is bad", remedy="mend it")]

    monkeypatch.setattr(plugins.load("environments", "mock"), "check", check)
    return seen


def labelled(text: str = STUDY) -> str:
    return text.replace(
        '[environments.loading]\nkind = "mock"', '[environments.loading]\nkind = "mock"\nlabel = "loads"'
    )


async def test_servers_are_asked_for_as_shaped_and_clients_with_their_own_spec(asked: list[Asked]) -> None:
    text = labelled().replace("[clients]", '[hosts.far]\nssh = "far"\n[clients]\nhost = "far"')
    assert await lacking_of(read(text, "s.toml"), open_site) == []
    servers = [(host, machine) for label, host, machine in asked if label == "served"]
    clients = [(host, machine) for label, host, machine in asked if label == "loads"]
    assert [(host, machine.memory >> 20) for host, machine in servers] == [("local", 256), ("local", 2048)]
    assert all("isolcpus=1" in machine.kernel_arguments for _, machine in servers)
    # Whatever the servers are given, the clients are the same, and so they are tried once.
    ((host, client),) = clients
    assert (host, client.image, client.memory, client.kernel_arguments) == ("far", "mine", 2**30, ())


async def test_servers_stand_on_their_own_host(asked: list[Asked]) -> None:
    text = (
        labelled().replace("[clients]", '[hosts.far]\nssh = "far"\n[clients]').replace('image = "mine"', 'host = "far"')
    )
    await lacking_of(read(text, "s.toml"), open_site)
    assert {(label, host) for label, host, _ in asked} == {("served", "far"), ("loads", "local")}


@pytest.mark.parametrize("label", ["loading", "served"])
async def test_what_one_of_the_two_lacks_is_lacking(asked: list[Asked], label: str) -> None:
    text = STUDY.replace(
        f'[environments.{label}]\nkind = "mock"', f'[environments.{label}]\nkind = "mock"\nlabel = "bad"'
    )
    found = await lacking_of(read(text, "s.toml"), open_site)
    assert [(treatment["memory"], lacking.detail) for treatment, lacking in found] == [
        ("256MiB", "it is bad"),
        ("2GiB", "it is bad"),
    ]


async def test_a_host_that_cannot_be_reached_is_lacking_where_it_is_asked_for(asked: list[Asked]) -> None:
    moon = '[factors.place]\nlevels = ["local", "moon"]\nsets = "machine.host"\n[hosts.moon]\nssh = "moon"\n'
    study = read(STUDY.replace("[machine]", f"{moon}[machine]"), "s.toml")
    found = await lacking_of(study, open_site)
    assert {treatment["place"] for treatment, _ in found} == {"moon"}
    assert {(lacking.what, lacking.remedy) for _, lacking in found} == {("host moon", "reach it")}


async def test_a_jump_host_that_is_in_the_way_is_named(asked: list[Asked]) -> None:
    async def refusing(name: str) -> Site:
        raise HostCannot("it accepts none of your keys", "the jump host u@gate of the host far (far)", "ssh-copy-id")

    study = read(STUDY.replace("[machine]", '[hosts.far]\nssh = "far"\n[machine]\nhost = "far"'), "s.toml")
    found = await lacking_of(study, refusing)
    assert {lacking.what for _, lacking in found} == {"the jump host u@gate of the host far (far)"}


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ('address = "root@127.0.0.1:99999"', "[environments.metal], `address`"),
        ('address = "root@lab3"\nkey = "/no/such"', "[environments.metal], `key`"),
        ('address = "root@lab3"\nhost_key = "rubbish"', "[environments.metal], `host_key`"),
    ],
)
async def test_what_is_wrong_of_the_way_to_a_machine_is_told_with_its_place(options: str, place: str) -> None:
    metal = f'[environments.metal]\nkind = "ssh"\nprovision = "reuse"\n{options}\n[machine]'
    text = STUDY.replace("[machine]", metal).replace('["served"]', '["metal"]').replace('isolation = "kernel"\n', "")
    text = text.replace('[environments.loading]\nkind = "mock"', '[environments.loading]\nkind = "host"')
    with pytest.raises(BadInput) as error:
        await lacking_of(read(text, "s.toml"), open_site)
    assert error.value.where == place


@pytest.mark.parametrize(("table", "key"), [("machine", "machine.cpus"), ("clients", "clients.cpus")])
async def test_cpus_that_the_host_does_not_have(
    asked: list[Asked], monkeypatch: pytest.MonkeyPatch, table: str, key: str
) -> None:
    mock: Any = plugins.load("environments", "mock")
    described = Description(family="pretended", kernel="own", placement="switch")
    monkeypatch.setattr(type(mock), "describe", lambda self, options, spec: described)
    text = STUDY.replace(f"[{table}]", f'[{table}]\ncpus = "8000"')
    found = await lacking_of(read(text, "s.toml"), open_site)
    assert len(found) == 2
    assert {(lacking.what, key in lacking.remedy) for _, lacking in found} == {("CPUs 8000", True)}


async def test_a_link_that_is_not_the_labs_to_shape(asked: list[Asked]) -> None:
    study = read(STUDY + '[link]\nrate = "1Gbit/s"\n', "s.toml")
    found = await lacking_of(study, open_site)
    assert [lacking.what for _, lacking in found] == ["[link]", "[link]"]
    assert asked == []


@pytest.mark.parametrize(
    ("capture", "lacking"), [("true", ["tcpdump"]), ("{ inside = true }", []), ("[false, true]", ["tcpdump"])]
)
async def test_a_host_without_tcpdump_captures_nothing(
    asked: list[Asked], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capture: str, lacking: list[str]
) -> None:
    mock: Any = plugins.load("environments", "mock")
    described = Description(family="pretended", kernel="own", placement="switch")
    monkeypatch.setattr(type(mock), "describe", lambda self, options, spec: described)
    for name in ("sh", "cat"):
        (tmp_path / name).symlink_to(f"/bin/{name}")
    (tmp_path / "apt-get").symlink_to("/bin/true")
    text = STUDY.replace('memory = ["256MiB", "2GiB"]\n', "")
    text = (
        text.replace("[machine]", f"capture = {capture}\n[machine]")
        if capture.startswith("[")
        else (f"{text}[observe]\ncapture = {capture}\n")
    )
    study = read(text, "s.toml")
    assert await lacking_of(study, open_site) == []
    monkeypatch.setenv("PATH", str(tmp_path))
    found = await lacking_of(study, open_site)
    assert [one.what for _, one in found] == lacking
    assert all(one.remedy == "apt-get install tcpdump" for _, one in found)


class KeepingFree(LocalSite):
    """A host of four CPUs, two of which its kernel keeps free."""

    free, isolated = "0-1", "2-3"

    async def exec(self, argv: Sequence[str], **more: Any) -> Completed:
        match argv:
            case ["cat", "/sys/devices/system/cpu/isolated"]:
                return Completed(status=0, stdout=f"{self.isolated}\n".encode())
            case ["cat", "/proc/self/status", *_]:
                return Completed(status=0, stdout=f"Cpus_allowed_list:\t{self.free}\n0-3\n".encode())
            case ["sh", "-c", script] if "cpu/isolated" in script:
                return Completed(status=0, stdout=f"online 0-3\nisolated {self.isolated}\n".encode())
        return await super().exec(argv, **more)


@pytest.mark.parametrize(
    ("machine", "told"),
    [
        ("vcpus = 2", None),
        ("vcpus = 4", None),
        ('vcpus = 2\ncpus = "1,3"', None),
        ('vcpus = 2\ncpus = "2-3"', None),
        ('vcpus = 2\ncpus = "0-1"', "the last of CPUs 0-1 is none of those that its kernel keeps free, which are 2-3"),
        ('vcpus = 2\ncpus = "3,8"', "this host has 0-3"),
        ("vcpus = 5", "4 of the host can be used"),
    ],
)
async def test_cpus_that_the_hosts_kernel_keeps_free_can_be_had_where_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, machine: str, told: str | None
) -> None:
    async def check(spec: EnvironmentSpec, machine: MachineSpec, site: Site) -> list[Finding]:
        return [(await check_limits(machine, site))[0], *await check_isolation(machine, site)]

    async def open_keeping(name: str) -> Site:
        return KeepingFree()

    monkeypatch.setattr(plugins.load("environments", "host"), "check", check)
    text = STUDY.replace('["served"]', '["host"]').replace('memory = ["256MiB", "2GiB"]\n', "")
    text = text.replace("vcpus = 2", machine).replace('environment = "loading"', 'environment = "host"')
    found = await lacking_of(read(text, "s.toml"), open_keeping)
    assert [lacking.detail for _, lacking in found] == ([told] if told else [])
    assert "machine.cpus" in found[0][1].remedy if told and "kernel" in told else True
    none = text.replace('isolation = "kernel"', 'isolation = "none"').replace("vcpus = 4", "vcpus = 2")
    if '"2-3"' in machine:
        found = await lacking_of(read(none, "s.toml"), open_keeping)
        assert [lacking.detail for _, lacking in found] == ["this host has 0-1"]


@pytest.mark.parametrize(
    ("free", "isolated", "told"),
    [
        ("0-1", "2-3", None),
        ("0-2", "3", "the last of CPUs 0-1 is none of those that its kernel keeps free, which are 3"),
    ],
)
async def test_each_of_several_servers_has_to_have_one(
    monkeypatch: pytest.MonkeyPatch, free: str, isolated: str, told: str | None
) -> None:
    async def check(spec: EnvironmentSpec, machine: MachineSpec, site: Site) -> list[Finding]:
        return await check_isolation(machine, site)

    async def open_keeping(name: str) -> Site:
        return KeepingFree()

    monkeypatch.setattr(plugins.load("environments", "host"), "check", check)
    monkeypatch.setattr(KeepingFree, "free", free)
    monkeypatch.setattr(KeepingFree, "isolated", isolated)
    text = STUDY.replace('["served"]', '["host"]').replace('memory = ["256MiB", "2GiB"]\n', "")
    text = text.replace('environment = "loading"', 'environment = "host"\ncount = 2\nconnect = "pairs"')
    found = await lacking_of(read(text, "s.toml"), open_keeping)
    assert [lacking.detail for _, lacking in found] == ([told] if told else [])
