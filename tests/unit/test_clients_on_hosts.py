"""Clients on several hosts: where each is, which CPUs it has there, and what a study is refused for."""

import pytest

from nearmetal.errors import BadInput
from nearmetal.lab.cpus.layout import UNKNOWN
from nearmetal.lab.networks import trunk
from nearmetal.model import Resolved
from nearmetal.planning.plan import digest_study
from nearmetal.run import site_resources
from nearmetal.study.resolve import resolve_treatments
from nearmetal.study.study_file import read

TEXT = """
name = "placed"
[hosts.c1]
ssh = "root@10.0.0.1"
[hosts.c2]
ssh = "root@10.0.0.2"
[hosts.c3]
ssh = "root@10.0.0.3"
[factors]
environment = ["host"]
[clients]
host = ["c1", "c2", "c3"]
[[workloads]]
name = "web"
kind = "http"
"""


def only(text: str) -> Resolved:
    (one,) = resolve_treatments(read(text, "s.toml"))
    return one


def refused(text: str) -> BadInput:
    with pytest.raises(BadInput) as error:
        read(text, "s.toml")
    assert error.value.where.startswith("s.toml:") and error.value.remedy
    return error.value


def test_each_host_has_one_client() -> None:
    clients = only(TEXT).clients
    assert (clients.count, clients.places, clients.host) == (3, ("c1", "c2", "c3"), "c1")


def test_more_clients_than_hosts_are_placed_in_turn() -> None:
    assert only(TEXT.replace("[clients]", "[clients]\ncount = 5")).clients.places == ("c1", "c2", "c3", "c1", "c2")


def test_a_factor_may_leave_hosts_without_a_client() -> None:
    factor = '[factors.clients]\nlevels = [1, 3]\nsets = "clients.count"\n[clients]'
    resolved = resolve_treatments(read(TEXT.replace("[clients]", factor), "s.toml"))
    assert [one.clients.places for one in resolved] == [("c1",), ("c1", "c2", "c3")]
    assert [site_resources.list_other_hosts(one) for one in resolved] == [["c1"], ["c1", "c2", "c3"]]
    assert site_resources.choose_mtu(resolved) == trunk.DATA_MTU


def test_a_list_of_one_host_is_that_host() -> None:
    one, same = (TEXT.replace('["c1", "c2", "c3"]', host) for host in ('["c1"]', '"c1"'))
    assert digest_study(read(one, "s.toml")) == digest_study(read(same, "s.toml"))


def test_no_trunk_leads_to_the_servers_own_host() -> None:
    one = only(TEXT.replace('["c1", "c2", "c3"]', '["local", "c1"]'))
    assert one.clients.places == ("local", "c1")
    assert site_resources.list_other_hosts(one) == ["c1"]
    shared = site_resources.share_cpus(one, [0, 1, 2, 3], UNKNOWN, {"c1": [0, 1]})
    assert shared.servers == ("3",)
    assert site_resources.client_cpus(one, shared) == ["0-2", "0-1"]
    assert [site_resources.make_client_spec(one, cpus).vcpus for cpus in ("0-2", "0-1")] == [3, 2]


def test_cpus_are_counted_on_each_host_anew() -> None:
    one = only(TEXT.replace("[clients]", "[clients]\nvcpus = 1\ncount = 4"))
    shared = site_resources.share_cpus(one, [0, 1], UNKNOWN, {"c1": [0, 1], "c2": [4], "c3": [0, 1, 2]})
    assert site_resources.client_cpus(one, shared) == ["0", "4", "0", "1"]


def test_cpus_named_for_clients_are_none_of_a_host_that_has_no_client() -> None:
    one = only(TEXT.replace("[clients]", '[clients]\ncpus = "8-9"'))
    shared = site_resources.share_cpus(one, [0, 1], UNKNOWN, {name: [8, 9] for name in ("c1", "c2", "c3")})
    assert (shared.servers, shared.clients) == (("1",), "0")
    assert site_resources.client_cpus(one, shared) == ["8-9"] * 3


@pytest.mark.parametrize(
    ("new", "told"),
    [
        ('["c1", "c2", "c1"]', "`clients.host` names 'c1' twice"),
        ('["c1", "far"]', "`clients.host` names 'far', which is no host"),
        ("[]", "`clients.host`"),
        ('["c1", "c2", "c3"]\ncount = 2', "no client is placed on 'c3': there are 2 at most"),
        ('["c1", "c2"]\nenvironment = "metal"', "but it is a host of its own"),
    ],
)
def test_what_makes_no_sense_is_told(new: str, told: str) -> None:
    metal = '[environments.metal]\nkind = "ssh"\naddress = "root@lab3"\nprovision = "reuse"\n[factors]'
    text = TEXT.replace("[factors]", metal) if "metal" in new else TEXT
    assert told in refused(text.replace('["c1", "c2", "c3"]', new)).what


def test_a_list_is_no_level() -> None:
    factor = '[factors.hosts]\nlevels = [["c1", "c2"]]\nsets = "clients.host"\n[clients]'
    refused(TEXT.replace("[clients]", factor))


def test_tunnels_of_a_lab_have_numbers_of_their_own() -> None:
    numbers = [trunk.make_number("nm-aaaaaa", index) for index in range(1000)]
    assert len(set(numbers)) == 1000
    assert all(0 < one < 2**24 for one in numbers)
