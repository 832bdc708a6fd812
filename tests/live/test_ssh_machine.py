"""Machines of the user's own, by SSH: a real sshd in namespaces of its own is one."""

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import asyncssh
import pytest
import pytest_asyncio

from nearmetal import plugins
from nearmetal.environments import ssh as environment
from nearmetal.errors import BadInput, HostCannot, NotProvisioned
from nearmetal.lab import host_lock as lock
from nearmetal.lab.changes.ledger import Ledger, ledgers_folder, new_token
from nearmetal.lab.image import Image
from nearmetal.lab.lab import Lab
from nearmetal.lab.site_registry import Sites
from nearmetal.lab.ssh.ssh_site import SshSite
from nearmetal.model import EnvironmentSpec, HostSpec, Machine, MachineSpec, TrialRecord, TrialStatus
from nearmetal.store.journal import read_records
from nearmetal.store.run_folder import RunFolder
from nearmetal.study.resolve import resolve_alone
from tests.ports import free_port
from tests.waiting import until

from .far_host import FarHost, far_host
from .leftovers import groups
from .two_hosts import FAR_CACHE, Login, Pair, ip, left_there

pytestmark = pytest.mark.live

SPEC = MachineSpec(memory=256 * 2**20)

STUDY = """
name = "metal"
reference = { environment = "host" }
[environments.metal]
kind = "ssh"
address = "FAR"
provision = "reuse"
[environments.chroot]
kind = "ssh"
address = "FAR"
image = "chroot"
provision = "reuse"
[factors]
environment = ["host", "metal", "chroot"]
[machine]
memory = "128MiB"
[[workloads]]
name = "web"
kind = "http"
workers = 2
warmup = "0.1s"
duration = "0.5s"
[design]
blocks = 1
"""
FILES = """
[[workloads]]
name = "files"
kind = "sysbench"
test = "fileio"
total_size = "16MiB"
duration = "60s"
[observe]
capture = true
usage = true
[design]
blocks = 1
"""
ALONE = STUDY.replace('["host", "metal", "chroot"]', '["metal"]').replace('"host" }', '"metal" }')


def written(folder: Path, host: FarHost, text: str) -> str:
    file = folder / "study.toml"
    file.write_text(text.replace("FAR", host.ssh))
    return str(file)


def found_in(run: Path) -> list[TrialRecord]:
    return list(read_records(RunFolder(run).journal))


# ── Studies ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_study_compares_this_host_with_a_machine_of_ones_own(pair: Pair, tmp_path: Path) -> None:
    run = tmp_path / "run"
    status, _, stderr = await pair.nearmetal("run", written(tmp_path, pair.far, STUDY), "-o", str(run))
    assert status == 0, stderr
    by_kind = {str(record.trial.treatment["environment"]): record for record in found_in(run)}
    assert by_kind.keys() == {"host", "metal", "chroot"}
    for name, record in by_kind.items():
        assert record.status is TrialStatus.OK, record.reason
        assert record.responses["throughput"].value > 0
        assert record.responses["cpu_per_event"].value > 0
        assert record.site == ("local" if name == "host" else name)
        assert record.boot is not None and record.boot.how == ("boot" if name == "host" else "reuse")
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert by_kind["metal"].boot is not None and by_kind["metal"].boot.id == boot_id, "it is used as it is"
    told = RunFolder(run).read_manifest()
    assert told.study.environments["metal"].options["address"] == pair.far.ssh
    assert left_there(pair) == []


