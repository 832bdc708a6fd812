"""What stands in [environments.NAME] of a machine of vSphere's, read as a study's."""

import re

import pytest

from nearmetal.environments.vmware import Options, plugin
from nearmetal.errors import BadInput
from nearmetal.lab.local_site import LocalSite
from nearmetal.lab.vmware.account import Account
from nearmetal.model import EnvironmentSpec, MachineSpec
from nearmetal.study.resolve import collect_hosts, resolve_alone
from nearmetal.study.study_file import read

STUDY = """
name = "vsphere"
reference = { environment = "esx" }
[environments.esx]
kind = "vmware"
server = "vcenter.example.org"
user = "me"
vm = "web"
[factors]
environment = ["esx"]
[[workloads]]
name = "delay"
kind = "ping"
"""


def test_its_machines_are_elsewhere() -> None:
    study = read(STUDY, "study.toml", ())
    environment = study.environment("esx")
    assert resolve_alone(environment, study.machine).description.placement == "elsewhere"
    assert collect_hosts(study) == {}, "it is no host: nothing leads there before it runs"
    assert resolve_alone(EnvironmentSpec(kind="qemu"), study.machine).description.placement == "switch"


async def test_that_no_certificate_is_asked_for_is_said_to_whoever_waits(capsys: pytest.CaptureFixture[str]) -> None:
    said: list[str] = []
    given = {"kind": "vmware", "server": "vcenter.example.org", "user": "me", "vm": "web"}
    for spec in (given, {**given, "insecure": True}):
        await plugin.prepare(EnvironmentSpec.model_validate(spec), MachineSpec(), LocalSite(said.append))
    assert said == ["warning: vcenter.example.org may be anybody: its certificate is not checked (insecure)"]
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('server = "vcenter.example.org"', "", "takes `server`"),
        ('"vcenter.example.org"', '"vcenter.example.org; reboot"', "is no server"),
        ('"vcenter.example.org"', '"https://vcenter"', "is no server"),
        ('vm = "web"', "", 'vm = "NAME", or template = "NAME"'),
        ('vm = "web"', 'vm = "web"\ntemplate = "golden"', 'vm = "NAME", or template = "NAME"'),
        ('vm = "web"', 'vm = "web"\ninsecure = true\nca_file = "x"', "only one of ca_file, thumbprint and insecure"),
        ('vm = "web"', 'vm = "web"\ninsecure = "yes"', "`insecure`"),
        ('vm = "web"', 'vm = "web"\nthumbprint = "AB:CD"', "is no SHA-256"),
        ('vm = "web"', 'vm = "web"\npassword = "secret"', "did you mean `password_env`?"),
        ('vm = "web"', 'vm = "web"\npassword_env = "A B"', "the password is in that variable"),
        ('vm = "web"', 'vm = "web"\npassword_env = "AWS_SECRET_KEY"', "that begins with NEARMETAL_VMWARE_"),
        ('vm = "web"', 'vm = "web"\nlogin = "-oProxyCommand=x"', 'the name of a user there, such as "root"'),
        ('vm = "web"', 'vm = "web"\nport = 70000', "`port`"),
        ('vm = "web"', 'vm = "web"\ndata = "1.2.3"', "it must be an IPv4 or IPv6 address"),
        ('["esx"]', '["vmware"]', "does not say which one"),
    ],
)
def test_what_is_wrong_is_told(old: str, new: str, told: str) -> None:
    with pytest.raises(BadInput) as refused:
        read(STUDY.replace(old, new).replace('= { environment = "esx" }', "= {}"), "study.toml", ())
    assert told in f"{refused.value} {refused.value.remedy}"
    assert refused.value.remedy
    assert not re.search("A B|AWS", f"{refused.value}"), "what stands there may be the password itself"


@pytest.mark.parametrize(
    ("server", "address"),
    [
        ("vcenter", ("vcenter", 443)),
        ("vcenter:8443", ("vcenter", 8443)),
        ("[2001:db8::7]", ("2001:db8::7", 443)),
        ("[2001:db8::7]:8443", ("2001:db8::7", 8443)),
    ],
)
def test_where_a_server_is(server: str, address: tuple[str, int]) -> None:
    assert Account(server, "me", "PASSWORD", None, None, False).address == address


def test_the_way_into_a_guest() -> None:
    options = Options.model_validate({"server": "vcenter", "user": "me", "vm": "web", "login": "admin", "port": 2222})
    assert options.make_way("10.0.0.7").ssh == "admin@10.0.0.7:2222"
    assert options.make_way("2001:db8::7").ssh == "admin@[2001:db8::7]:2222"
