"""Machines and studies on hosts beside this one: a real sshd in namespaces of its own is one."""

import asyncio
import csv
import json
import os
import random
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

from nearmetal import plugins
from nearmetal.errors import MachineLost, NotProvisioned, TimedOut
from nearmetal.lab import probe
from nearmetal.lab.changes.ledger import Ledger, ledgers_folder, new_token
from nearmetal.lab.clocks import ClockWatch
from nearmetal.lab.lab import Lab
from nearmetal.lab.local_site import LocalSite, list_available_cpus
from nearmetal.lab.networks import trunk
from nearmetal.lab.site_registry import Sites
from nearmetal.lab.ssh.ssh_site import SshSite
from nearmetal.model import EnvironmentSpec, Handle, HostSpec, Machine, MachineSpec, TrialRecord, TrialStatus
from nearmetal.run import verify
from nearmetal.store.journal import read_records
from nearmetal.store.run_folder import RunFolder
from nearmetal.studies.published.figures import find_published
from nearmetal.study.resolve import resolve_alone
from tests import libvirt_service
from tests.waiting import until

from .far_host import FarHost
from .leftovers import stays
from .two_hosts import Login, Pair

pytestmark = pytest.mark.live

SPEC = MachineSpec(memory=256 * 2**20)
BINARY = bytes(range(256)) * 64


# ── Machines on a host by SSH ─────────────────────────────────────────────────────────────────────────────────────


@pytest_asyncio.fixture
async def lab(far: FarHost) -> AsyncIterator[Lab]:
    """With this host and the far one."""
    token = new_token()
    ledger = Ledger(ledgers_folder() / f"{token}.jsonl")
    sites = Sites({"far": HostSpec(ssh=far.ssh)}, print)
    made = Lab(token, ledger, sites)
    try:
        yield made
    finally:
        left = await made.close()
        ledger.close()
        await sites.aclose()
    assert left == []
    assert stays(token) == []
    assert token not in far.run("ip", "netns", "list")
    assert not list((far.folder / "state").glob("machines/*"))


async def made_on(lab: Lab, name: str) -> tuple[Handle, Machine]:
    site = await lab.site(name)
    cpus = str((await list_available_cpus(site))[-1])
    handle = await lab.create(resolve_alone(EnvironmentSpec(kind="host"), SPEC), SPEC, "server", cpus, site)
    return handle, await lab.attach(handle)


async def test_check_finds_what_the_far_host_has(lab: Lab) -> None:
    environment = plugins.load("environments", "host")
    findings = await environment.check(EnvironmentSpec(kind="host"), SPEC, await lab.site("far"))
    assert [finding for finding in findings if not finding.ok] == []
    findings = await environment.check(
        EnvironmentSpec(kind="host"), MachineSpec(image="none", vcpus=4096), await lab.site("far")
    )
    assert {finding.what for finding in findings if not finding.ok} == {"image none", "4096 CPUs"}


async def test_a_machine_there_is_as_one_here(lab: Lab, far: FarHost) -> None:
    handle, machine = await made_on(lab, "far")
    ended = await machine.exec(["sh", "-c", "cat; echo err >&2; exit 7"], stdin=BINARY, env={"A": "b"})
    assert (ended.status, ended.stdout, ended.stderr) == (7, BINARY, b"err\n")
    assert (await machine.exec(["no-such-program"])).status == 127
    assert (await machine.exec(["hostname"])).text.strip() == machine.name
    await machine.put(BINARY, "/tmp/new folder/a", mode=0o750)
    assert await machine.get("/tmp/new folder/a") == BINARY
    with pytest.raises(TimedOut):
        await machine.exec(["sleep", "61"], timeout=0.5)
    going = await machine.spawn(["sleep", "62"])
    assert (await going.stop()).status != 0
    cost = await machine.cost()
    assert cost is not None and cost.cpu_seconds > 0
    await probe.ensure(machine)
    facts = json.loads((await machine.exec([machine.probe, "facts", "--json"])).stdout)
    assert verify.verify_resources(SPEC, facts, handle).ok
    environment = plugins.load("environments", "host")
    await environment.destroy(handle, machine.site)
    with pytest.raises(MachineLost):
        await machine.exec(["true"])
    await environment.destroy(handle, machine.site)