@pytest.mark.long
async def test_one_under_two_names_is_measured_and_told_as_one(pair: Pair, tmp_path: Path) -> None:
    again = '[environments.again]\nkind = "ssh"\naddress = "FAR"\nprovision = "reuse"\n'
    text = ALONE.replace('["metal"]', '["metal", "again"]').replace("[factors]", f"{again}[factors]", 1)
    file = written(tmp_path, pair.far, text)
    status, stdout, stderr = await pair.nearmetal("plan", file)
    assert status == 0, stderr
    assert "'metal' and 'again' are one machine" in stdout
    status, stdout, stderr = await pair.nearmetal("run", file, "-o", str(tmp_path / "run"), "--json")
    assert status == 0, stderr
    contrast = next(one for one in json.loads(stdout.splitlines()[-1])["contrasts"] if one["primary"])
    assert "one-machine" in {warning["code"] for warning in contrast["warnings"]}
    assert left_there(pair) == []


@pytest.mark.long
async def test_control_and_measurement_can_go_apart(pair: Pair, tmp_path: Path) -> None:
    """The machine has a second address, and what is measured goes there alone."""
    ip("-netns", pair.near, "address", "add", "10.113.0.1/30", "dev", "cable")
    pair.far.run("ip", "address", "add", "10.113.0.2/30", "dev", "cable")
    text = ALONE.replace('provision = "reuse"', 'provision = "reuse"\ndata = "10.113.0.2"', 1)
    status, _, stderr = await pair.nearmetal("run", written(tmp_path, pair.far, text), "-o", str(tmp_path / "run"))
    assert status == 0, stderr
    assert "lladdr" in pair.far.run("ip", "neigh", "show", "to", "10.113.0.1"), "nobody came from there"


@pytest.mark.long
async def test_a_machine_by_ssh_can_be_the_client_too(pair: Pair, tmp_path: Path) -> None:
    text = ALONE.replace("[machine]", '[clients]\nenvironment = "metal"\n[machine]')
    status, _, stderr = await pair.nearmetal("run", written(tmp_path, pair.far, text), "-o", str(tmp_path / "run"))
    assert status == 0, stderr
    (record,) = found_in(tmp_path / "run")
    assert record.status is TrialStatus.OK, record.reason
    assert [machine.environment for machine in record.machines] == ["metal", "metal"]
    assert left_there(pair) == []


async def test_what_is_changed_on_it_is_put_back(pair: Pair, tmp_path: Path) -> None:
    """On both ends of the way: they are cards of the user's."""
    text = ALONE.replace("[machine]", "offload = [false]\n[machine]")
    before = ends(pair)
    status, _, stderr = await pair.nearmetal("run", written(tmp_path, pair.far, text), "-o", str(tmp_path / "run"))
    assert status == 0, stderr
    (record,) = found_in(tmp_path / "run")
    features = record.readback["offload"].values()
    assert len(features) == 2 and {end["tso"] for end in features} == {"off"}
    assert "on" in before[0] and "tcp-segmentation-offload: on" in before[1]
    assert ends(pair) == before


def ends(pair: Pair) -> list[str]:
    """What the cards at both ends of the cable tell of their features."""
    tell = ("ethtool", "-k", "cable")
    near = subprocess.run(["ip", "netns", "exec", pair.near, *tell], capture_output=True, text=True, check=True)
    return [near.stdout, pair.far.run(*tell)]


async def test_killed_in_the_middle_nothing_of_ours_stays_there(pair: Pair, tmp_path: Path) -> None:
    """What was changed in cards of theirs and ours is as before, whoever's machine it was that was killed."""
    text = STUDY.replace("blocks = 1", "blocks = 50").replace('["host", "metal", "chroot"]', '["metal", "chroot"]')
    text = text.replace('"host" }', '"metal" }').replace("[machine]", "offload = [false]\n[machine]")
    file, run = written(tmp_path, pair.far, text), tmp_path / "run"
    before = ends(pair)
    moments: list[Any] = [{"kill_after": 0.6}, {"kill_after": 4.1}]
    seen = {"kill_when": lambda: ends(pair) != before}
    for when in (*moments, seen, seen, seen):  # what was seen may have been on its way back
        command = ["resume", str(run)] if (run / "manifest.json").exists() else ["run", file, "-o", str(run)]
        status, _, stderr = await pair.nearmetal(*command, **when)
        assert status == -9, stderr
        if when is seen and ends(pair) != before:
            break
    assert ends(pair) != before, "`clean` has nothing to put right"
    status, stdout, stderr = await pair.nearmetal("clean", "--json")
    assert status == 0, stderr
    assert json.loads(stdout)["left"] == []
    assert ends(pair) == before
    assert left_there(pair) == []


