"""What `nearmetal isolate on --boot` makes a real update-grub write, on a copy of /etc that only the caller sees; and a
machine that is started by a real GRUB with what was written.

The machine is not one of nearmetal's: a disk with GRUB's modules, its configuration where it was written, a kernel of
Debian's, and a first program that tells how it was started.
"""

import re
import shutil
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from nearmetal.lab import probe
from nearmetal.lab.cpus.noise import Heard, parse_heard
from nearmetal.lab.image import newc

OWN = 'GRUB_TIMEOUT=0\nGRUB_CMDLINE_LINUX_DEFAULT="quiet splash"\n'
"""What a user has there."""
CPU = 1

# The overlay shows update-grub all else of /etc; /boot is a folder of the test's, on a disk that grub-probe can find.
_INSIDE = """
set -e
mkdir "$1/changed" "$1/work" "$1/boot" "$1/boot/grub"
mount -t overlay none -o "lowerdir=/etc,upperdir=$1/changed,workdir=$1/work" /etc
mount --bind "$1/boot" /boot
for file in vmlinuz initrd.img; do echo it >/boot/$file-6.1.0-test; done
printf %s "$2" >/etc/default/grub
update-grub
cp /boot/grub/grub.cfg "$1/before.cfg"
"$3" -m nearmetal isolate on --boot --cpus 1 || [ $? = 1 ]
cp /boot/grub/grub.cfg "$1/on.cfg"
cp /etc/default/grub.d/99-nearmetal.cfg "$1/drop-in"
if [ "$4" = off ]; then
    "$3" -m nearmetal isolate off
else
    # As far as update-grub, and no further.
    "$3" -m nearmetal isolate off
    "$3" -m nearmetal isolate on --boot --cpus 1 & on=$!
    until [ -e /boot/grub/grub.cfg.new ]; do sleep 0.001; done
    kill -9 $on
    wait $on || true
    "$3" -m nearmetal clean
    sleep 1
fi
cp /boot/grub/grub.cfg "$1/after.cfg"
[ ! -e /etc/default/grub.d/99-nearmetal.cfg ]
"""


def told(folder: Path, ends: str = "off") -> str:
    """GRUB's configuration while the isolation stood; `folder` also gets before.cfg, after.cfg, drop-in and changed/.

    `ends`: "off" or "killed".
    """
    command = ["unshare", "--mount", "sh", "-c", _INSIDE, "inside", str(folder), OWN, sys.executable, ends]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert ended.returncode == 0, ended.stderr
    return (folder / "on.cfg").read_text()


def kernel_line(configuration: str) -> tuple[Path, list[str]]:
    """The kernel's file and the arguments of the first entry, which is the one that is started."""
    found = re.search(r"^\s*linux\s+(\S+) (.*)$", configuration, re.MULTILINE)
    assert found is not None
    return Path(found[1]), found[2].split()


# ── A machine ─────────────────────────────────────────────────────────────────────────────────────────────────────

MODULES = Path("/usr/lib/grub/i386-pc")
_KERNEL = "linux-image-cloud-amd64"
_LIMIT = 120.0
"""Seconds from power on to off."""
_INIT = """#!/bin/busybox sh
for kind in proc sysfs devtmpfs; do /bin/busybox mount -t $kind none /$kind; done
exec >/devtmpfs/ttyS0 2>&1
cd /sysfs/devices/system/cpu
/bin/busybox cat /proc/cmdline isolated nohz_full
/bin/busybox ln -s /sysfs /sys
/nearmetal-probe noise --json --cpus 0,1 --duration 2s
/bin/busybox poweroff -f
"""


@dataclass(frozen=True)
class Started:
    """How a machine says that it was started, and what was heard on its two CPUs."""

    arguments: list[str]
    isolated: str
    nohz_full: str
    heard: dict[int, Heard]


