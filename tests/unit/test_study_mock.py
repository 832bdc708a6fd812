"""Machines that are pretended (mock): what they are called, and that none stands beside a real one."""

import pytest

from nearmetal.study import study_file
from tests.unit.study_text import GOOD, refused


def test_a_table_called_after_a_kind_is_of_that_kind_unless_it_names_another() -> None:
    text = GOOD.replace("[environments.slow]\nkind", "[environments.mock]\nspeed = 0.9\n[environments.host]\nkind")
    text = text.replace('"slow"', '"mock", "host"', 1).replace('environment = "slow"', 'environment = "host"')
    read = study_file.read(text, "s.toml")
    assert (read.environment("mock").kind, read.environment("mock").options) == ("mock", {"speed": 0.9})
    assert (read.environment("host").kind, read.environment("host").options) == ("mock", {"speed": 0.5})
    set_by_hand = study_file.read(GOOD, "s.toml", ["environments.mock.speed=0.7"])
    assert set_by_hand.environment("mock").options == {"speed": 0.7}


@pytest.mark.parametrize(
    ("levels", "more", "clients"),
    [
        ("['mock']", "", "mock"),
        ("['slow']", "[environments.slow]\nkind = 'mock'", "mock"),
        ("['mock']", "[clients]\ncount = 2", "mock"),
        ("['host']", "", "host"),
        ("['mock']", "[clients]\nenvironment = 'other'\n[environments.other]\nkind = 'mock'", "other"),
    ],
)
def test_clients_are_pretended_where_every_machine_under_test_is(levels: str, more: str, clients: str) -> None:
    workload = "[[workloads]]\nname = 'w'\nkind = 'http'\n"
    read = study_file.read(f"name = 'x'\n[factors]\nenvironment = {levels}\n{more}\n{workload}", "x.toml")
    assert read.clients.environment == clients


@pytest.mark.parametrize(
    ("levels", "more", "line", "named"),
    [
        ("['mock', 'host']", "", 3, ("'mock'", "'host'")),
        ("['host', 'slow']", "[environments.slow]\nkind = 'mock'", 3, ("'slow'", "'host'")),
        ("['host']", "[clients]\nenvironment = 'mock'", 5, ("'mock'", "'host'")),
        ("['mock']", "[clients]\nenvironment = 'host'", 5, ("'mock'", "'host'")),
        ("['mock']", "[factors.at]\nlevels = ['mock', 'host']\nsets = 'clients.environment'", 1, ()),
    ],
)
def test_pretended_machines_are_not_put_beside_real_ones(
    levels: str, more: str, line: int, named: tuple[str, ...]
) -> None:
    workload = "[[workloads]]\nname = 'w'\nkind = 'http'\n"
    error = refused(f"name = 'x'\n[factors]\nenvironment = {levels}\n{more}\n{workload}")
    assert f":{line}" in error.where and "pretended machine (mock)" in error.what
    assert all(name in error.what for name in named)