@pytest.mark.long
async def test_files_of_a_killed_trial_are_removed_from_it(pair: Pair, tmp_path: Path) -> None:
    """Of the workload and of observers: `clean` knows them by the machine's name in the ledger."""
    text = ALONE.partition("[[workloads]]")[0] + FILES
    uses = {"-sysbench", "-capture", "-usage.jsonl"}

    def all_there() -> bool:
        return all(any(file.endswith(use) for file in pair.files()) for use in uses)

    command = ["run", written(tmp_path, pair.far, text), "-o", str(tmp_path / "run")]
    status, _, stderr = await pair.nearmetal(*command, kill_when=all_there)
    assert status == -9, stderr
    assert all_there(), "`clean` has nothing to remove"
    status, stdout, stderr = await pair.nearmetal("clean", "--json")
    assert status == 0, stderr
    assert json.loads(stdout)["left"] == []
    assert left_there(pair) == []


@pytest.mark.long
async def test_a_machine_that_goes_away_in_the_middle_loses_the_trial(pair: Pair, tmp_path: Path) -> None:
    """Its connections are cut, as by a boot; that is what became of the treatment there, and no block is repeated."""
    text = ALONE.replace('duration = "0.5s"', 'duration = "3s"')
    run = tmp_path / "run"
    running = asyncio.ensure_future(pair.nearmetal("run", written(tmp_path, pair.far, text), "-o", str(run), "--json"))
    await until(lambda: "lighttpd" in pair.far.run("ps", "-eo", "comm"))
    pair.far.cut_sessions()
    status, _, stderr = await running
    (lost,) = found_in(run)
    assert lost.status is TrialStatus.LOST and lost.reason and "connection" in lost.reason
    assert (lost.blame, lost.cause) == ("treatment", "machine-lost")
    assert status == 1, stderr
    assert left_there(pair) == []


async def test_two_studies_at_once_are_refused_on_one_machine(pair: Pair, tmp_path: Path) -> None:
    script = f"exec 9<{lock.FOLDER}; flock 9; exec env {lock.HOLDER}=somebody sleep 600"
    pair.far.run("sh", "-c", f"setsid sh -c '{script}' >/dev/null 2>&1 &")
    await until(lambda: "sleep 600" in pair.far.run("ps", "-eo", "args"))
    status, _, stderr = await pair.nearmetal("run", written(tmp_path, pair.far, ALONE), "-o", str(tmp_path / "run"))
    assert status == 3, stderr
    assert "somebody measures on it" in stderr and "Traceback" not in stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("[machine]", '[machine]\nvcpus = 2\nisolation = "kernel"', 'set provision = "restart"'),
        *(
            pytest.param(*one, marks=pytest.mark.long)
            for one in (
                ("[machine]", '[machine]\ncontention = "cpu"', 'set image = "chroot"'),
                ("[machine]", '[clients]\nenvironment = "qemu"\n[machine]', 'set clients.environment to "host"'),
                ("[machine]", '[link]\ndelay = "1ms"\n[machine]', "leave [link] out"),
                ('provision = "reuse"', 'provision = "reuse"\ndata = "192.0.2.1"', "name one that its clients reach"),
            )
        ),
    ],
    ids=["kernel", "contention", "clients", "link", "data"],
)
async def test_what_cannot_be_done_with_it_is_told_before(
    pair: Pair, tmp_path: Path, old: str, new: str, told: str
) -> None:
    text = ALONE.replace(old, new, 1)
    status, _, stderr = await pair.nearmetal("run", written(tmp_path, pair.far, text), "-o", str(tmp_path / "run"))
    assert status == 3, stderr
    assert told in stderr and "Traceback" not in stderr
    assert not (tmp_path / "run").exists()


