"""A libvirtd of the tests' own: with its own settings, sockets and state, in a mount namespace that ends with it."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from nearmetal.config import read_patience
from nearmetal.lab import probe

if TYPE_CHECKING:
    from tests.live.far_host import FarHost

PROGRAMS = ("libvirtd", "virtlogd", "virsh")

# Without systemd there may be nobody to make groups, and no AppArmor profile; QEMU runs as root, whose files these are.
_QEMU = """
security_driver = "none"
user = "root"
group = "root"
cgroup_controllers = [{controllers}]
remember_owner = 0
namespaces = []
"""
_LIBVIRTD = """
listen_tls = 0
listen_tcp = 0
auth_unix_rw = "none"
auth_unix_ro = "none"
"""
# Where libvirt keeps what is its host's is covered, so that this one has a host to itself.
_START = """
set -e
folder=$1
mkdir -p /etc/libvirt /var/lib/libvirt /run/libvirt /var/cache/libvirt /var/log/libvirt
mount --bind "$folder/etc" /etc/libvirt
for place in lib cache log; do mount --bind "$folder/$place" "/var/$place/libvirt"; done
mount --bind "$folder/sockets" /run/libvirt
# libvirt looks its usual user up whoever else is named; the package that makes it also starts services.
echo libvirt-qemu:x:64055:64055::/:/usr/sbin/nologin | cat /etc/passwd - >"$folder/passwd"
echo libvirt-qemu:x:64055: | cat /etc/group - >"$folder/group"
for file in passwd group; do mount --bind "$folder/$file" "/etc/$file"; done
[ -e "$folder/virtlogd.pid" ] || virtlogd --daemon --pid-file "$folder/virtlogd.pid"
exec libvirtd --config "$folder/libvirtd.conf" --pid-file "$folder/libvirtd.pid"
"""
_READY = 30.0 * read_patience(os.environ)


def lacking() -> str:
    """What is not installed; "" for nothing."""
    return ", ".join(name for name in PROGRAMS if shutil.which(name) is None)


@contextmanager
def libvirt_service(folder: Path, netns: str | None = None, controllers: str = "") -> Iterator[str]:
    """The URI of its QEMU driver. It ends with this process. `netns` is the network namespace that it is to have,
    `controllers` those of which it makes control groups, as its configuration has them."""
    with prepared(folder, controllers), serving(folder, netns) as uri:
        yield uri


@contextmanager
def prepared(folder: Path, controllers: str = "") -> Iterator[None]:
    """A folder with its settings, and what it keeps from one start to the next."""
    _write_settings(folder, controllers)
    try:
        yield
    finally:
        _end(folder / "virtlogd.pid")
        shutil.rmtree(folder, ignore_errors=True)


def _write_settings(folder: Path, controllers: str = "") -> None:
    for place in ("etc", "lib", "cache", "log", "sockets"):
        (folder / place).mkdir(parents=True, exist_ok=True)
    (folder / "etc/qemu.conf").write_text(_QEMU.format(controllers=controllers))
    (folder / "libvirtd.conf").write_text(_LIBVIRTD)


@contextmanager
def serving(folder: Path, netns: str | None = None) -> Iterator[str]:
    """The URI of its QEMU driver, as long as it runs in a folder that is prepared. It ends with this process."""
    starting = [
        *(("nsenter", f"--net=/run/netns/{netns}", "--") if netns else ()),
        *(str(probe.path()), "launch", f"--die-with-parent={os.getpid()}", "--"),
        *("unshare", "--mount", "--propagation", "slave", "--", "sh", "-c", _START, "start", str(folder)),
    ]
    with _listening(folder, starting) as socket:
        yield f"qemu:///system?socket={socket}"


@contextmanager
def serving_there(far: "FarHost") -> Iterator[None]:
    """Run one at the usual place of a far host that has this host's programs. Its virtlogd ends with that host."""
    folder = far.folder / "state/libvirt"
    _write_settings(folder)
    with _listening(folder, far.command("sh", "-c", _START, "start", "/var/lib/nearmetal/libvirt")):
        yield


@contextmanager
def _listening(folder: Path, starting: Sequence[str]) -> Iterator[Path]:
    """Start it by a command and yield its socket; end it afterwards."""
    socket = folder / "sockets/libvirt-sock"
    socket.unlink(missing_ok=True)
    with (folder / "log/output").open("wb") as log:
        service = subprocess.Popen(starting, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        until = time.monotonic() + _READY
        while not socket.exists():
            assert service.poll() is None and time.monotonic() < until, (folder / "log/output").read_text()
            time.sleep(0.05)
        yield socket
    finally:
        if (status := service.poll()) is not None:
            said = (folder / "log/output").read_text()
            print(f"libvirtd ended by itself, with {status}:\n{said}", file=sys.stderr)
        service.terminate()
        service.wait(_READY)


def _end(pid: Path) -> None:
    if pid.exists():
        subprocess.run(["kill", pid.read_text().strip()], check=False, capture_output=True)
