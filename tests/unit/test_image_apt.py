"""Where packages come from, and what a failing mmdebstrap means."""

import pytest

from nearmetal.errors import BadInput, HostCannot, NearmetalError, ToolFailed
from nearmetal.lab.image import Recipe, apt
from nearmetal.lab.image.bootstrap import explain

LISTING = """\
http://mirror.example/debian/ bookworm main
http://mirror.example/debian/ bookworm contrib
http://mirror.example/debian/ bookworm-updates main
http://mirror.example/debian-security/ bookworm-security main
https://other.example/apt/ stable main
http://mirror.example/debian/ bookworm main
"""


def without_keys(sources: str) -> list[str]:
    return [" ".join(word for word in line.split() if not word.startswith("[")) for line in sources.splitlines()]


def test_the_hosts_own_mirror_of_the_suite_is_used() -> None:
    assert without_keys(apt.pick_sources(LISTING, "bookworm")) == [
        "deb http://mirror.example/debian/ bookworm main",
        "deb http://mirror.example/debian/ bookworm-updates main",
        "deb http://mirror.example/debian-security/ bookworm-security main",
    ]


def test_warnings_and_a_cdrom_among_the_sources_are_passed_over() -> None:
    noise = (
        "W: Target Packages (main/binary-amd64/Packages) is configured multiple times in /etc/apt/sources.list:1\n"
        "cdrom:[Debian GNU/Linux 12.1.0 _Bookworm_ - Official amd64]/ bookworm main\n\n"
    )
    assert apt.pick_sources(noise + LISTING, "bookworm") == apt.pick_sources(LISTING, "bookworm")
    assert apt.pick_sources(noise, "bookworm") == ""


@pytest.mark.parametrize(
    "listing", ["", "http://mirror.example/ubuntu/ noble main\n", LISTING.replace("bookworm ", "x ")]
)
def test_a_host_without_the_suite_offers_nothing(listing: str) -> None:
    assert apt.pick_sources(listing, "bookworm") == ""


def test_proxies_and_checks_are_taken_over_and_nothing_else() -> None:
    dump = """\
Acquire "";
Acquire::http::Proxy "http://proxy.example:3142";
Acquire::https::Proxy "";
Acquire::Check-Valid-Until "false";
Acquire::Languages:: "none";
Acquire::IndexTargets::deb::Packages::Optional "0";
"""
    assert apt.pick_options(dump) == [
        'Acquire::http::Proxy "http://proxy.example:3142";',
        'Acquire::Check-Valid-Until "false";',
    ]


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("E: Unable to locate package nosuchthing\nE: apt-get failed", BadInput, "no package nosuchthing"),
        ("E: Package 'ghost' has no installation candidate", BadInput, "no package ghost"),
        ("tar: ./usr/lib/x: Cannot write: No space left on device", HostCannot, "disk is full"),
        ("Err:1 http://d\n  Could not resolve 'deb.debian.org'", HostCannot, "cannot be reached"),
        ("  Temporary failure resolving 'deb.debian.org'", HostCannot, "cannot be reached"),
        ("E: The repository 'http://d nosuch Release' does not have a Release file.", HostCannot, "this suite"),
        ("  404  Not Found [IP: 1.2.3.4 80]", HostCannot, "this suite"),
        ("W: GPG error: NO_PUBKEY 0E98404D386FA1D9", HostCannot, "signature"),
        ("unshare: unshare failed: Operation not permitted", HostCannot, "namespaces"),
        ("I: running\nE: something new\n", ToolFailed, "E: something new"),
        ("one\ntwo\nthree\nfour", ToolFailed, "two; three; four"),
    ],
)
def test_a_failure_is_explained(text: str, error: type[NearmetalError], says: str) -> None:
    explained = explain(text, Recipe())
    assert type(explained) is error
    assert says in explained.what
