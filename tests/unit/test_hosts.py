"""Machines that are hosts of their own: where a study has them, and what it cannot say of them."""

import pytest

from nearmetal import factors, hosts, plugins
from nearmetal.by_hand.wanted import wanted
from nearmetal.errors import BadInput
from nearmetal.model import Study
from nearmetal.study import read

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
    found = hosts.of(study())
    assert found.keys() == {"far", "metal"}
    metal = found["metal"]
    assert (metal.ssh, str(metal.trunk), metal.jump) == ("root@lab3:2222", "192.168.7.2", "bastion")


def test_its_machines_are_placed_there_and_all_others_where_the_study_says() -> None:
    for environment, host in (("host", "local"), ("metal", "metal")):
        asked = factors.ask(study(), {"environment": environment}, plugins.names("treatments"))
        assert (asked.machine.host, asked.clients.host) == (host, "local")
    loaded = study(TEXT.replace("[hosts.far]", '[clients]\nenvironment = "metal"\n[hosts.far]'))
    assert factors.ask(loaded, {"environment": "metal"}, ()).clients.host == "metal"


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
        ('provision = "reuse"', 'provision = "reuse"\npassword = "x"', "unknown key `password`"),
        ('data = "192.168.7.2"', 'data = "eth1"', "`data`"),
    ],
)
def test_what_makes_no_sense_is_told(old: str, new: str, told: str) -> None:
    assert TEXT.count(old) == 1
    with pytest.raises(BadInput) as error:
        study(TEXT.replace(old, new))
    assert told in str(error.value) and error.value.remedy


def test_there_is_nothing_to_bring_up() -> None:
    with pytest.raises(BadInput, match="up already"):
        wanted("ssh", ["environments.ssh.address=root@lab3"])