def lacking() -> str:
    """What cannot be had here for starting one; ""."""
    if not (MODULES / "lnxboot.img").exists():
        return "apt-get install grub-pc-bin"
    return "" if shutil.which("apt-get") else "a kernel is fetched by apt-get"


def start(configuration: str, folder: Path, cache: Path) -> Started:
    """Start a machine of two CPUs, emulated, by a GRUB that finds this on its disk, and listen to it."""
    disk = _disk(configuration, folder, _kernel(cache))
    loader, serial = folder / "loader", folder / "serial"
    core = folder / "core.img"
    prefix = f"(hd0){kernel_line(configuration)[0].parent}/grub"
    _run("grub-mkimage", "-O", "i386-pc", "-o", core, "-p", prefix, "biosdisk", "ext2", "normal", "configfile")
    # As QEMU's firmware starts a kernel, so it starts this.
    loader.write_bytes((MODULES / "lnxboot.img").read_bytes() + core.read_bytes())
    _run(
        *("qemu-system-x86_64", "-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2"),
        *("-m", "512", "-nodefaults", "-no-user-config", "-vga", "std", "-display", "none", "-no-reboot"),
        *("-kernel", loader, "-serial", f"file:{serial}"),
        *("-drive", f"file={disk},format=raw,if=none,id=disk", "-device", "virtio-blk-pci,drive=disk"),
    )
    arguments, isolated, nohz_full, noise = serial.read_text().splitlines()
    return Started(arguments.split(), isolated, nohz_full, parse_heard(noise.encode(), "the machine"))


def _disk(configuration: str, folder: Path, kernel: Path) -> Path:
    """A disk on which the configuration, and what it names, lie where it says."""
    disk, root = folder / "disk.raw", folder / "root"
    file, _ = kernel_line(configuration)
    boot = root / file.parent.relative_to("/")
    (boot / "grub").mkdir(parents=True)
    (boot / "grub/grub.cfg").write_text(configuration)
    shutil.copytree(MODULES, boot / "grub" / MODULES.name)
    shutil.copy(kernel, boot / file.name)
    (boot / file.name.replace("vmlinuz", "initrd.img")).write_bytes(_first_programs())
    # By which an entry may look for its disk.
    found = re.search(r"--fs-uuid --set=root .*?([0-9a-f-]{36})", configuration)
    identity = ("-U", found[1]) if found else ()
    _run("truncate", "-s", "128M", disk)
    _run("mkfs.ext4", "-q", "-F", *identity, "-d", root, disk)
    return disk


def _first_programs() -> bytes:
    files = {
        "bin/busybox": (Path("/bin/busybox").read_bytes(), 0o755),
        "nearmetal-probe": (probe.path().read_bytes(), 0o755),
        "init": (_INIT.encode(), 0o755),
    }
    console = newc.ArchiveEntry("dev/console", stat.S_IFCHR | 0o600, device=(5, 1))
    folders = map(newc.folder, ("dev", "proc", "sysfs", "devtmpfs"))
    return newc.archive([*folders, console, *newc.with_folders(files)])


def _kernel(cache: Path) -> Path:
    """Debian's kernel for virtual machines, fetched once."""
    folder = cache / "kernel-of-tests"
    if not (found := sorted(folder.glob("boot/vmlinuz-*"))):
        folder.mkdir(parents=True, exist_ok=True)
        depends = _run("apt-cache", "depends", "--important", _KERNEL)
        package = next(line.split()[-1] for line in depends.splitlines() if "Depends: linux-image-" in line)
        _run("apt-get", "download", "-q", package, at=folder)
        (archive,) = folder.glob("*.deb")
        _run("dpkg-deb", "-x", archive, folder / "unpacked")
        (folder / "unpacked/boot").rename(folder / "boot")
        shutil.rmtree(folder / "unpacked")
        archive.unlink()
        found = sorted(folder.glob("boot/vmlinuz-*"))
    return found[-1]


def _run(*argv: str | Path, at: Path | None = None) -> str:
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=_LIMIT, cwd=at)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout
