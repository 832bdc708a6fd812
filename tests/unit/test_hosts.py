"""Machines that are hosts of their own: where a study has them, and what it cannot say of them."""

import pytest

from nearmetal.by_hand.machine_request import parse_request
from nearmetal.errors import BadInput
from nearmetal.model import Study
from nearmetal.study.resolve import Resolver, collect_hosts, find_one_under_two_names
from nearmetal.study.study_file import read

TEXT = """
name = "metal"
reference = { environment = "host" }
[environments.metal]
kind = "ssh"
address = "root@lab3:2222"
data = "192.168.7.2"
jump = "bastion"
provision = "reuse"
[hosts.far]
ssh = "root@far"
[factors]
environment = ["host", "metal"]
[[workloads]]
name = "web"
kind = "http"
[design]
blocks = 8
"""


def study(text: str = TEXT) -> Study:
    return read(text, "metal.toml")


def test_a_machine_by_ssh_is_a_host_by_the_name_of_its_environment() -> None:
    found = collect_hosts(study())
    assert found.keys() == {"far", "metal"}
    metal = found["metal"]
    assert (metal.ssh, str(metal.trunk), metal.jump) == ("root@lab3:2222", "192.168.7.2", "bastion")


def test_its_machines_are_placed_there_and_all_others_where_the_study_says() -> None:
    for environment, host in (("host", "local"), ("metal", "metal")):
        asked = Resolver(study()).resolve_treatment({"environment": environment})
        assert (asked.server.host, asked.clients.host) == (host, "local")
    loaded = study(TEXT.replace("[hosts.far]", '[clients]\nenvironment = "metal"\n[hosts.far]'))
    assert Resolver(loaded).resolve_treatment({"environment": "metal"}).clients.host == "metal"


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('environment = ["host", "metal"]', 'environment = ["host", "ssh"]', "does not say which one"),
        ("[hosts.far]", "[hosts.metal]", "is the name of a host already"),
        ("[hosts.far]", '[machine]\nhost = "far"\n[hosts.far]', "it is a host of its own"),
        ('provision = "reuse"', "", "cannot be provisioned by 'boot'"),
        ('address = "root@lab3:2222"', "", "`address`"),
        ('address = "root@lab3:2222"', 'address = "-oProxyCommand=id"', "`address`"),
        ('provision = "reuse"', 'provision = "reuse"\nimage = "mine"', "`image`"),
        ('address = "root@lab3:2222"', 'adress = "root@lab3"', "did you mean `address`?"),
        ('provision = "reuse"', 'provision = "reuse"\npassword = "x"', "unknown key `password`"),
        ('data = "192.168.7.2"', 'data = "eth1"', "`data`"),
    ],
)
def test_what_makes_no_sense_is_told(old: str, new: str, told: str) -> None:
    assert TEXT.count(old) == 1
    with pytest.raises(BadInput) as error:
        study(TEXT.replace(old, new))
    assert told in str(error.value) and error.value.remedy


@pytest.mark.parametrize(
    ("old", "new", "manual"),
    [
        ("[hosts.far]", '[environments.esx]\nkind = "vmware"\nserver = "a"\nuser = "b"\n[hosts.far]', "environments"),
        ('address = "root@lab3:2222"', "", "environments"),
        ("blocks = 8", 'margin = "2"', "study-file"),
        ('kind = "http"', 'kind = "http"\nmode = "open"', "workloads"),
    ],
)
def test_an_error_leads_to_the_page_that_says_more(old: str, new: str, manual: str) -> None:
    with pytest.raises(BadInput) as error:
        study(TEXT.replace(old, new))
    assert error.value.remedy.startswith(f"docs/{manual}.md says what ")


ONE_MACHINE = {
    "ssh": 'address = "root@lab3"\nprovision = "reuse"',
    "libvirt": 'domain = "web"',
    "vagrant": "",
    "vmware": 'server = "vc.example.org"\nuser = "u"\nvm = "web"',
}
SEVERAL = {
    "libvirt": "",
    "vmware": 'server = "vc.example.org"\nuser = "u"\ntemplate = "golden"',
    "docker": "",
}


