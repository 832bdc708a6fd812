"""Who gets which CPUs in a boot, on a host that is told of by files; and what is noted of that."""

from collections.abc import Sequence
from typing import Any, cast

import pytest

from nearmetal.lab.cpus.allocation import Share
from nearmetal.lab.lab import Lab
from nearmetal.lab.local_site import LocalSite
from nearmetal.model import Completed
from nearmetal.run import machine_creation
from nearmetal.run.boot_state import ProvisionedBoot
from nearmetal.study.resolve import resolve_treatments
from nearmetal.study.study_file import read

STUDY = """
name = "placed"
[factors]
environment = ["host"]
[machine]
{machine}
[clients]
environment = "host"
{clients}
[[workloads]]
name = "web"
kind = "http"
"""


class Host(LocalSite):
    """Eight threads of four cores."""

    async def exec(self, argv: Sequence[str], **more: Any) -> Completed:
        if argv[0] == "sh":
            return Completed(status=0, stdout="".join(f"core {cpu},{cpu + 4}\n" for cpu in range(4)).encode())
        return Completed(status=0, stdout=b"Cpus_allowed_list:\t0-7\n0-7\n")


class Hosts:
    async def site(self, name: str) -> Host:
        return Host()


def booted(machine: str = "", clients: str = "") -> ProvisionedBoot:
    study = read(STUDY.format(machine=machine, clients=clients), "s.toml")
    (resolved,) = resolve_treatments(study)
    return ProvisionedBoot(resolved)


@pytest.mark.parametrize(
    ("machine", "clients", "expected", "codes"),
    [
        ("vcpus = 4", "", Share(("2-3,6-7",), "0-1,4-5"), []),
        ('cpus = "4-7"\nvcpus = 4', "", Share(("4-7",), "0-3"), ["cores-shared"]),
        ("vcpus = 4", 'cpus = "0,2"', Share(("2-3,6-7",), "0,2"), []),
        ('cpus = "0,4"\nvcpus = 2', 'cpus = "1,5"', Share(("0,4",), "1,5"), []),
        ('cpus = "0-1"\nvcpus = 2', 'cpus = "5-6"', Share(("0-1",), "5-6"), ["cores-shared"]),
    ],
)
async def test_cores_that_servers_and_clients_share_are_noted(
    machine: str, clients: str, expected: Share, codes: list[str]
) -> None:
    one = booted(machine, clients)
    assert await machine_creation.share_out(one, cast(Lab, Hosts())) == expected
    assert [warning.code for warning in one.warnings] == codes
