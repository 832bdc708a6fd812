"""What virsh says of domains that are somebody's, as virsh 9.0.0 said it, and what is made of it."""

from ipaddress import ip_address

import pytest

from nearmetal.errors import ToolFailed
from nearmetal.lab.libvirt import output
from nearmetal.model import Cost

LISTED = """\
 58895ea6-c380-4884-98dc-67575d3ebea3 web
 6695eb01-f6a4-8304-79aa-97f2502e193f web server
 0f0e0d0c-f6a4-8304-79aa-97f2502e193f  web
 11111111-f6a4-8304-79aa-97f2502e193f 58895ea6-c380-4884-98dc-67575d3ebea3
"""
INFO = """\
Id:             1
Name:           study_default
State:          running
CPU(s):         1
CPU time:       22.6s
Max memory:     786432 KiB
Managed save:   no
Messages:       tainted: running with undesirable elevated privileges

"""
INTERFACES = """\
 vnet0   network   vagrant-libvirt   virtio   52:54:00:13:0c:0b
 -       bridge    br0               -        52:54:00:AA:bb:cc
"""
LEASE = " vnet0      52:54:00:13:0c:0b    ipv4         10.114.0.24/24\n"
AGENT = """\
 lo         00:00:00:00:00:00    ipv4         127.0.0.1/8
 -          -                    ipv6         ::1/128
 docker0    02:42:13:37:00:01    ipv4         172.17.0.1/16
 enp1s0     52:54:00:13:0c:0b    ipv6         fe80::5054:ff:fe13:c0b/64
 -          -                    ipv6         2001:db8::7/64
 -          -                    ipv4         192.168.122.7/24
 enp2s0     N/A                  N/A          N/A
"""
STATS = """\
Domain: 'study_default'
  cpu.time=18530000000
  cpu.user=16250000000
  balloon.current=786432
  balloon.rss=591932

"""
MACS = ("52:54:00:13:0c:0b", "52:54:00:aa:bb:cc")


def test_a_name_is_that_name_and_nothing_like_it() -> None:
    """Not an id, not a UUID, no part of a longer one; and two of one name are two."""
    assert output.parse_uuids(LISTED, "web server") == ["6695eb01-f6a4-8304-79aa-97f2502e193f"]
    assert output.parse_uuids(LISTED, "58895ea6-c380-4884-98dc-67575d3ebea3") == [
        "11111111-f6a4-8304-79aa-97f2502e193f"
    ]
    assert output.parse_uuids(LISTED, "web") == ["58895ea6-c380-4884-98dc-67575d3ebea3"]
    assert output.parse_uuids(LISTED + LISTED, "web") == ["58895ea6-c380-4884-98dc-67575d3ebea3"] * 2
    for name in ("1", "server", "", "58895ea6"):
        assert output.parse_uuids(LISTED, name) == []


def test_facts_and_cards() -> None:
    facts = output.parse_facts(INFO)
    assert (facts["State"], facts["Max memory"], facts["Managed save"]) == ("running", "786432 KiB", "no")
    assert list(output.parse_macs(INTERFACES)) == list(MACS)
    assert output.parse_macs("\nrubbish here\n") == []


def test_an_address_is_one_of_the_domains_own_cards() -> None:
    assert output.parse_address(LEASE, MACS) == ip_address("10.114.0.24")
    assert output.parse_address(AGENT, MACS) == ip_address("192.168.122.7")
    assert output.parse_address(AGENT.replace("192.168.122.7/24", "169.254.1.1/16"), MACS) == ip_address("2001:db8::7")
    assert output.parse_address(LEASE, ["52:54:00:13:0c:0c"]) is None
    assert output.parse_address(LEASE, []) is None
    for rubbish in ("", "a b c d\n", " vnet0 52:54:00:13:0c:0b ipv4 10.114.0.300/24\n", " - - ipv4 10.0.0.1/8\n"):
        assert output.parse_address(rubbish, MACS) is None


def test_a_cost_is_the_monitors() -> None:
    assert output.parse_cost(STATS) == Cost(cpu_seconds=18.53, memory_bytes=None)
    for rubbish in ("", "Domain: 'x'\n", STATS.replace("18530000000", "much")):
        with pytest.raises(ToolFailed, match="virsh domstats said"):
            output.parse_cost(rubbish)


def test_a_mark_is_that_of_its_element() -> None:
    assert output.parse_mark('<run mark="abc"/>\n') == "abc"
    for rubbish in ("", "<run/>", "<run mark=", "abc"):
        assert output.parse_mark(rubbish) is None
