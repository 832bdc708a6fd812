"""A lab of hosts: a server and its clients on as many hosts, joined by a hub of tunnels."""

import asyncio
import contextlib
import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from nearmetal.lab import probe
from nearmetal.lab.host_lock import _NAME, FOLDER, HOLDER
from nearmetal.model import TrialRecord, TrialStatus
from nearmetal.store.journal import read_records
from nearmetal.store.run_folder import RunFolder
from tests.conftest import SHARED_CACHE
from tests.waiting import until, wait_until

from .far_host import FarHost
from .two_hosts import Login, Pair, ip

pytestmark = pytest.mark.live

_LIMIT = 2 * 3600
"""Seconds: the study says twenty minutes on two cores that nothing else uses."""

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
    return list(read_records(RunFolder(run).journal))


@pytest.mark.long
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
    assert trunk["ways"] == {
        name: f"{name} cable {far.address} > local cable 10.112.0.1" for name, far in zip(NAMES, room.fars, strict=True)
    }
    carried_by_all(record)
    throughput = record.responses["throughput"]
    assert throughput.by_client is not None and len(throughput.by_client) == 5
    assert all(value > 0 for value in throughput.by_client)
    assert room.left() == []


def carried_by_all(record: TrialRecord) -> None:
    """Each client's requests and replies crossed the way of its host, and nothing else crossed it."""
    carried, share = record.observers["trunk"]["carried"], record.responses["throughput"].by_client
    assert share is not None and carried.keys() >= set(NAMES)
    replied = [402 * share[number] / 2 for number in range(5)]  # bytes of bodies in half a second
    assert all(carried[name]["received"] > replies for name, replies in zip(NAMES, replied, strict=True)), carried
    assert all(carried[name]["sent"] > 0 for name in NAMES), carried


@pytest.mark.long
async def test_clients_on_the_hosts_own_network(room: Pair, tmp_path: Path) -> None:
    """With packets as large as its interfaces carry, which stay as they are."""
    for number, far in enumerate(room.fars):
        ip("-netns", room.near, "link", "set", f"cable{number}", "mtu", "3000")
        far.run("ip", "link", "set", "cable", "mtu", "3000")
    ip("-netns", room.near, "link", "set", "cable", "mtu", "3000")
    shown = room.fars[0].run("ip", "-details", "link", "show", "dev", "cable")
    text = STUDY.replace("HOSTS", tables(room).replace("[hosts.c1]\n", '[hosts.c1]\ninterface = "cable"\n'))
    text = text.replace("[machine]", '[link]\nswitch = "direct"\n[machine]')
    file, run = tmp_path / "direct.toml", tmp_path / "run"
    file.write_text(text)
    status, _, stderr = await room.nearmetal("run", str(file), "--quick", "-o", str(run))
    assert status == 0, stderr
    (record,) = records_of(run)
    assert record.status is TrialStatus.OK, record.reason
    told = record.readback["trunk"]
    assert (told["by"], told["mtu"], told["overhead"]) == ("direct", 3000, 0)
    assert {(one["name"], one["mtu"]) for one in told["interfaces"].values()} == {("cable", 3000)}
    assert all(told["interfaces"][name]["offloads"] for name in NAMES), told
    assert told["ends"].keys() == {"local", *NAMES}
    carried_by_all(record)
    assert room.fars[0].run("ip", "-details", "link", "show", "dev", "cable") == shown
    assert room.left() == []


def written_lab(room: Pair, folder: Path, first: str = "server") -> Path:
    """The near host is not in it: its first host takes servers, the others clients."""
    file, roles = folder / "lab.toml", [first, *["client"] * 4]
    told = zip(NAMES, room.fars, roles, strict=True)
    file.write_text(
        "".join(
            f'[hosts.{name}]\nssh = "{far.ssh}"\nroles = ["{role}"]\ntags = ["room"]\ninterface = "cable"\n'
            for name, far, role in told
        )
    )
    return file


