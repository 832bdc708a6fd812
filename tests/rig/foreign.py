"""A root file system for another processor than this host's, whose programs do not run here.

Its packages are unpacked here. The machine installs them at its first boot, by its first initial RAM disk.
"""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from nearmetal.lab.image import modules, newc
from nearmetal.lab.image.recipe import Modules

# Before its links of /bin, /lib and /sbin are there, something could be unpacked to the place of one.
_LINKS = 'for name in bin lib sbin; do mkdir -p "$1/usr/$name"; ln -s "usr/$name" "$1/$name"; done'
_INSTALL = """#!/bin/sh
set -e
export PATH=/usr/sbin:/usr/bin DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 INITRD=No
cd /var/cache/apt/archives
[ -e /usr/bin/awk ] || ln -s mawk /usr/bin/awk
dpkg="dpkg --force-depends --force-unsafe-io --force-confold"
# debootstrap's order: each of these is what the next ones' scripts need.
for name in base-passwd base-files dpkg libc6 perl-base mawk debconf; do $dpkg --install ${name}_*.deb; done
$dpkg --unpack *.deb
$dpkg --configure --pending
rm -- *.deb /install /usr/sbin/policy-rc.d
"""
_INIT = """#!/bin/busybox sh
export PATH=/bin
/bin/busybox --install -s /bin
mount -t devtmpfs dev /dev
exec </dev/console >/dev/console 2>&1
while read -r module; do insmod "/modules/$module"; done </modules.order
until [ -b /dev/vda1 ]; do sleep 1; done
mount -t ext4 /dev/vda1 /root
if [ -e /root/install ]; then
    mount -t devtmpfs dev /root/dev
    mount -t proc proc /root/proc
    mount -t sysfs sys /root/sys
    ln -s /proc/self/fd /root/dev/fd
    chroot /root /bin/sh /install || { echo "it cannot be set up"; sync; poweroff -f; }
    umount /root/dev /root/proc /root/sys
fi
exec switch_root /root /sbin/init
"""


def unpack(root: Path, packages: Sequence[str], suite: str, debian: str) -> None:
    """Unpack these packages of that architecture of Debian's, and all that they need, without running any of it."""
    argv = ["mmdebstrap", "--variant=extract", "--format=directory", f"--architectures={debian}"]
    kept = ["--skip=essential/unlink,cleanup/apt", f"--setup-hook={_LINKS}"]
    wanted = ["--include=?essential", f"--include={','.join(('apt', 'usr-is-merged', *packages))}"]
    subprocess.run([*argv, *kept, *wanted, suite, str(root)], check=True)
    (root / "install").write_text(_INSTALL)
    # Nothing of its own starts meanwhile, and it never boots by an initial RAM disk of its own.
    (root / "usr/sbin/policy-rc.d").write_text("#!/bin/sh\nexit 101\n")
    (root / "usr/sbin/policy-rc.d").chmod(0o755)
    (root / "etc/initramfs-tools").mkdir(exist_ok=True)
    (root / "etc/initramfs-tools/update-initramfs.conf").write_text("update_initramfs=no\nbackup_initramfs=no\n")


def make_initrd(root: Path) -> bytes:
    """What mounts the disk's partition, has all installed if that was not done yet, and goes on there."""
    (folder,) = (root / "usr/lib/modules").iterdir()
    subprocess.run(["depmod", "--basedir", str(root), folder.name], check=True)
    tree = modules.parse((folder / "modules.dep").read_text(), (folder / "modules.builtin").read_text())
    wanted = Modules.of_recipe()
    names = [tree.files[name] for name in tree.ordered((*wanted.buses, *wanted.disks.always))]
    files = {f"modules/{name}": ((folder / name).read_bytes(), 0o644) for name in names}
    files |= {
        "modules.order": ("".join(f"{name}\n" for name in names).encode(), 0o644),
        "init": (_INIT.encode(), 0o755),
    }
    files["bin/busybox"] = ((root / "usr/bin/busybox").read_bytes(), 0o755)
    folders = map(newc.folder, ("dev", "proc", "sys", "root"))
    return newc.archive([*folders, *newc.with_folders(files), newc.link("bin/sh", "busybox")])
