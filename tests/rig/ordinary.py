"""The machine: its disk, its boot, and commands in it."""

import contextlib
import os
import select
import shlex
import shutil
import signal
import struct
import subprocess
import tarfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nearmetal.lab.architecture import AARCH64, HERE, X86_64, Architecture

from . import foreign
from .emulator import find_emulator

SUITES: Final[Mapping[str, tuple[int, Sequence[str]]]] = {"bookworm": (12, ()), "trixie": (13, ("docker-cli",))}
"""The version of each Debian, and what its packages are called otherwise."""
PACKAGES = (
    *("systemd-sysv", "systemd", "udev", "openssh-server", "ifupdown", "dbus", "kmod"),
    *("iproute2", "procps", "util-linux", "ca-certificates", "sudo", "python3", "python3-venv"),
    *("qemu-utils", "mmdebstrap", "busybox-static", "e2fsprogs", "xz-utils", "zstd", "lz4"),
    *("docker.io", "apparmor", "uidmap", "ethtool", "tcpdump", "sysbench", "iperf3"),
)
_PACKAGES_PC = (
    *("podman", "libvirt-daemon-system", "libvirt-clients"),
    *("fuse-overlayfs", "slirp4netns", "dbus-user-session", "grub2-common", "grub-pc-bin", "dnsmasq-base"),
    *("ufw", "firewalld", "nfs-kernel-server", "selinux-basics", "selinux-policy-default"),
)
"""For the steps that are taken on a PC alone."""
PROCESSORS: Final[Mapping[str, tuple[Architecture, Sequence[str]]]] = {
    "amd64": (X86_64, ("-cpu", "max")),
    # The fastest to emulate of those whose guests need not trap for each of their own traps: it signs no pointers.
    "arm64": (AARCH64, ("-M", "virt,virtualization=on,gic-version=3", "-cpu", "neoverse-n1")),
}
"""By Debian's name, with the machine that has it and that can run guests by KVM itself."""
_IDLE = ("firewalld.service", "ufw.service", "nfs-server.service")
"""Services that begin as a step wants them."""
DISK = 12 * 2**30
_FIRST = 2**20
"""Bytes before the only partition: GRUB has its place there."""
MEMORY = "4G"
PAYLOAD = "/payload"
"""Where the machine finds what it was given; read only."""
_BOOT = 900.0
"""Seconds until it has to answer; 41 on two idle CPUs."""
_SETUP = 7200.0
"""Seconds that it has more at its first boot, if its packages are installed then."""
_SLACK = 90.0
"""Seconds for a login, and until a command has ended that was late."""
_OFF = 300.0
"""Seconds until it is off: systemd gives each service 90."""
_INTERFACES = """auto lo
iface lo inet loopback
auto eth0
iface eth0 inet static
  address 10.0.2.15/24
  gateway 10.0.2.2
"""


class StepFailed(Exception):
    """What was tried in the machine did not come out as it has to."""


@dataclass(frozen=True)
class Ended:
    """What a command in the machine came to, both its outputs together."""

    status: int
    text: str