async def test_a_labs_hosts_are_asked_at_once_and_those_that_cannot_be_used_are_told(
    room: Pair, tmp_path: Path, login: Login
) -> None:
    lab = written_lab(room, tmp_path)
    status, stdout, stderr = await room.nearmetal("doctor", "--lab", str(lab), "--json")
    assert status == 0, stdout + stderr
    told = json.loads(stdout)
    assert [host["name"] for host in told["hosts"]] == list(NAMES)
    for host in told["hosts"]:
        found = {one["what"]: one for one in host["findings"]}
        assert all(found[what]["ok"] for what in ("login", "host", "CPUs", "memory", "clock")), found
        assert ("way" in found) == (host["name"] != "c1")
        assert not found["docker"]["ok"], "containers are made on the controller's host alone"
    with lab.open("a") as file:
        file.write('[hosts.away]\nssh = "root@10.112.0.2:2222"\n[hosts.odd]\nssh = "root@10.112.0.77"\n')
    status, stdout, _ = await room.nearmetal("doctor", "--lab", str(lab))
    assert status == 3
    assert "away: login:" in stdout and "odd: login:" in stdout and "remedy:" in stdout
    rows = [line for line in stdout.splitlines() if line.startswith(("host ", *NAMES))]
    assert any("yes" in row for row in rows), stdout
    assert "Traceback" not in stdout
    # One whose key has changed.
    known = login[0].folder / "known_hosts"
    one, other = room.fars[0].known, room.fars[1].known
    swapped = f"{one.split()[0]} {other.split(maxsplit=1)[1]}"
    known.write_text(known.read_text().replace(one.strip(), swapped.strip()))
    status, stdout, _ = await room.nearmetal("doctor", "--lab", str(written_lab(room, tmp_path)), "--json")
    assert status == 3
    (login_of_first, *_), *others = [host["findings"] for host in json.loads(stdout)["hosts"]]
    assert not login_of_first["ok"] and "host key" in login_of_first["detail"] and login_of_first["remedy"]
    assert all(findings[0]["ok"] for findings in others)


@pytest.mark.long
async def test_a_study_without_hosts_runs_in_the_lab(room: Pair, tmp_path: Path) -> None:
    """And `clean` tells of what no ledger knows there, and leaves it; and the run goes on without the lab's file."""
    file, run = tmp_path / "anywhere.toml", tmp_path / "run"
    text = STUDY.replace('host = ["c1", "c2", "c3", "c4", "c5"]\nHOSTS', "count = 2")
    file.write_text(text.replace("blocks = 1", "blocks = 2"))
    lab = written_lab(room, tmp_path)
    status, _, stderr = await room.nearmetal("run", str(file), "--quick", "--lab", str(lab), "-o", str(run))
    assert status == 0, stderr
    for record in records_of(run):
        assert record.status is TrialStatus.OK, record.reason
        assert [one.host for one in record.machines] == ["c1", "c2", "c3"]
        assert record.readback["trunk"]["ends"] == {"c1": "10.112.0.2", "c2": "10.112.0.3", "c3": "10.112.0.4"}
    assert room.left() == []
    room.fars[2].run("ip", "netns", "add", "nm-abcdef-c3")
    try:
        status, stdout, stderr = await room.nearmetal("clean", "--lab", str(lab), "--json")
        assert status == 3, stderr
        # These hosts are one, and other tests measure on it at the same time.
        left = [one for one in json.loads(stdout)["left"] if "nm-abcdef" in one]
        assert left == [
            "/run/netns/nm-abcdef-c3 on c3 (in no ledger of this host: another's, or its ledger is lost)",
        ]
        assert "nm-abcdef-c3" in room.fars[2].run("ip", "netns", "list")
    finally:
        room.fars[2].run("ip", "netns", "delete", "nm-abcdef-c3")
    assert "nm-abcdef" not in (await room.nearmetal("clean", "--lab", str(lab), "--json"))[1]
    lab.unlink()
    status, _, stderr = await room.nearmetal("resume", str(run))
    assert status == 0, stderr


def is_held(far: FarHost) -> bool:
    """Without having the lock for an instant, which would keep others out."""
    return "somebody" not in far.run("sh", "-c", f"({_NAME}) || true", "look", FOLDER, HOLDER)


@contextlib.contextmanager
def measured_from_there(far: FarHost, holder: str) -> Iterator[None]:
    """As a run on that host itself keeps it."""
    there = [str(probe.path()), "launch", "--enter", str(far.first), "--", "env", f"{HOLDER}={holder}"]
    with subprocess.Popen([*there, "flock", "-s", FOLDER, "cat"], stdin=subprocess.PIPE) as local_run:
        wait_until(lambda: is_held(far))
        yield
        assert local_run.stdin is not None
        local_run.stdin.close()