async def test_a_machine_there_ends_with_the_connection(lab: Lab, far: FarHost) -> None:
    handle, machine = await made_on(lab, "far")
    site = machine.site
    assert isinstance(site, SshSite)
    site.connection.abort()
    with pytest.raises(MachineLost):
        for _ in range(100):
            await machine.exec(["true"])
            await asyncio.sleep(0.05)
    with pytest.raises(NotProvisioned):
        await lab.attach(handle)


async def test_clocks_of_sites_are_compared_while_something_goes_on(lab: Lab) -> None:
    """As if they had two: what asks or answers on the far one is begun and ended by SSH."""
    here, there = await lab.site("local"), await lab.site("far")
    there.boot_id = "another"
    for center, other in ((here, there), (there, here)):
        watch = await ClockWatch.start(center, [other], 30)
        await asyncio.sleep(1)
        found = await watch.stop()
        assert found.keys() == {other.name}
        assert found[other.name].least_ns <= 0 <= found[other.name].most_ns, "they have one clock in truth"
        assert found[other.name].uncertainty_ns > 0


# ── Studies over two hosts ────────────────────────────────────────────────────────────────────────────────────────

STUDY = """
name = "hosts"
reference = { hosts = "local", environment = "host" }
[factors]
environment = ["host"]
[factors.hosts]
levels = ["local", "far"]
sets = "machine.host"
[machine]
memory = "128MiB"
[hosts.far]
ssh = "FAR"
[[workloads]]
name = "web"
kind = "http"
workers = 2
warmup = "0.1s"
duration = "0.5s"
[design]
blocks = 1
"""


def written(folder: Path, pair: Pair, text: str = STUDY) -> Path:
    file = folder / "study.toml"
    file.write_text(text.replace("FAR", pair.far.ssh))
    return file


def found_in(folder: Path) -> list[TrialRecord]:
    return list(read_records(RunFolder(folder).journal))


@pytest.mark.parametrize(("tunnel", "overhead"), [("vxlan", 50), ("gre", 42)])
async def test_a_study_compares_one_host_with_two(
    pair: Pair, tmp_path: Path, tunnel: trunk.Tunnel, overhead: int
) -> None:
    if not await trunk.kernel_has(tunnel, LocalSite()):
        pytest.skip(f"this kernel has no {tunnel}; `make rig` tries it where the kernel has")
    run = tmp_path / "run"
    text = STUDY.replace("[design]", f'[link]\ntunnel = "{tunnel}"\n[design]')
    status, _, stderr = await pair.nearmetal("run", str(written(tmp_path, pair, text)), "-o", str(run))
    assert status == 0, stderr
    by_host = {str(record.trial.treatment["hosts"]): record for record in found_in(run)}
    assert by_host.keys() == {"local", "far"}
    assert by_host["local"].readback["trunk"] == {"by": "none", "mtu": 1400}
    told = by_host["far"].readback["trunk"]
    assert (told["by"], told["mtu"], told["overhead"]) == (tunnel, 1400, overhead)
    assert told["ends"] == {"local": "10.112.0.1", "far": "10.112.0.2"}
    assert all(record.status is TrialStatus.OK for record in by_host.values())
    assert all(record.responses["throughput"].value > 0 for record in by_host.values())
    assert by_host["far"].site == "far"
    assert pair.left() == []


@pytest.mark.parametrize(
    ("switch", "by", "mtu"), [("bridge", "vxlan", 1400), pytest.param("direct", "direct", 1500, marks=pytest.mark.long)]
)
async def test_a_shaped_link_lies_before_the_way_between_hosts(
    pair: Pair, tmp_path: Path, switch: str, by: str, mtu: int
) -> None:
    text = STUDY.replace('levels = ["local", "far"]', 'levels = ["far"]').replace(
        "[design]", f'[link]\ndelay = "10ms"\nswitch = "{switch}"\n[design]'
    )
    text = text.replace('hosts = "local", ', "")
    run = tmp_path / "run"
    status, _, stderr = await pair.nearmetal("run", str(written(tmp_path, pair, text)), "-o", str(run))
    assert status == 0, stderr
    (record,) = found_in(run)
    assert (record.readback["trunk"]["by"], record.readback["trunk"]["mtu"]) == (by, mtu)
    assert record.readback["link"]["delay"] == 0.01
    # Timed, but only from below: no machine is ever too quick.
    assert record.responses["latency_p50"].value >= 0.02
    assert pair.left() == []