def _study_with(kind: str, options: str, clients: str) -> str:
    return f"""\
name = "paired"
[environments.web]
kind = "{kind}"
{options}
[factors]
environment = ["host", "web"]
[clients]
{clients}
[[workloads]]
name = "w"
kind = "http"
"""


def test_one_machine_under_two_names_is_found() -> None:
    names = {"a": "ssh", "b": "ssh", "c": "ssh", "d": "docker", "e": "docker"}
    tables = "".join(
        f'[environments.{name}]\nkind = "{kind}"\n' + ONE_MACHINE["ssh"] * (kind == "ssh") + "\n"
        for name, kind in names.items()
    )
    text = TEXT.replace('["host", "metal"]', '["a", "b", "c", "d", "e"]').replace('= "host" }', '= "a" }')
    found = study(text.replace("[hosts.far]", f"{tables}[hosts.far]"))
    assert find_one_under_two_names(found) == [("a", "b"), ("a", "c"), ("b", "c")]
    assert find_one_under_two_names(study()) == []


def test_a_provision_that_is_the_designs_default_is_told_where_the_machine_is() -> None:
    with pytest.raises(BadInput) as error:
        study(TEXT.replace('provision = "reuse"', ""))
    assert error.value.where == f"metal.toml:{1 + TEXT.splitlines().index('[environments.metal]')}"
    with pytest.raises(BadInput) as error:
        study(TEXT.replace('provision = "reuse"', "").replace("blocks = 8", 'provision = "boot"'))
    assert error.value.where == f"metal.toml:{TEXT.splitlines().index('blocks = 8') + 1}"


@pytest.mark.parametrize("kind", ONE_MACHINE)
def test_one_that_exists_is_not_made_by_hand(kind: str) -> None:
    if kind == "libvirt":
        with pytest.raises(BadInput, match="exists already"):
            parse_request(kind, ["environments.libvirt.domain=web"])
        return
    with pytest.raises(BadInput) as error:
        parse_request(kind, [])
    # Of one of Vagrant's or vSphere's nobody has looked whether it is there.
    told = f"machines of kind {kind!r} are not made by `up`"
    assert told in error.value.what and "nearmetal up:" not in str(error.value)


@pytest.mark.parametrize("kind", ONE_MACHINE)
def test_one_machine_is_no_server_for_each_of_several_clients(kind: str) -> None:
    text = _study_with(kind, ONE_MACHINE[kind], 'count = 2\nconnect = "pairs"')
    line = 1 + text.splitlines().index('connect = "pairs"')
    with pytest.raises(BadInput, match=rf"s\.toml:{line}") as error:
        read(text, "s.toml")
    assert "'web' is one machine" in str(error.value) and "shared" in error.value.remedy
    by_factor = _study_with(kind, ONE_MACHINE[kind], 'connect = "pairs"').replace(
        "[clients]", '[factors.clients]\nlevels = [1, 2]\nsets = "clients.count"\n[clients]'
    )
    with pytest.raises(BadInput, match="one machine"):
        read(by_factor, "s.toml")
    assert read(_study_with(kind, ONE_MACHINE[kind], 'count = 2\nconnect = "shared"'), "s.toml")
    assert read(_study_with(kind, ONE_MACHINE[kind], 'count = 1\nconnect = "pairs"'), "s.toml")


@pytest.mark.parametrize("kind", SEVERAL)
def test_of_what_can_be_made_again_there_is_one_for_each_client(kind: str) -> None:
    assert read(_study_with(kind, SEVERAL[kind], 'count = 2\nconnect = "pairs"'), "s.toml")


def test_there_is_nothing_to_bring_up() -> None:
    with pytest.raises(BadInput, match="not made by `up`"):
        parse_request("ssh", ["environments.ssh.address=root@lab3"])
