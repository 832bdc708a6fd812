"""What `doctor --lab` makes of hosts that answer, that do not, and that lack things."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from nearmetal.errors import Unreachable
from nearmetal.lab import doctor_hosts
from nearmetal.lab.host_checks import finding
from nearmetal.lab.local_site import LocalSite
from nearmetal.lab.networks import trunk
from nearmetal.model import Completed, Finding, Site
from nearmetal.study.lab_file import read_lab
from tests.command_line import called

LAB = """
[hosts.s]
ssh = "root@10.0.0.1"
roles = ["server"]
[hosts.c]
ssh = "root@10.0.0.2"
roles = ["client"]
tags = ["10g"]
[hosts.away]
ssh = "root@10.0.0.3"
"""


class Far(LocalSite):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    async def exec(self, argv: Sequence[str], **given: Any) -> Completed:
        if argv[0] == "test":
            return Completed(status=0 if self.name == "s" else 1)
        return await super().exec(argv, **given)


class Rack:
    """Opens sites that are this host, but one that is away."""

    met: list[str]

    def __init__(self, *_: object) -> None:
        self.met = []

    async def __call__(self, name: str) -> Site:
        self.met.append(name)
        if name == "away":
            raise Unreachable("it cannot be reached: no route", "the host away (root@10.0.0.3)", "see its cable")
        return Far(name)

    async def aclose(self) -> None:
        pass


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    async def way(tunnel: str, servers: Site, clients: Site) -> Finding:
        return finding(f"{servers.name} to {clients.name}", servers.name == "s", "no way", "")

    async def environment(name: str, site: Site) -> Finding:
        lacks = name == "qemu" and site.name == "c"
        return Finding(what="qemu", ok=not lacks, detail="it is not installed" if lacks else "", remedy="apt")

    monkeypatch.setattr(doctor_hosts, "Sites", Rack)
    monkeypatch.setattr(trunk, "check_trunk", way)
    monkeypatch.setattr(doctor_hosts, "_check_environment", environment)
    file = tmp_path / "lab.toml"
    file.write_text(LAB)
    return file


def test_each_host_has_a_row_and_what_it_lacks_a_line(lab: Path) -> None:
    ended = called("doctor", "--lab", str(lab))
    told = ended.stdout
    assert ended.returncode == 3
    title, *rows = told.splitlines()
    assert title.split()[:4] == ["host", "roles,", "tags", "login"]
    at = {name: title.index(f" {name}") + 1 for name in ("login", "kvm", "qemu", "way")}
    cells = {
        row.split()[0]: {name: row[place:].split("  ")[0].strip() for name, place in at.items()} for row in rows[:3]
    }
    assert cells["s"] == {"login": "yes", "kvm": "yes", "qemu": "yes", "way": ""}
    assert cells["c"] == {"login": "yes", "kvm": "-", "qemu": "-", "way": "yes"}
    assert cells["away"] == {"login": "no", "kvm": "", "qemu": "", "way": ""}
    assert "--  c: qemu: it is not installed; remedy: apt" in told
    assert (
        "no  away: login: the host away (root@10.0.0.3): it cannot be reached: no route; remedy: see its cable" in told
    )


def test_a_lab_all_of_which_answers_is_able(lab: Path) -> None:
    lab.write_text(LAB.partition("[hosts.away]")[0])
    ended = called("doctor", "--lab", str(lab), "--json")
    document = json.loads(ended.stdout)
    assert ended.returncode == 0 and document["able"]
    assert [(host["name"], host["roles"], host["tags"]) for host in document["hosts"]] == [
        ("s", ["server"], []),
        ("c", ["client"], ["10g"]),
    ]


@pytest.mark.usefixtures("lab")
def test_a_servers_host_that_is_away_leaves_no_way() -> None:
    hosts = LAB.replace('roles = ["server"]', "").replace('3"', '3"\nroles = ["server"]')
    found = asyncio.run(doctor_hosts.examine_hosts(read_lab(hosts, "lab.toml")))
    of_c = {one.what: one for one in found.hosts[1].findings}
    assert not found.able and of_c["way"].detail == "the servers' host is not reached"


@pytest.mark.parametrize("words", [("docker",), ("--fix",)])
def test_a_lab_and_this_host_are_not_asked_together(lab: Path, words: Sequence[str]) -> None:
    assert called("doctor", "--lab", str(lab), *words).returncode == 2