class Ordinary:
    """One such machine, with all of it in a folder."""

    def __init__(self, folder: Path, suite: str, port: int, arch: str = "amd64") -> None:
        self.folder = folder
        self.suite = suite
        self.version, self._more = SUITES[suite]
        self.processor, self._machine = PROCESSORS[arch]
        self._words = f"console={self.processor.console} net.ifnames=0 mitigations=off"
        """Of the kernel's command line, however it is booted."""
        self._port = port
        self.payload = folder / "payload"

    @property
    def _disk(self) -> Path:
        return self.folder / "disk.img"

    @property
    def _process(self) -> Path:
        return self.folder / "qemu.pid"

    def build(self) -> None:
        """Make its disk: minutes of one CPU, and the network. Nothing is done if it is there."""
        if self._disk.exists():
            return
        self.payload.mkdir(parents=True, exist_ok=True)
        root = self.folder / "root"
        shutil.rmtree(root, ignore_errors=True)
        self._unpack(root)
        self._furnish(root)
        unfinished = self.folder / "disk.unfinished"
        with unfinished.open("wb") as disk:
            disk.truncate(DISK)
            disk.seek(446)
            # A table of one partition, which is active and of Linux: GRUB reads no ends in cylinders.
            disk.write(struct.pack("<B3xB3xII48x", 0x80, 0x83, _FIRST // 512, (DISK - _FIRST) // 512) + b"\x55\xaa")
        size = f"{(DISK - _FIRST) // 1024}k"
        run("mkfs.ext4", "-q", "-F", "-d", str(root), "-E", f"offset={_FIRST}", str(unfinished), size)
        shutil.rmtree(root)
        unfinished.rename(self._disk)

    @property
    def is_foreign(self) -> bool:
        """Whether programs of its processor do not run on this host."""
        return self.processor != HERE

    def _unpack(self, root: Path) -> None:
        processor = self.processor
        packages = [*PACKAGES, *self._more, processor.kernel, processor.qemu_package]
        if self.is_foreign:
            foreign.unpack(root, packages, self.suite, processor.debian)
            (self.folder / "initrd.img").write_bytes(foreign.make_initrd(root))
            return
        packed = self.folder / "root.tar"
        included = ",".join([*packages, *(_PACKAGES_PC if processor.is_pc else ())])
        run("mmdebstrap", "--variant=minbase", f"--include={included}", self.suite, str(packed))
        root.mkdir()
        with tarfile.open(packed) as archive:
            archive.extractall(root, filter="fully_trusted")
        packed.unlink()

    def _furnish(self, root: Path) -> None:
        for name in ("vmlinuz", "initrd.img"):
            for kernel in (root / "boot").glob(f"{name}-*"):
                shutil.copy(kernel, self.folder / name)
        key = self.folder / "key"
        if not key.exists():
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key))
        (root / "root/.ssh").mkdir(mode=0o700, exist_ok=True)
        shutil.copy(key.with_suffix(".pub"), root / "root/.ssh/authorized_keys")
        (root / "etc/hostname").write_text("ordinary\n")
        (root / "etc/hosts").write_text("127.0.0.1 localhost ordinary\n")
        (root / "etc/fstab").write_text(
            f"/dev/vda1 / ext4 defaults 0 1\npayload {PAYLOAD} 9p trans=virtio,ro,msize=262144 0 0\n"
        )
        (root / PAYLOAD.strip("/")).mkdir()
        (root / "etc/network").mkdir(exist_ok=True)
        (root / "etc/network/interfaces").write_text(_INTERFACES)
        for wanted in (root / "etc/systemd/system").glob("*.wants/*"):
            if wanted.name in _IDLE:
                wanted.unlink()
        modules = ("kvm_amd", "vhost_net") if self.processor.is_pc else ("vhost_net",)
        (root / "etc/modules-load.d/rig.conf").write_text("".join(f"{one}\n" for one in modules))
        (root / "etc/default/grub").write_text(f'GRUB_TIMEOUT=0\nGRUB_CMDLINE_LINUX="{self._words}"\n')

    def boot(self, by_grub: bool = False, more: str = "") -> None:
        """Up to its answer by SSH: its kernel is given to it, or its disk's GRUB finds it, once that was installed.

        A kernel that is given to it has `more` on its command line. StepFailed, with the end of
        its console, if it does not come up.
        """
        if self.is_running():
            return
        given = (
            "-kernel",
            "vmlinuz",
            "-initrd",
            "initrd.img",
            "-append",
            f"root=/dev/vda1 rw {self._words} {more}".rstrip(),
        )
        # A foreign one fetches what its lab image is built of.
        restrict = "off" if self.is_foreign else "on"
        argv = [
            *find_emulator(self.folder.with_name("qemu"), self.processor),
            *("-accel", "tcg,thread=multi", *self._machine, "-smp", "2", "-m", MEMORY),
            *(() if by_grub else given),
            *("-drive", "file=disk.img,format=raw,if=virtio,cache=unsafe"),
            *("-nic", f"user,model=virtio-net-pci,restrict={restrict},hostfwd=tcp:127.0.0.1:{self._port}-:22"),
            *("-virtfs", "local,path=payload,mount_tag=payload,security_model=passthrough,readonly=on"),
            *("-display", "none", "-monitor", "none", "-serial", "file:console.log", "-pidfile", "qemu.pid"),
        ]
        with (self.folder / "qemu.out").open("wb") as said:
            process = subprocess.Popen(
                argv, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
            )
        deadline = time.monotonic() + _BOOT + (_SETUP if self.is_foreign else 0)
        while time.monotonic() < deadline and process.poll() is None:
            time.sleep(5)
            if self.exec("true", timeout=30).status == 0:
                return
        console = (self.folder / "console.log").read_text("utf-8", "replace").splitlines()[-5:]
        raise StepFailed("\n".join(["it does not answer", *console]))

    def is_running(self) -> bool:
        with contextlib.suppress(OSError, ValueError):
            pid = int(self._process.read_text())
            return b"qemu-system" in Path(f"/proc/{pid}/cmdline").read_bytes()
        return False

    def stop(self) -> None:
        """Have it power off, and end it where it does not."""
        if not self.is_running():
            return
        self.exec("systemctl poweroff", timeout=60)
        deadline = time.monotonic() + _OFF
        while time.monotonic() < deadline:
            if not self.is_running():
                return
            time.sleep(2)
        self.cut_power()

    def cut_power(self) -> None:
        pid = int(self._process.read_text())
        process = os.pidfd_open(pid)
        os.kill(pid, signal.SIGKILL)
        # Its files are closed by then, and what it locked is free.
        select.select([process], [], [])
        os.close(process)

    def exec(self, command: str, timeout: float = 600) -> Ended:
        """Run a command of the shell in it, as root. Its time limit holds there too: it disturbs no later one."""
        bounded = f"timeout --kill-after=30 {timeout:g} bash -c {shlex.quote(command)}"
        argv = [
            *("ssh", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"),
            *("-o", "ConnectTimeout=30", "-i", str(self.folder / "key"), "-p", str(self._port), "root@127.0.0.1"),
        ]
        try:
            ended = subprocess.run(
                [*argv, bounded],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=timeout + _SLACK,
            )
        except subprocess.TimeoutExpired as late:
            return Ended(-1, f"{(late.stdout or b'').decode('utf-8', 'replace')}\nnot done within {timeout:g} s")
        text = ended.stdout.decode("utf-8", "replace")
        return Ended(ended.returncode, text if ended.returncode != 124 else f"{text}\nnot done within {timeout:g} s")


def run(*argv: str, cwd: Path | None = None) -> None:
    """On this host, with what it says shown. CalledProcessError if it fails."""
    subprocess.run(argv, check=True, cwd=cwd)
