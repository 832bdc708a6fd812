"""The lab image as it is used: served from a chroot, booted by QEMU's emulation, killed while being built."""

import asyncio
import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncssh
import pytest
import pytest_asyncio

from nearmetal.lab import probe
from nearmetal.lab.image import Image, Recipe, build, ls, store
from nearmetal.lab.image.initrd import seed_archive
from tests.ports import free_port

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(os.geteuid() != 0, reason="images belong to root"),
    pytest.mark.skipif(shutil.which("qemu-system-x86_64") is None, reason="no QEMU"),
]

PAGES = {"/": 402, "/1k": 1024, "/100k": 102400, "/1m": 1048576}
CONTROL, DATA = "52:54:00:00:00:01", "52:54:00:00:00:02"
BOOT_LIMIT = 120.0


# ── The parts ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_manifest_tells_the_truth(lab_image: Image) -> None:
    manifest = lab_image.manifest
    with lab_image.tarball.open("rb") as tarball:
        assert hashlib.file_digest(tarball, "sha256").hexdigest() == lab_image.digest == manifest["digest"]
    assert {"lighttpd", "iperf3", "sysbench", "openssh-server", "busybox-static"} <= set(manifest["packages"])
    assert set(manifest["debs"]) == set(manifest["packages"])
    assert any(name.startswith("linux-image-") for name in lab_image.packages)
    assert {len(package.sha256) for package in lab_image.packages.values()} == {64}
    php = (lab_image.root / "usr/bin/php-cgi8.2").read_bytes()
    assert manifest["binaries"]["/usr/bin/php-cgi"] == hashlib.sha256(php).hexdigest()


def test_nothing_of_this_host_is_in_the_archive(lab_image: Image) -> None:
    with tarfile.open(lab_image.tarball) as archive:
        members = {member.name: member for member in archive}
        sources = archive.extractfile("./etc/apt/sources.list")
        assert sources is not None
        hosts = {line.split("/")[2] for line in sources.read().decode().splitlines()}
    assert hosts == {"deb.debian.org"}
    assert not [
        name for name in members if "ssh_host_" in name or name.startswith(("./var/log/", "./var/lib/apt/lists/"))
    ]
    assert not [name for name in members if name.startswith(("./etc/apt/apt.conf.d/99", "./etc/apt/sources.list.d/"))]
    assert "./etc/machine-id" not in members
    assert all(member.uid == 0 for name, member in members.items() if name.startswith("./usr/"))
    assert max(member.mtime for member in members.values()) <= 1686355200


# ── In a chroot ──────────────────────────────────────────────────────────────────────────────────────────────────────

IN_CHROOT = """
set -e
ip link set lo up
mount -t tmpfs none /mnt
mkdir /mnt/upper /mnt/work
mount -t overlay -o "lowerdir=$1,upperdir=/mnt/upper,workdir=/mnt/work" none "$1"
for folder in run tmp; do mount -t tmpfs none "$1/$folder"; done
mount -t proc proc "$1/proc"
chroot "$1" lighttpd -D -f /etc/nearmetal/lighttpd-php.conf &
exec "$2" -c "$3"
"""

FETCH = """
import json, time, urllib.request
def get(path):
    for attempt in range(200):
        try:
            with urllib.request.urlopen("http://127.0.0.1" + path, timeout=20) as reply:
                return [reply.status, dict(reply.headers), reply.read().decode("latin-1")]
        except OSError:
            time.sleep(0.05)
print(json.dumps({path: get(path) for path in ["/", "/1k", "/100k", "/1m", "/heavy.php"]}))
"""


def test_the_server_serves_from_a_chroot(lab_image: Image) -> None:
    ran = subprocess.run(
        ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--",
         "sh", "-c", IN_CHROOT, "sh", str(lab_image.root), sys.executable, FETCH],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    replies = json.loads(ran.stdout)
    assert {path: len(body) for path, (_, _, body) in replies.items() if path in PAGES} == PAGES
    assert all(status == 200 for status, _, _ in replies.values())
    numbers = [int(line.split("=>")[1]) for line in replies["/heavy.php"][2].splitlines() if "=>" in line]
    assert len(numbers) == 25000
    assert numbers == sorted(numbers)
    assert 500_000 < len(replies["/heavy.php"][2]) < 520_000
    assert "ETag" not in replies["/"][1]


# ── In a guest ───────────────────────────────────────────────────────────────────────────────────────────────────────


def command(image: Image, initrd: Path, console: Path, kernel_words: str, nic: str = "virtio-net-pci") -> list[str]:
    return [
        "qemu-system-x86_64", "-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2",
        "-m", "512", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
        "-kernel", str(image.kernel), "-initrd", str(initrd),
        "-append", f"console=ttyS0 quiet panic=-1 net.ifnames=0 random.trust_cpu=on cryptomgr.notests {kernel_words}",
        "-serial", f"file:{console}",
        "-netdev", "user,id=data,net=10.9.0.0/24,restrict=on", "-device", f"{nic},netdev=data,mac={DATA},romfile=",
    ]  # fmt: skip