# ── The machine ───────────────────────────────────────────────────────────────────────────────────────────────────

Make = Callable[..., Awaitable[Machine]]


@pytest_asyncio.fixture
async def make(far: FarHost) -> AsyncIterator[Make]:
    """A machine by SSH, on loopback; nothing of it may remain."""
    token = new_token()
    options = {"address": far.ssh}
    plugin = plugins.load("environments", "ssh")
    host = plugin.describe(options, SPEC).host
    assert host is not None
    sites = Sites({"metal": host})
    ledger = Ledger(ledgers_folder() / f"{token}.jsonl")
    lab = Lab(token, ledger, sites)

    async def one(**more: Any) -> Machine:
        spec = EnvironmentSpec.model_validate({"kind": "ssh", **options, **more})
        handle = await lab.create(
            resolve_alone(spec.model_copy(update={"provision": "reuse"}), SPEC),
            SPEC,
            "server",
            "0",
            await lab.site("metal"),
        )
        return await lab.attach(handle)

    try:
        yield one
    finally:
        left = await lab.close()
        ledger.close()
        await sites.aclose()
    assert left == []
    assert not groups(f"nearmetal-nm-{token}")
    assert not list((far.folder / "state").glob("machines/*"))


async def test_it_is_the_machine_itself_and_not_ours(make: Make, far: FarHost) -> None:
    machine = await make()
    assert (machine.address, machine.interface, machine.peer, machine.owned) == ("127.0.0.1", "lo", None, False)
    assert (await machine.exec(["hostname"])).text == "far\n"
    assert (await machine.exec(["cat", "/proc/1/cmdline"])).stdout == far.run("cat", "/proc/1/cmdline").encode()
    assert "nearmetal-nm-" in (await machine.exec(["cat", "/proc/self/cgroup"])).text
    cost = await machine.cost()
    assert cost is not None and cost.cpu_seconds > 0


async def test_a_chroot_is_the_labs_image_in_the_machines_own_network(make: Make, far: FarHost) -> None:
    machine = await make(image="chroot")
    assert (machine.address, machine.interface, machine.peer, machine.owned) == ("127.0.0.1", "lo", None, True)
    assert (await machine.exec(["hostname"])).text.strip() == machine.name
    networks = [
        await machine.exec(["readlink", "/proc/self/ns/net"]),
        await machine.site.exec(["readlink", "/proc/self/ns/net"]),
    ]
    assert networks[0].stdout == networks[1].stdout
    await machine.put(b"x", "/etc/ours")
    assert "ours" not in far.run("ls", "/etc")


async def test_a_machine_that_stays_away_is_not_waited_for_without_end(
    make: Make, far: FarHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "ANSWER", 0.5)
    await make()
    far.run("sh", "-c", "kill $(cat /run/sshd.pid)")
    far.cut_sessions()
    with pytest.raises(NotProvisioned, match="does not answer any more"):
        await make()
    far.run("/usr/sbin/sshd", "-f", "/etc/far/sshd_config")
    await until(lambda: "sshd: /usr/sbin/sshd" in far.run("ps", "-eo", "args"))


# ── Logging in ────────────────────────────────────────────────────────────────────────────────────────────────────


async def reached(spec: HostSpec) -> SshSite:
    return await SshSite.open("metal", spec, print)