@pytest.mark.long
async def test_clients_elsewhere_than_the_servers(pair: Pair, tmp_path: Path) -> None:
    text = STUDY.replace('sets = "machine.host"', 'sets = "clients.host"')
    run = tmp_path / "run"
    status, _, stderr = await pair.nearmetal("run", str(written(tmp_path, pair, text)), "-o", str(run))
    assert status == 0, stderr
    assert all(record.status is TrialStatus.OK and record.site == "local" for record in found_in(run))
    assert len(found_in(run)) == 2


@pytest.mark.long
async def test_servers_and_clients_on_one_host_elsewhere(pair: Pair, tmp_path: Path) -> None:
    text = STUDY.replace("[hosts.far]", '[clients]\nhost = "far"\n[hosts.far]')
    run = tmp_path / "run"
    status, _, stderr = await pair.nearmetal("run", str(written(tmp_path, pair, text)), "-o", str(run))
    assert status == 0, stderr
    trunks = {str(record.trial.treatment["hosts"]): record.readback["trunk"]["by"] for record in found_in(run)}
    assert trunks == {"local": "vxlan", "far": "none"}
    assert all(record.status is TrialStatus.OK for record in found_in(run))
    assert pair.left() == []


@pytest.mark.parametrize("switch", [pytest.param("bridge", marks=pytest.mark.long), "direct"])
async def test_a_guest_on_another_host(pair_with_qemu: Pair, tmp_path: Path, switch: str) -> None:
    """Seconds, as it is emulated: its disk sent, its monitor and its sshd reached through the connection."""
    text = STUDY.replace('environment = ["host"]', 'environment = ["qemu"]').replace(
        'levels = ["local", "far"]', 'levels = ["far"]'
    )
    text = text.replace('hosts = "local", environment = "host"', 'environment = "qemu"').replace("128MiB", "256MiB")
    text = text.replace("[design]", f'[link]\nswitch = "{switch}"\n[design]')
    run = tmp_path / "run"
    status, _, stderr = await pair_with_qemu.nearmetal(
        "run", str(written(tmp_path, pair_with_qemu, text)), "-o", str(run)
    )
    assert status == 0, stderr
    (record,) = found_in(run)
    assert record.status is TrialStatus.OK, record.reason
    assert record.site == "far"
    assert record.readback["resources"]["accel"] in ("kvm", "tcg")
    assert record.readback["trunk"]["by"] == ("vxlan" if switch == "bridge" else "direct")
    assert record.responses["throughput"].value > 0
    assert pair_with_qemu.left() == []


@pytest.fixture
def engine_there(pair_with_qemu: Pair, tmp_path: Path) -> Iterator[FarHost]:
    """The far host with a Docker engine of its own at the usual place."""
    far = pair_with_qemu.far
    parent = f"nearmetal-engine-of-tests-{os.getpid()}"
    daemon = far.command(
        *("env", "--unset=TMPDIR", "dockerd"),  # a folder of this host
        *("--host", "unix:///run/docker.sock", "--data-root", "/var/lib/nearmetal/docker"),
        *("--bridge", "none", "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false"),
        *("--cgroup-parent", f"/{parent}"),
    )
    log = tmp_path / "dockerd.log"
    with log.open("wb") as said, subprocess.Popen(daemon, stdout=said, stderr=said) as process:
        try:
            far.run("timeout", "60", "sh", "-c", "until docker version >/dev/null 2>&1; do sleep 0.2; done")
            yield far
        finally:
            far.run("sh", "-c", "kill $(cat /run/docker.pid)")
            process.wait(60)
    subprocess.run(["find", "/sys/fs/cgroup", "-depth", "-path", f"*/{parent}*", "-type", "d", "-delete"], check=True)


