"""Lab files: whose hosts take which role, by name, tag or their own word, and what is refused."""

from pathlib import Path

import pytest

from nearmetal.errors import BadInput
from nearmetal.model import Study
from nearmetal.planning.opened_study import read_study
from nearmetal.planning.plan import digest_study
from nearmetal.study.lab_file import build_overrides, read_lab, read_lab_file
from nearmetal.study.study_file import read

LAB = """
[hosts.s]
ssh = "root@10.0.0.1"
roles = ["server"]
tags = ["10g", "kvm"]
[hosts.c1]
ssh = "root@10.0.0.2"
roles = ["client"]
tags = ["10g"]
[hosts."c2"]
ssh = "root@10.0.0.3:2222"
roles = ["client"]
interface = "eth1"
[hosts.spare]
ssh = "root@10.0.0.4"
tags = ["kvm"]
"""

STUDY = """
name = "anywhere"
[factors]
environment = ["host"]
[[workloads]]
name = "web"
kind = "http"
"""


def placed(study: str = STUDY, lab: str = LAB, *overrides: str) -> Study:
    return read(study, "s.toml", [*build_overrides(lab, "lab.toml"), *overrides])


def places(study: Study) -> tuple[object, ...]:
    return study.machine.host, study.clients.host, study.clients.count


def refused(study: str = STUDY, lab: str = LAB) -> BadInput:
    with pytest.raises(BadInput) as error:
        placed(study, lab)
    assert error.value.where and error.value.remedy
    return error.value


def test_a_study_without_hosts_goes_where_the_lab_has_roles() -> None:
    assert places(placed()) == ("s", ("c1", "c2"), 2)
    assert placed().hosts == read_lab(LAB, "lab.toml")


def test_the_same_study_without_a_lab_stays_here() -> None:
    assert places(read(STUDY, "s.toml")) == ("local", "local", 1)


@pytest.mark.parametrize(
    ("tables", "expected"),
    [
        ('[machine]\nhost = "tag:kvm"', ("s", ("c1", "c2"), 2)),
        ('[machine]\nhost = "spare"\n[clients]\nhost = "tag:10g"', ("spare", "c1", 1)),
        ('[clients]\nhost = ["tag:10g", "spare", "c1"]', ("s", ("c1", "spare"), 2)),
        ('[clients]\nhost = ["c2", "c1"]\ncount = 4', ("s", ("c2", "c1"), 4)),
        ("[clients]\ncount = 1", ("s", "c1", 1)),
        ('[clients]\nhost = "tag:10g"\ncount = 5', ("s", "c1", 5)),
        ('[factors.n]\nlevels = [1, 2]\nsets = "clients.count"', ("s", ("c1", "c2"), 2)),
        ('[machine]\nhost = "local"\n[clients]\nhost = "local"', ("local", "local", 1)),
        ('[factors.hosts]\nlevels = ["local", "s"]\nsets = "machine.host"', ("local", ("c1", "c2"), 2)),
    ],
)
def test_roles_are_placed_by_name_or_tag(tables: str, expected: tuple[object, ...]) -> None:
    assert places(placed(STUDY.replace("[[workloads]]", f"{tables}\n[[workloads]]"))) == expected


def test_a_server_that_may_be_a_client_is_one_only_where_nobody_else_is() -> None:
    both = LAB.replace('roles = ["server"]', 'roles = ["server", "client"]')
    assert places(placed(lab=both)) == ("s", ("c1", "c2"), 2)
    alone = '[hosts.s]\nssh = "root@10.0.0.1"\nroles = ["server", "client"]'
    assert places(placed(lab=alone)) == ("s", "s", 1)


def test_a_machine_that_is_a_host_of_its_own_is_not_placed() -> None:
    metal = '[environments.metal]\nkind = "ssh"\naddress = "root@lab3"\nprovision = "reuse"\n[factors]'
    study = STUDY.replace('["host"]', '["metal"]').replace("[factors]", metal)
    assert places(placed(study)) == ("local", ("c1", "c2"), 2)


def test_the_labs_host_is_laid_over_the_studys_of_that_name() -> None:
    study = STUDY.replace("[factors]", '[hosts.s]\nssh = "second-host"\n[factors]')
    assert placed(study).hosts["s"].ssh == "root@10.0.0.1"
    assert placed(study, LAB, "hosts.s.ssh=root@other").hosts["s"].ssh == "root@other"