@contextlib.contextmanager
def running(argv: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(argv) as process:
        try:
            yield process
        finally:
            process.kill()


UNSIGNED = "8192"
"""What a kernel says of itself that has loaded modules without a signature, and nothing else."""
MOUNTED = {
    "/": "ext4",
    "/dev": "devtmpfs",
    "/dev/pts": "devpts",
    "/dev/shm": "tmpfs",
    "/proc": "proc",
    "/run": "tmpfs",
    "/sys": "sysfs",
    "/sys/fs/cgroup": "cgroup2",
    "/tmp": "tmpfs",
}


class Guest:
    def __init__(self, process: subprocess.Popen[bytes], console: Path, web: int, ssh: asyncssh.SSHClientConnection):
        self.process, self.console, self.web, self.ssh = process, console, web, ssh

    async def said(self, command: str) -> str:
        return str((await self.ssh.run(command, check=True)).stdout).strip()


@pytest_asyncio.fixture(params=["virtio-blk-pci virtio-net-pci", pytest.param("ide-hd e1000", marks=pytest.mark.long)])
async def guest(request: pytest.FixtureRequest, lab_image: Image, tmp_path: Path) -> AsyncIterator[Guest]:
    disk_model, nic = request.param.split()
    host_key, user_key = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))
    initrd = tmp_path / "initrd"
    seed = {
        "ssh_host_ed25519_key": (host_key.export_private_key(), 0o600),
        "authorized_keys": (user_key.export_public_key(), 0o600),
        "start": (b"#!/bin/sh\nexec lighttpd -D -f /etc/nearmetal/lighttpd.conf\n", 0o755),
    }
    initrd.write_bytes(lab_image.initrd.read_bytes() + seed_archive(seed))
    disk, console, web, ssh = tmp_path / "disk.qcow2", tmp_path / "console", free_port(), free_port()
    made = await asyncio.create_subprocess_exec(
        *("qemu-img", "create", "-q", "-f", "qcow2", "-b", str(lab_image.disk), "-F", "qcow2", str(disk))
    )
    assert await made.wait() == 0
    words = f"nearmetal.control={CONTROL} nearmetal.data={DATA},10.9.0.15/24 nearmetal.hostname=sut"
    argv = [
        *command(lab_image, initrd, console, words, nic),
        "-drive", f"file={disk},if=none,id=root", "-device", f"{disk_model},drive=root",
        "-netdev", f"user,id=control,restrict=on,hostfwd=tcp:127.0.0.1:{web}-:80,hostfwd=tcp:127.0.0.1:{ssh}-:22",
        "-device", f"virtio-net-pci,netdev=control,mac={CONTROL},romfile=",
    ]  # fmt: skip
    with running(argv) as process:
        connection = await connected(process, console, ssh, host_key, user_key)
        async with connection:
            yield Guest(process, console, web, connection)


async def connected(
    process: subprocess.Popen[bytes], console: Path, port: int, host_key: asyncssh.SSHKey, user_key: asyncssh.SSHKey
) -> asyncssh.SSHClientConnection:
    known = asyncssh.import_known_hosts(f"* {host_key.export_public_key().decode()}")
    until = time.monotonic() + BOOT_LIMIT
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(OSError, asyncssh.Error):
            return await asyncssh.connect(
                "127.0.0.1", port, username="root", client_keys=[user_key], known_hosts=known, config=None
            )
        await asyncio.sleep(0.2)
    pytest.fail(f"the guest did not come up; its console ends: {console.read_text()[-500:]}")


def fetched(port: int, path: str) -> bytes:
    import urllib.request

    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as reply:
        body: bytes = reply.read()
        return body