async def test_a_host_is_one_runs_at_a_time(room: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also against a run on that host itself. Runs of several homes on one host may go on beside each other."""
    text = STUDY.replace("HOSTS", tables(room))
    first, second = tmp_path / "first.toml", tmp_path / "second.toml"
    # It takes its time, and next to no CPU.
    lasting = text.replace('"0.5s"', '"20s"').replace("workers = 2", 'mode = "open"\nrate = 20')
    first.write_text(lasting.replace('"c1", "c2", "c3", "c4", "c5"', '"c1", "c2"'))
    second.write_text(text.replace('"c1", "c2", "c3", "c4", "c5"', '"c3", "c2"'))
    running = asyncio.ensure_future(room.nearmetal("run", str(first), "--quick", "-o", str(tmp_path / "one")))
    await until(lambda: running.done() or is_held(room.fars[1]))
    assert not running.done(), await running
    with monkeypatch.context() as other_home:
        home = tmp_path / "other"
        home.mkdir()
        (home / "cache").symlink_to(SHARED_CACHE)
        other_home.setenv("NEARMETAL_HOME", str(home))
        asked = ("run", str(second), "--quick", "-o", str(tmp_path / "two"))
        status, _, stderr = await room.nearmetal(*asked)
    assert status == 3, stderr
    assert "host c2" in stderr and "measures on it" in stderr and "(process" in stderr, stderr
    assert "wait until that ends" in stderr
    assert not is_held(room.fars[2]), "what is refused lets go of the others"
    status, _, stderr = await running
    assert status == 0, stderr
    assert not is_held(room.fars[1])
    with measured_from_there(room.fars[1], "ann on c2"):
        status, _, stderr = await room.nearmetal(*asked)
        assert status == 3 and "ann on c2 measures on it" in stderr, stderr
    assert room.left() == []


async def run_published(room: Pair, folder: Path, *changed: str) -> Mapping[int, list[TrialRecord]]:
    """The study after the fourth published one, by its quick version, from the near host, where its servers are.

    Its records by their number of clients.
    """
    lab, run = written_lab(room, folder, "client"), folder / "run"
    asked = ("run", "shared-network", "--quick", "--lab", str(lab), "-o", str(run), *changed)
    status, stdout, stderr = await room.nearmetal(*asked, limit=_LIMIT)
    # Whether figures decide something, and whether generators are in time on a busy host, is not asked here.
    assert status in (0, 1), stdout + stderr
    assert (run / "report.html").exists()
    assert room.left() == []
    by_count: dict[int, list[TrialRecord]] = {}
    for record in records_of(run):
        count = record.trial.treatment["clients"]
        assert isinstance(count, int)
        assert record.blame != "treatment", record.reason
        assert [one.host for one in record.machines] == ["local", *NAMES[:count]]
        assert record.readback["trunk"]["ends"].keys() == {"local", *NAMES[:count]}
        if record.status is TrialStatus.OK:
            # Namespaces of one kernel have one clock.
            assert {name: one.offset for name, one in record.host_clocks.items()} == dict.fromkeys(
                NAMES[:count], (0, 0)
            )
        by_count.setdefault(count, []).append(record)
    return by_count


@pytest.mark.long
async def test_the_published_server_and_its_five_client_hosts(room: Pair, tmp_path: Path) -> None:
    """For a moment: one block, without guests."""
    short = [f"workloads.{name}={value}" for name, value in (("tcp.duration", "1s"), ("udp.duration", "1s"))]
    short += ["workloads.heavy.to=2", "workloads.heavy.per_step=1s", 'factors.environment=["host"]']
    found = await run_published(room, tmp_path, "--blocks", "1", *(word for one in short for word in ("--set", one)))
    assert found.keys() == {1, 2, 5}
    assert all({one.trial.workload for one in those} == {"tcp", "udp", "heavy"} for those in found.values())
    for record in found[5]:
        if record.trial.workload == "tcp":
            assert record.status is TrialStatus.OK, record.reason
            bandwidth = record.responses["bandwidth"].by_client
            assert bandwidth is not None and len(bandwidth) == 5 and min(bandwidth) > 0


@pytest.mark.long
async def test_the_published_topology_whole(room: Pair, tmp_path: Path) -> None:
    found = await run_published(room, tmp_path)
    assert found.keys() == {1, 2, 5}
    trials = [record for those in found.values() for record in those]
    assert {record.trial.treatment["environment"] for record in trials} == {"host", "qemu"}
    assert sum(record.status is TrialStatus.OK for record in trials) > len(trials) / 2
