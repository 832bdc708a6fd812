"""Domains that are somebody's: what a study says of one, how it is logged in to, and when it cannot be had."""

from typing import Any

import pytest

from nearmetal.environments import libvirt
from nearmetal.environments._existing_domain import ExistingDomains
from nearmetal.errors import BadInput, HostCannot
from nearmetal.lab.libvirt import existing_domain
from nearmetal.lab.libvirt.existing_domain import DomainState
from nearmetal.lab.libvirt.options import Options
from nearmetal.model import EnvironmentSpec, MachineSpec
from nearmetal.study.resolve import resolve_alone
from nearmetal.study.study_file import read


def test_one_logs_in_as_root_or_as_whom_the_study_names() -> None:
    assert Options(domain="web").way("10.0.0.1").ssh == "root@10.0.0.1"
    assert Options(domain="web", login="debian").way("2001:db8::7").ssh == "debian@[2001:db8::7]"


def found(state: str, has_saved: bool = False) -> DomainState:
    return DomainState("web", "u", state, has_saved, vcpus=1, memory=2**30)


@pytest.mark.parametrize(
    ("state", "has_saved", "provision", "what"),
    [
        ("running", False, "boot", "web runs, and each boot is to start it"),
        ("paused", False, "reuse", "web is paused"),
        ("in shutdown", False, "boot", "web is in shutdown"),
        ("shut off", True, "boot", "was saved as it ran"),
    ],
)
def test_what_cannot_be_had_so_is_refused(state: str, has_saved: bool, provision: Any, what: str) -> None:
    with pytest.raises(HostCannot, match=what) as refused:
        existing_domain.refuse_unready(found(state, has_saved), provision)
    assert refused.value.remedy


@pytest.mark.parametrize(
    ("state", "has_saved", "provision"),
    [("shut off", False, "boot"), ("shut off", False, "reuse"), ("running", True, "reuse"), ("idle", False, "restart")],
)
def test_what_can_be_had_is_not(state: str, has_saved: bool, provision: Any) -> None:
    existing_domain.refuse_unready(found(state, has_saved), provision)


STUDY = """\
name = "s"
[environments.web]
kind = "libvirt"
{}
[factors]
environment = ["web"]
[[workloads]]
name = "w"
kind = "ping"
"""


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ('domain = ""', "domain"),
        ('domain = "a"\nmachine = "pc"', "`machine` is for domains that nearmetal makes"),
        ('key = "x"', "`key` is for a domain that is there already"),
        ('data = "10.0.0.1"', "`data` is for a domain that is there already"),
        ('login = "debian"', "`login` is for a domain that is there already"),
        ('domain = "a"\nlogin = "-oProxyCommand=x"', "login"),
        ('domain = "a"\naddress = "b"', "address"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options: str, what: str) -> None:
    with pytest.raises(BadInput, match=what):
        read(STUDY.format(options), "s.toml", [])


def test_only_a_domain_that_is_somebodys_is_off_the_switch() -> None:
    theirs = EnvironmentSpec.model_validate({"kind": "libvirt", "domain": "web"})
    assert resolve_alone(theirs, MachineSpec()).description.placement == "elsewhere"
    assert resolve_alone(EnvironmentSpec(kind="libvirt"), MachineSpec()).description.placement == "switch"
    assert isinstance(libvirt.plugin._existing, ExistingDomains)