async def test_a_guest_boots_serves_and_goes(guest: Guest) -> None:
    for path, size in PAGES.items():
        assert len(await asyncio.to_thread(fetched, guest.web, path)) == size
    assert await guest.said("hostname") == "sut"
    assert "10.0.2.15/24" in await guest.said("ip -br address show control")
    assert "10.9.0.15/24" in await guest.said("ip -br address show data")
    # The control plane listens on the control address alone.
    listening = await guest.said("ss -Hltn 'sport = :22'")
    assert [line.split()[3] for line in listening.splitlines()] == ["10.0.2.15:22"]
    assert await guest.said("stat -c %a:%u /run/nearmetal/ssh_host_ed25519_key") == "600:0"
    assert await guest.said(f"sha256sum {probe.INSIDE}") == f"{probe.sha256()}  {probe.INSIDE}"
    mounted = dict(line.split() for line in (await guest.said("findmnt -rno TARGET,FSTYPE")).splitlines())
    assert mounted == MOUNTED
    assert await guest.said("stat -c %a /tmp /run/nearmetal /dev/shm") == "1777\n755\n1777"
    assert await guest.said("modprobe -a sch_netem 9p vxlan tcp_bbr && cat /proc/sys/kernel/tainted") == UNSIGNED
    assert await guest.said("ps -eo stat= | grep -c '^Z' || true") == "0"
    assert "nearmetal: up after" in guest.console.read_text()

    with contextlib.suppress(asyncssh.Error):
        await guest.ssh.run("poweroff")
    assert await asyncio.to_thread(guest.process.wait, 30) == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        pytest.param(
            f"nearmetal.data={DATA},10.9.0.15/24",
            "no disk carries a file system labelled nearmetal",
            marks=pytest.mark.long,
        ),
        pytest.param(
            "nearmetal.data=52:54:00:ff:ff:ff,10.9.0.15/24",
            f"no network interface has the MAC 52:54:00:ff:ff:ff.*{DATA}",
            marks=pytest.mark.long,
        ),
        pytest.param(
            f"nearmetal.data={DATA}", "has no address; write nearmetal.data=MAC,ADDRESS/PREFIX", marks=pytest.mark.long
        ),
        (f"nearmetal.data={DATA},rubbish", "cannot set up the interface data with rubbish"),
    ],
)
async def test_a_boot_that_fails_says_why_and_ends(lab_image: Image, tmp_path: Path, words: str, says: str) -> None:
    import re

    console, initrd = tmp_path / "console", tmp_path / "initrd"
    initrd.write_bytes(lab_image.initrd.read_bytes() + seed_archive({}))
    with running(command(lab_image, initrd, console, words)) as process:
        assert process.wait(BOOT_LIMIT) == 0
    assert re.search(f"nearmetal: boot failed: .*{says}", console.read_text())


# ── Being built ──────────────────────────────────────────────────────────────────────────────────────────────────────

BUILD = """
import asyncio, sys
from pathlib import Path
from nearmetal.lab.image import Recipe, build
asyncio.run(build(Recipe(), Path(sys.argv[1]), lambda line: print(line, flush=True)))
"""


def processes_that_mention(text: str) -> list[str]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if text in words and int(folder.name) != os.getpid():
                found.append(words)
    return found


@pytest.fixture
def scratch() -> Iterator[Path]:
    """With a name so short that sockets can be made below it."""
    with tempfile.TemporaryDirectory(prefix="nmt-") as folder:
        yield Path(folder)


def test_a_build_killed_in_the_middle_leaves_nothing_that_looks_finished(tmp_path: Path, scratch: Path) -> None:
    argv, environment = [sys.executable, "-c", BUILD, str(tmp_path)], {**os.environ, "TMPDIR": str(scratch)}
    with subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        reached = any("extracting" in line for line in process.stdout)
        time.sleep(1)
        process.send_signal(signal.SIGKILL)
    assert reached
    until = time.monotonic() + 10
    while processes_that_mention(str(tmp_path)) and time.monotonic() < until:
        time.sleep(0.1)
    assert processes_that_mention(str(tmp_path)) == []
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()
    assert ls(tmp_path) == []
    assert list(store.images(tmp_path).glob(".unfinished-*"))
    assert list(scratch.iterdir()) == []
    store.sweep(tmp_path)
    assert [path.name for path in store.images(tmp_path).iterdir()] == [".lock"]


async def test_a_build_that_is_cancelled_tidies_up(tmp_path: Path) -> None:
    extracting = asyncio.Event()

    def heard(line: str) -> None:
        if "extracting" in line:
            extracting.set()

    building = asyncio.create_task(build(Recipe(), tmp_path, heard))
    await asyncio.wait_for(extracting.wait(), 120)
    await asyncio.sleep(1)
    building.cancel()
    with pytest.raises(asyncio.CancelledError):
        await building
    assert processes_that_mention(str(tmp_path)) == []
    assert [path.name for path in store.images(tmp_path).iterdir()] == [".lock"]


@pytest.mark.long
async def test_an_unknown_package_is_named_and_nothing_stays(tmp_path: Path) -> None:
    from nearmetal.errors import BadInput

    with pytest.raises(BadInput, match="no package no-such-package-anywhere"):
        await build(Recipe(packages=("no-such-package-anywhere",)), tmp_path, lambda line: None)
    assert [path.name for path in store.images(tmp_path).iterdir()] == [".lock"]


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_two_builds_are_one_image(tmp_path: Path) -> None:
    first = await build(Recipe(), tmp_path / "a", print)
    second = await build(Recipe(), tmp_path / "b", print)
    assert first.digest == second.digest
    assert first.manifest == second.manifest
