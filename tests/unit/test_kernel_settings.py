"""Which sysctls a study may set, the table, and the plan that carries it."""

import re
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from nearmetal.errors import BadInput
from nearmetal.model import SYSCTL_NAME, Description, Handle, KernelTable, Port, Study, is_per_namespace
from nearmetal.planning import plan
from nearmetal.planning.plan import digest_study
from nearmetal.run.kernel_alignment import find_reach, is_of_study, list_left, parse_sysctls
from nearmetal.store.manifest import pack_plan, unpack_plan
from nearmetal.study import study_file
from nearmetal.study.kernel_table import TABLE
from tests.unit.study_text import refused


def text(more: str = "", environments: str = '"host", "qemu"', clients: str = "") -> str:
    return f"""name = "s"
[factors]
environment = [{environments}]
[clients]
{clients}
[[workloads]]
name = "w"
kind = "ping"
{more}"""


def test_the_scope_of_each_value_of_the_table_is_that_of_its_name() -> None:
    for one in TABLE.values:
        assert re.fullmatch(SYSCTL_NAME, one.name) and one.why and one.source
        assert (one.scope == "namespace") == is_per_namespace(one.name), one.name
        assert one.value == " ".join(one.value.split())
    assert len({one.name for one in TABLE.values}) == len(TABLE.values)


def test_a_file_that_says_nothing_is_aligned_and_a_kept_study_is_not() -> None:
    new = study_file.read(text(), "s.toml")
    assert new.kernel.align == "network" and plan.make_plan(new).kernel_table == TABLE
    assert {one.align for one in plan.make_plan(new).resolved} == {"network"}
    document = new.model_dump(mode="json")
    del document["kernel"]
    kept = Study.from_json(document)
    assert kept.kernel.align == "off" and plan.make_plan(kept).kernel_table is None
    off = study_file.read(text('[kernel]\nalign = "off"'), "s.toml")
    assert digest_study(off) == digest_study(kept) != digest_study(new)


def test_a_plan_keeps_the_table_that_it_was_made_with() -> None:
    table = KernelTable(version=9, values=TABLE.values[:1])
    made = plan.make_plan(study_file.read(text(), "s.toml")).model_copy(update={"kernel_table": table})
    assert unpack_plan(pack_plan(made)).kernel_table == table


def test_sysctls_are_written_with_dots_or_in_quotes_and_as_numbers_or_texts() -> None:
    for written in ('net.ipv4.tcp_rmem = "4096  8192\\t16384"', '"net.ipv4.tcp_rmem" = "4096 8192 16384"'):
        fixed = study_file.read(text(f"[kernel.sysctl]\n{written}\nnet.ipv4.tcp_sack = 0"), "s.toml")
        assert fixed.kernel.sysctl == {"net.ipv4.tcp_rmem": "4096 8192 16384", "net.ipv4.tcp_sack": "0"}
        assert plan.make_plan(fixed).resolved[0].sysctls == fixed.kernel.sysctl
        assert Study.from_json(fixed.model_dump(mode="json")) == fixed


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ('[kernel]\nalign = "all"', "align"),
        ("[kernel.sysctl]\nnet.ipv4.tcp_sack = true", "a whole number or a text"),
        ('[kernel.sysctl]\n"--system" = 1', "sysctl"),
        ("[kernel.sysctl]\nvm.swappiness = 1", "belongs to the kernel as a whole"),
        ("[kernel.sysctl]\nnet.core.default_qdisc = 'fq'", "cannot be set on the server"),
        ('[factors.q]\nlevels = [1, 2]\nsets = "sysctl.net.ipv4.tcp_mem"', "as a whole"),
        ('[factors.q]\nlevels = [1.5, 2.5]\nsets = "sysctl.net.ipv4.tcp_sack"', "a whole number or a text"),
        ('[factors.q]\nlevels = [1, 2]\nsets = "sysctl.tcp_sack --system"', "names no sysctl"),
    ],
)
def test_what_cannot_be_set_is_refused_before(more: str, what: str) -> None:
    error = refused(text(more))
    assert what in f"{error.what} {error.remedy}", error
    assert error.where.startswith("s.toml:"), error.where


def test_what_belongs_to_a_kernel_can_be_set_where_all_have_their_own() -> None:
    more = '[factors.q]\nlevels = [10, 60]\nsets = "sysctl.vm.swappiness"'
    study_file.read(text(more, environments='"qemu"', clients='environment = "qemu"'), "s.toml")
    with pytest.raises(BadInput, match="client"):
        study_file.read(text(more, environments='"qemu"'), "s.toml")


