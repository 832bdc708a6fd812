"""A cloud image as distributions make them: Debian's own systemd, cloud-init, sshd and kernel on a bootable disk.

Not ours in any part: it is what a user could bring. It boots by SYSLINUX, which installs itself without mounting.
"""

import shutil
import subprocess
from pathlib import Path

PACKAGES = "systemd-sysv,cloud-init,openssh-server,linux-image-cloud-amd64,ifupdown,isc-dhcp-client,iproute2,procps"
PROGRAMS = {"syslinux": "syslinux", "mcopy": "mtools", "mkfs.vfat": "dosfstools", "sfdisk": "fdisk"}
"""What it takes beyond what nearmetal needs, with the Debian package that has it."""
MASTER_BOOT_RECORD = Path("/usr/lib/syslinux/mbr/mbr.bin")
BOOT, ROOT = 128, 1536
"""MiB of the two partitions."""
CONFIGURATION = """\
DEFAULT linux
LABEL linux
  KERNEL vmlinuz
  APPEND root=LABEL=cloudroot ro console=ttyS0
  INITRD initrd.img
"""


def missing() -> list[str]:
    """Debian packages that have to be installed first."""
    return sorted(package for program, package in PROGRAMS.items() if shutil.which(program) is None)


def make(disk: Path, folder: Path) -> None:
    """Write the qcow2 `disk`; `folder` is for what it is put together from. CalledProcessError."""
    root = folder / "root"
    extra = ("--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/man/*")
    _run("mmdebstrap", "--mode=root", "--variant=minbase", f"--include={PACKAGES}", *extra, "bookworm", str(root))
    (root / "etc/fstab").write_text("LABEL=cloudroot / ext4 defaults 0 1\n")
    (root / "etc/hostname").write_text("cloud\n")
    boot = _boot_partition(root, folder)
    for left in (root / "boot").glob("initrd*"):
        left.unlink()
    system = folder / "root.ext4"
    _run("truncate", "-s", f"{ROOT}M", str(system))
    _run("mkfs.ext4", "-q", "-F", "-L", "cloudroot", "-d", str(root), str(system))
    raw = folder / "disk.raw"
    _run("truncate", "-s", f"{BOOT + ROOT + 2}M", str(raw))
    table = f"label: dos\nstart=1MiB, size={BOOT}MiB, type=c, bootable\nstart={BOOT + 1}MiB, size={ROOT}MiB, type=83\n"
    subprocess.run(["sfdisk", "-q", str(raw)], input=table, text=True, check=True)
    _copy(MASTER_BOOT_RECORD, raw, 0)
    _copy(boot, raw, 1)
    _copy(system, raw, BOOT + 1)
    _run("qemu-img", "convert", "-O", "qcow2", str(raw), str(disk))
    for part in (raw, boot, system):
        part.unlink()
    shutil.rmtree(root)


def _boot_partition(root: Path, folder: Path) -> Path:
    boot, configuration = folder / "boot.vfat", folder / "syslinux.cfg"
    configuration.write_text(CONFIGURATION)
    _run("truncate", "-s", f"{BOOT}M", str(boot))
    _run("mkfs.vfat", "-F", "32", str(boot))
    _run("syslinux", "--install", str(boot))
    (kernel,), (initrd,) = (root / "boot").glob("vmlinuz-*"), (root / "boot").glob("initrd.img-*")
    for source, name in ((kernel, "vmlinuz"), (initrd, "initrd.img"), (configuration, "syslinux.cfg")):
        _run("mcopy", "-i", str(boot), str(source), f"::{name}")
    return boot


def _copy(part: Path, disk: Path, megabyte: int) -> None:
    _run("dd", f"if={part}", f"of={disk}", "bs=1M", f"seek={megabyte}", "conv=notrunc,sparse", "status=none")


def _run(*argv: str) -> None:
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