def test_hosts_without_roles_and_tags_keep_the_digest_that_they_had() -> None:
    with_host = STUDY.replace("[factors]", '[hosts.far]\nssh = "root@10.0.0.9"\n[factors]')
    assert digest_study(read(with_host, "s.toml")) == (
        "28333c884fe87a8a587f62d8a627250dddf82c006c91b02f7563db0b224f9395"
    )


@pytest.mark.parametrize(
    ("tables", "told", "remedy"),
    [
        ('[machine]\nhost = "tag:kmv"', "`machine.host` names the tag 'kmv', which no host has", "did you mean `kvm`?"),
        ('[clients]\nhost = ["c1", "tag:1g"]', "`clients.host` names the tag '1g'", "10g"),
        ('[machine]\nhost = "c1"', "'c1' takes no servers: [hosts.c1] roles = [\"client\"]", "s, spare"),
        ('[clients]\nhost = ["c1", "s"]', "'s' takes no clients", "c1, c2, spare"),
        ('[factors.hosts]\nlevels = ["s", "c2"]\nsets = "machine.host"', "'c2' takes no servers", "s, spare"),
        ('[factors.where]\nlevels = ["s", "tag:kvm"]\nsets = "machine.host"', "'tag:kvm', which is no host", "declare"),
        ('[machine]\nhost = "far"', "`machine.host` names 'far', which is no host", "[hosts.far]"),
    ],
)
def test_a_role_that_cannot_be_placed_is_told(tables: str, told: str, remedy: str) -> None:
    error = refused(STUDY.replace("[[workloads]]", f"{tables}\n[[workloads]]"))
    assert told in error.what and remedy in error.remedy and error.where.startswith("s.toml:")


def test_a_tag_whose_hosts_take_another_role_is_told() -> None:
    lab = LAB.replace('tags = ["10g"]', 'tags = ["small"]')
    error = refused(STUDY.replace("[[workloads]]", '[machine]\nhost = "tag:small"\n[[workloads]]'), lab)
    assert error.what == "no host with the tag 'small' takes servers: [hosts.c1] roles = [\"client\"]"


@pytest.mark.parametrize(
    ("lab", "line", "told"),
    [
        ("", 1, "the lab has no host"),
        ("[hosts]", 1, "the lab has no host"),
        ("[host.a]\nssh = 'a'", 1, "unknown key `host` in a lab file"),
        (LAB + '[machine]\nhost = "s"', 17, "unknown key `machine` in a lab file"),
        (LAB + '[hosts.s]\nssh = "root@10.0.0.9"', 17, "this is not TOML"),
        (LAB + '[hosts.again]\nssh = "root@10.0.0.2"', 18, "'c1' and 'again' are one host: both are reached as"),
        (LAB + '[hosts.local]\nssh = "root@10.0.0.9"', 17, "`local` is this host itself"),
        (LAB + '[hosts."a b"]\nssh = "root@10.0.0.9"', 17, "cannot be a name in [hosts]"),
        (LAB + '[hosts.x]\ntags = ["a"]', 17, "`hosts.x.ssh` is missing"),
        (LAB + '[hosts.x]\nssh = "root@x"\nrole = ["client"]', 19, "unknown key `hosts.x.role`"),
        (LAB + '[hosts.x]\nssh = "root@x"\nroles = ["router"]', 19, "cannot be 'router'"),
        (LAB + '[hosts.x]\nssh = "root@x"\ntags = ["a b"]', 19, "cannot be 'a b'"),
        (LAB + '[hosts.x]\nssh = "root@x"\ninterface = "a b"', 19, "cannot be 'a b'"),
        (LAB + '[hosts.x]\nssh = "root@x"\ntrunk = "10.0.0.9"\ninterface = "eth0"', 20, "both `trunk` and `interface`"),
    ],
)
def test_what_is_wrong_with_a_lab_is_told_with_its_line(lab: str, line: int, told: str) -> None:
    error = refused(lab=lab)
    assert told in error.what
    assert error.where == f"lab.toml:{line}"


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for name in ("none.toml", "binary", ""):
        with pytest.raises(BadInput) as error:
            read_lab_file(tmp_path / name)
        assert error.value.remedy


def test_the_command_line_has_the_last_word(tmp_path: Path) -> None:
    lab, study = tmp_path / "lab.toml", tmp_path / "s.toml"
    lab.write_text(LAB)
    study.write_text(STUDY)
    opened = read_study(str(study), ["clients.host=spare"], lab=lab)
    assert places(opened.study) == ("s", "spare", 1)
    # Whoever reads the run later has no lab file.
    assert places(read(opened.source, "s.toml", opened.overrides)) == ("s", "spare", 1)