def test_what_sysctl_prints_is_read_with_single_spaces() -> None:
    assert parse_sysctls("net.ipv4.tcp_rmem = 4096\t131072\t6291456\nnet.core.somaxconn = 4096\n") == {
        "net.ipv4.tcp_rmem": "4096 131072 6291456",
        "net.core.somaxconn": "4096",
    }
    assert parse_sysctls("") == {}


@dataclass
class FakeMachine:
    boot_id: str
    owned: bool = True
    site: Any = field(default_factory=lambda: SimpleNamespace(boot_id="host"))


@pytest.mark.parametrize(
    ("machine", "description", "port", "reach", "is_ours"),
    [
        # A chroot or a container on the lab's switch; a client that has its host's network; gVisor.
        (
            FakeMachine("host+1"),
            Description(family="metal", kernel="host", placement="switch"),
            True,
            "namespace",
            True,
        ),
        (FakeMachine("host+1"), Description(family="metal", kernel="host", placement="switch"), False, "nothing", True),
        (
            FakeMachine("own"),
            Description(family="container", kernel="emulated", placement="switch"),
            True,
            "nothing",
            True,
        ),
        # A guest of ours; the user's domain, box and machine.
        (FakeMachine("own"), Description(family="guest", kernel="own", placement="switch"), True, "kernel", True),
        (
            FakeMachine("own", owned=False),
            Description(family="guest", kernel="own", placement="switch", is_one=True),
            True,
            "kernel",
            False,
        ),
        (FakeMachine("own"), Description(family="guest", kernel="own", placement="elsewhere"), False, "kernel", False),
        (
            FakeMachine("host", owned=False),
            Description(family="unknown", kernel="own", placement="host", is_one=True),
            False,
            "kernel",
            False,
        ),
    ],
)
def test_what_can_be_set_where_and_what_the_table_leaves_alone(
    machine: Any, description: Description, port: bool, reach: str, is_ours: bool
) -> None:
    place = Port(address="10.0.0.1", prefix=24, mac="", switch="s", outside="o") if port else None
    assert find_reach(machine, description, Handle(kind="k", name="n", site="s", port=place)) == reach
    assert is_of_study(machine, description) == is_ours


def test_a_factor_sets_all_keys_of_a_list() -> None:
    """Of one table and of several, sysctls with keys too; a level has to fit each of them."""
    listed = """
[factors.busy]
levels = [0, 50]
sets = ["sysctl.net.ipv4.tcp_sack", "sysctl.net.ipv4.tcp_ecn"]
[factors.one]
levels = ["0", "1"]
sets = ["machine.cpus", "clients.cpus", "sysctl.net.ipv4.tcp_fastopen"]
"""
    found = study_file.read(text(listed), "s.toml")
    (resolved,) = (
        one
        for one in plan.make_plan(found).resolved
        if one.assignment == {"environment": "host", "busy": 50, "one": "1"}
    )
    assert resolved.sysctls == {
        "net.ipv4.tcp_sack": "50",
        "net.ipv4.tcp_ecn": "50",
        "net.ipv4.tcp_fastopen": "1",
    }
    assert (resolved.server.cpus, resolved.clients.cpus) == ("1", "1")
    made = plan.make_plan(found)
    assert unpack_plan(pack_plan(made)) == made


@pytest.mark.parametrize(
    ("sets", "what"),
    [
        ('["machine.vcpus", "machine.nowhere"]', "names nothing that can be set"),
        ('["sysctl.net.ipv4.tcp_sack", "sysctl.net.ipv4.tcp_sack"]', "twice"),
        ('["sysctl.net.ipv4.tcp_sack", "machine.memory"]', "has no unit"),
        ("[]", "sets"),
    ],
)
def test_a_list_of_keys_that_cannot_be_set_together_is_refused(sets: str, what: str) -> None:
    error = refused(text(f"[factors.q]\nlevels = [1, 2]\nsets = {sets}"))
    assert what in f"{error.what} {error.remedy}", error


def test_a_refusal_that_routes_make_up_for_is_no_reason() -> None:
    cubic = "nm-1: sysctl net.ipv4.tcp_congestion_control could not be set to 'cubic': Operation not permitted"
    elsewhere = cubic.replace("nm-1", "nm-2")
    other = "nm-1: sysctl net.ipv4.tcp_sack could not be set to '7': Invalid argument"
    assert list_left([cubic, elsewhere, other], {"nm-1"}) == [elsewhere, other]
