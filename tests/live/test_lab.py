"""A lab of hosts: a server and its clients on as many hosts, joined by a hub of tunnels."""

from pathlib import Path

import pytest

from nearmetal.model import TrialRecord, TrialStatus
from nearmetal.store.folder import RunFolder
from nearmetal.store.journal import records

from .two_hosts import Pair

pytestmark = pytest.mark.live

NAMES = ("c1", "c2", "c3", "c4", "c5")

STUDY = """
name = "lab"
[factors]
environment = ["host"]
[machine]
memory = "128MiB"
[clients]
host = ["c1", "c2", "c3", "c4", "c5"]
HOSTS
[[workloads]]
name = "web"
kind = "http"
workers = 2
warmup = "0.1s"
duration = "2s"
[design]
blocks = 1
[quick]
[[quick.workloads]]
name = "web"
duration = "0.5s"
"""


def tables(room: Pair) -> str:
    return "".join(f'[hosts.{name}]\nssh = "{far.ssh}"\n' for name, far in zip(NAMES, room.fars, strict=True))


def records_of(run: Path) -> list[TrialRecord]:
    return list(records(RunFolder(run).journal))


async def test_clients_on_five_hosts_load_one_server(room: Pair, tmp_path: Path) -> None:
    file, run = tmp_path / "lab-study.toml", tmp_path / "run"
    file.write_text(STUDY.replace("HOSTS", tables(room)))
    status, _, stderr = await room.nearmetal("run", str(file), "--quick", "-o", str(run))
    assert status == 0, stderr
    (record,) = records_of(run)
    assert record.status is TrialStatus.OK, record.reason
    assert [(one.role, one.host) for one in record.machines] == [
        ("server", "local"),
        *(("client", name) for name in NAMES),
    ]
    trunk = record.readback["trunk"]
    assert (trunk["by"], trunk["mtu"], trunk["overhead"]) == ("vxlan", 1400, 50)
    addresses = {"local": "10.112.0.1"} | {name: far.address for name, far in zip(NAMES, room.fars, strict=True)}
    assert trunk["ends"] == addresses
    throughput = record.responses["throughput"]
    assert throughput.by_client is not None and len(throughput.by_client) == 5
    assert all(value > 0 for value in throughput.by_client)
    assert room.left() == []