@pytest.mark.long
async def test_a_container_on_another_host(engine_there: FarHost, pair_with_qemu: Pair, tmp_path: Path) -> None:
    """By that host's engine, which takes the image over through the connection; killed, it leaves nothing there."""
    text = STUDY.replace('environment = ["host"]', 'environment = ["host", "docker"]').replace(
        'levels = ["local", "far"]', 'levels = ["far"]'
    )
    text = text.replace('hosts = "local", ', "")
    study, run = str(written(tmp_path, pair_with_qemu, text)), tmp_path / "run"
    status, _, stderr = await pair_with_qemu.nearmetal("run", study, "-o", str(run), limit=600)
    assert status == 0, stderr
    host, docker = sorted(found_in(run), key=lambda one: one.trial.treatment["environment"] == "docker")
    assert docker.status is TrialStatus.OK, docker.reason
    assert (host.site, docker.site) == ("far", "far")
    assert docker.responses.keys() == host.responses.keys()
    trunks = [{**one.readback["trunk"], "carried": ""} for one in (host, docker)]
    assert trunks[0] == trunks[1]
    assert docker.responses["cpu_per_event"].value > 0
    assert pair_with_qemu.left() == []
    longer = text.replace('duration = "0.5s"', 'duration = "60s"').replace('["host", "docker"]', '["docker"]')
    longer = longer.replace('environment = "host"', 'environment = "docker"')
    study, killed = str(written(tmp_path, pair_with_qemu, longer)), tmp_path / "killed"
    await pair_with_qemu.nearmetal(
        *("run", study, "-o", str(killed)), kill_when=lambda: len(engine_there.run("docker", "ps", "--quiet").split())
    )
    status, said, stderr = await pair_with_qemu.nearmetal("clean")
    assert status == 0, f"{said}{stderr}"
    assert engine_there.run("docker", "ps", "--all", "--quiet") == ""
    assert pair_with_qemu.left() == []


OF_DOMAINS = STUDY.replace('"host"', '"libvirt"').replace("128MiB", "256MiB")
OF_DOMAINS_THERE = OF_DOMAINS.replace('["local", "far"]', '["far"]').replace('hosts = "local", ', "")


@pytest.fixture
def libvirt_there(pair_with_qemu: Pair) -> Iterator[FarHost]:
    """The far host with a libvirtd of its own at the usual place."""
    if lacking := libvirt_service.lacking():
        pytest.skip(f"libvirt cannot run here: {lacking}: apt-get install libvirt-daemon libvirt-clients")
    with libvirt_service.serving_there(pair_with_qemu.far):
        yield pair_with_qemu.far