async def test_key_and_host_key_can_stand_in_the_study(far: FarHost, login: Login, tmp_path: Path) -> None:
    (login[0].folder / "known_hosts").unlink()
    key = login[0].folder / "id_ed25519"
    key.rename(tmp_path / "key")
    public = far.host_key.export_public_key().decode()
    spec = HostSpec(ssh=far.ssh, key=str(tmp_path / "key"), host_key=public)
    await (await reached(spec)).close()
    other = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode()
    with pytest.raises(HostCannot, match="host key") as refused:
        await reached(spec.model_copy(update={"host_key": other}))
    assert "compare host_key" in refused.value.remedy
    with pytest.raises(BadInput, match="no public key"):
        await reached(spec.model_copy(update={"host_key": "nonsense"}))
    with pytest.raises(BadInput, match="no such key file"):
        await reached(spec.model_copy(update={"key": str(tmp_path / "none")}))


async def test_a_key_with_a_passphrase_is_for_the_agent(far: FarHost, tmp_path: Path) -> None:
    locked = asyncssh.generate_private_key("ssh-ed25519")
    locked.write_private_key(str(tmp_path / "locked"), "pkcs8-pem", passphrase="secret")
    with pytest.raises(HostCannot, match="cannot be used") as refused:
        await reached(HostSpec(ssh=far.ssh, key=str(tmp_path / "locked")))
    assert "ssh-add" in refused.value.remedy


async def test_by_way_of_a_jump_host(far: FarHost, login: Login) -> None:
    """Named by the study, or by the user's configuration; its key is checked like any other."""
    site = await reached(HostSpec(ssh=far.ssh, jump=far.ssh))
    assert (await site.exec(["hostname"])).text == "far\n"
    await site.close()
    # OpenSSH refuses a jump by way of the very host.
    gate = far.ssh.replace(far.address, "localhost")
    (login[0].folder / "known_hosts").write_text(far.known + far.known.replace(far.address, "localhost"))
    (login[0].folder / "config").write_text(
        f"Host metal\n  HostName {far.address}\n  Port {far.port}\n  User root\n  ProxyJump {gate}\n"
    )
    site = await reached(HostSpec(ssh="metal"))
    assert (await site.exec(["hostname"])).text == "far\n"
    await site.close()
    (login[0].folder / "known_hosts").unlink()
    public = far.host_key.export_public_key().decode()
    with pytest.raises(HostCannot, match="host key") as refused:
        await reached(HostSpec(ssh=far.ssh, jump=far.ssh, host_key=public))
    assert refused.value.where.startswith("the jump host")


async def test_a_password_prompt_is_told_and_never_waited_at(lab_image: Image, tmp_path: Path, login: Login) -> None:
    stranger = asyncssh.generate_private_key("ssh-ed25519")
    with far_host(lab_image, tmp_path / "far", stranger, port=free_port(), cache=FAR_CACHE, passwords=True) as host:
        login[0].know(host)
        with pytest.raises(HostCannot, match="asks for a password"):
            await reached(HostSpec(ssh=host.ssh))


async def test_another_architecture_is_told(lab_image: Image, tmp_path: Path, login: Login) -> None:
    uname = tmp_path / "uname"
    uname.write_text("#!/bin/sh\n[ $1 = -s ] && echo Linux || echo riscv64\n")
    uname.chmod(0o755)
    pretended = {"/usr/bin/uname": uname}
    with far_host(
        lab_image, tmp_path / "far", login[1], port=free_port(), cache=FAR_CACHE, in_place_of=pretended
    ) as host:
        login[0].know(host)
        with pytest.raises(HostCannot, match="its processor is riscv64") as refused:
            await reached(HostSpec(ssh=host.ssh))
        assert refused.value.remedy


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk that the probe does not fit on."""
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", f"nmt{os.getpid()}", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


async def test_a_full_disk_there_is_told(lab_image: Image, tmp_path: Path, login: Login, small: Path) -> None:
    with far_host(lab_image, tmp_path / "far", login[1], port=free_port(), cache=small) as host:
        login[0].know(host)
        with pytest.raises(HostCannot, match="No space left"):
            await reached(HostSpec(ssh=host.ssh))