@pytest.fixture
def libvirt_near(
    pair_with_qemu: Pair, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """The near host's, where a variable names it: there is none at the usual place."""
    with libvirt_service.libvirt_service(tmp_path_factory.mktemp("l"), pair_with_qemu.near) as uri:
        monkeypatch.setenv("LIBVIRT_DEFAULT_URI", uri)
        yield


def without_place(record: TrialRecord) -> Mapping[str, object]:
    """What is the same wherever and whenever a server was measured."""
    return {
        "ended": (record.status, record.reason, record.cause),
        "server": replace(record.machines[0], boot_id="", host=""),
        "family": record.observed_family,
        "readback": {**record.readback, "trunk": "", "cpus": record.readback["cpus"]["server-0"]},
        "responses": {name: (one.unit, one.better, one.scale) for name, one in record.responses.items()},
    }


@pytest.mark.long
async def test_a_domain_on_another_host(
    libvirt_there: FarHost, libvirt_near: None, pair_with_qemu: Pair, tmp_path: Path
) -> None:
    """Each by the libvirtd of its own host."""
    study, run = written(tmp_path, pair_with_qemu, OF_DOMAINS), tmp_path / "run"
    status, _, stderr = await pair_with_qemu.nearmetal("run", str(study), "-o", str(run), limit=600)
    assert status == 0, stderr
    here, there = sorted(found_in(run), key=lambda one: one.trial.treatment["hosts"] == "far")
    assert there.status is TrialStatus.OK, there.reason
    assert without_place(there) == without_place(here)
    assert (here.site, there.site) == ("local", "far")
    assert (here.readback["trunk"]["by"], there.readback["trunk"]["by"]) == ("none", "vxlan")
    assert there.responses["cpu_per_event"].value > 0
    assert domains(libvirt_there) == []
    assert pair_with_qemu.left() == []


@pytest.mark.long
async def test_killed_it_leaves_no_domain_on_another_host(
    libvirt_there: FarHost, pair_with_qemu: Pair, tmp_path: Path
) -> None:
    text = OF_DOMAINS_THERE.replace('duration = "0.5s"', 'duration = "60s"')
    study = str(written(tmp_path, pair_with_qemu, text))
    has_domain = partial(domains, libvirt_there)
    moments: list[Callable[[], object]] = [has_domain, *(after(has_domain, seconds) for seconds in (1, 4, 12))]
    for number, moment in enumerate(moments):
        run = str(tmp_path / f"run-{number}")
        status, _, stderr = await pair_with_qemu.nearmetal("run", study, "-o", run, kill_when=moment)
        assert status == -9, stderr
        status, said, stderr = await pair_with_qemu.nearmetal("clean")
        assert status == 0, f"{said}{stderr}"
        assert domains(libvirt_there) == []
        assert pair_with_qemu.left() == []


def domains(host: FarHost) -> list[str]:
    return host.run("virsh", "--connect", "qemu:///system", "--quiet", "list", "--all", "--name").split()


def after(sign: Callable[[], object], seconds: float) -> Callable[[], object]:
    """Whether a sign was seen, so long ago."""
    seen: list[float] = []

    def is_over() -> bool:
        if not seen and sign():
            seen.append(time.monotonic())
        return bool(seen) and time.monotonic() > seen[0] + seconds

    return is_over


@pytest.mark.long
async def test_a_host_without_a_libvirtd_is_told_before_the_run(pair_with_qemu: Pair, tmp_path: Path) -> None:
    """Whatever a variable says of this host."""
    run = tmp_path / "run"
    study = str(written(tmp_path, pair_with_qemu, OF_DOMAINS_THERE))
    status, _, stderr = await pair_with_qemu.nearmetal("run", study, "-o", str(run))
    assert status == 3, stderr
    assert "libvirt at qemu:///system: libvirt: failed to connect" in stderr
    assert "install libvirt-daemon-system), start it (systemctl start libvirtd)" in stderr
    assert not run.exists()
    lab = tmp_path / "lab.toml"
    lab.write_text(f'[hosts.far]\nssh = "{pair_with_qemu.far.ssh}"\n')
    _, said, _ = await pair_with_qemu.nearmetal("doctor", "--lab", str(lab))
    assert "far: libvirt: libvirt at qemu:///system: libvirt: failed to connect" in said


@pytest.mark.long
async def test_the_published_study_over_two_hosts(pair: Pair, tmp_path: Path) -> None:
    """A part of its quick version, for a moment: beside it stands what was published of several hosts."""
    run = tmp_path / "run"
    changed = (
        f"hosts.far.ssh={pair.far.ssh}",
        'factors.environment.levels=["host", "qemu"]',
        'factors.nic.levels=["virtio-net"]',
        "factors.offload.levels=[true]",
        "factors.workers.levels=[4]",
        "workloads.transactions.warmup=0.2s",
        "workloads.transactions.duration=1s",
    )
    settings = [word for one in changed for word in ("--set", one)]
    asked = ("run", "virtual-vs-physical-hosts", "--quick", "--blocks", "1", *settings, "-o", str(run))
    status, stdout, stderr = await pair.nearmetal(*asked)
    assert status == 0, stdout + stderr
    records = found_in(run)
    assert [record.status for record in records] == ["ok"] * 2
    assert all(record.readback["trunk"]["by"] == "vxlan" for record in records)
    counts = find_published("virtual-vs-physical-hosts")
    assert counts is not None
    of, against = ({"environment": name, "offloading": True, "workers": 4} for name in ("physical", "virtio"))
    with (run / "report" / "transactions-published.csv").open() as file:
        ratios = {float(row["published ratio"]) for row in csv.DictReader(file)}
    assert counts.compute_ratio("several-hosts", of, against) in ratios
    assert pair.left() == []


def list_holders(pair: Pair) -> set[str]:
    """Processes that have the lock of the far host, or wait with its folder open."""
    lines = pair.far.run("ps", "-eo", "pid,args").splitlines()
    return {line.split()[0] for line in lines if line.split()[1:] == ["sleep", "2147483647"]}


@pytest.mark.long
async def test_a_run_has_its_hosts_from_its_first_block_to_its_last(pair: Pair, tmp_path: Path) -> None:
    text = STUDY.replace("blocks = 1", "blocks = 3").replace('levels = ["local", "far"]', 'levels = ["far"]')
    file, run = written(tmp_path, pair, text.replace('hosts = "local", ', "")), tmp_path / "run"
    running = asyncio.ensure_future(pair.nearmetal("run", str(file), "-o", str(run)))
    seen: list[set[str]] = []
    for blocks in range(2):
        await until(lambda blocks=blocks: running.done() or (run.exists() and len(found_in(run)) > blocks), 240)  # type: ignore[misc]
        assert not running.done(), await running
        seen.append(list_holders(pair))
    assert seen[0] & seen[1], f"nobody had it from one block to the next: {seen}"
    status, _, stderr = await running
    assert status == 0, stderr
    assert list_holders(pair) == set()
    assert pair.left() == []


async def test_killed_at_random_moments_neither_host_keeps_anything(pair: Pair, tmp_path: Path) -> None:
    file, run = written(tmp_path, pair, STUDY.replace("blocks = 1", "blocks = 50")), tmp_path / "run"
    moments = random.Random(4)
    for _ in range(5):
        command = ["resume", str(run)] if (run / "manifest.json").exists() else ["run", str(file), "-o", str(run)]
        status, _, stderr = await pair.nearmetal(*command, kill_after=moments.uniform(0.1, 4))
        assert status == -9, stderr
    status, stdout, stderr = await pair.nearmetal("clean", "--json")
    assert status == 0, stderr
    assert json.loads(stdout)["left"] == []
    assert pair.left() == []


@pytest.mark.long
async def test_a_tunnel_that_the_kernel_lacks_is_told_before_the_run(pair: Pair, tmp_path: Path) -> None:
    if await trunk.kernel_has("gre", LocalSite()):
        pytest.skip("this kernel has GRE")
    factor = '[factors.tunnel]\nlevels = ["vxlan", "gre"]\nwhen = { hosts = "far" }\n[machine]'
    text = STUDY.replace("[machine]", factor).replace('hosts = "local"', 'hosts = "local", tunnel = "vxlan"')
    file, run = written(tmp_path, pair, text), tmp_path / "run"
    status, _, stderr = await pair.nearmetal("run", str(file), "-o", str(run))
    assert status == 3, stderr
    assert "has no gre" in stderr and 'link.tunnel = "vxlan"' in stderr
    assert not run.exists()
    status, _, stderr = await pair.nearmetal("run", str(file), "-o", str(run), "--available")
    assert status == 0, stderr
    assert {str(record.trial.treatment.get("tunnel")) for record in found_in(run)} == {"None", "vxlan"}


async def test_a_host_out_of_reach_ends_the_run_before_it_begins(pair: Pair, tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    file.write_text(STUDY.replace("FAR", "root@10.112.0.2:2222"))
    status, _, stderr = await pair.nearmetal("run", str(file), "-o", str(tmp_path / "run"))
    assert status == 3, stderr
    assert "cannot be reached" in stderr and "remedy" in stderr and "Traceback" not in stderr
    assert not (tmp_path / "run").exists()


async def test_a_host_with_an_unknown_key_is_not_used(pair: Pair, tmp_path: Path, login: Login) -> None:
    (login[0].folder / "known_hosts").unlink()
    status, _, stderr = await pair.nearmetal("run", str(written(tmp_path, pair)), "-o", str(tmp_path / "run"))
    assert status == 3, stderr
    assert "host key" in stderr and "known_hosts" in stderr
    assert not (tmp_path / "run").exists()
