"""A second host for tests: a real sshd, from the lab image, in namespaces of its own on this one.

It has its own files, process ids and host name, and its own network where one is named; the kernel and the control
groups are this host's. It ends with the process that started it.
"""

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import asyncssh

from nearmetal.lab import probe
from nearmetal.lab.image import Image

OWN = "/opt/far"

CONFIG = """
Port {port}
ListenAddress {address}
HostKey /etc/far/host_key
AuthorizedKeysFile /etc/far/authorized_keys
UsePAM no
PasswordAuthentication {passwords}
PermitRootLogin yes
UseDNS no
"""


@dataclass
class FarHost:
    address: str
    port: int
    folder: Path
    """Its own /var/cache/nearmetal and /var/lib/nearmetal are `cache` and `state` in there."""
    holder: "subprocess.Popen[bytes]"
    first: int
    """Its first process."""
    host_key: asyncssh.SSHKey

    @property
    def ssh(self) -> str:
        return f"root@{self.address}:{self.port}"

    @property
    def known(self) -> str:
        """Its line of known_hosts."""
        where = self.address if self.port == 22 else f"[{self.address}]:{self.port}"
        return f"{where} {self.host_key.export_public_key().decode()}"

    def run(self, *argv: str) -> str:
        """What a command says there."""
        return subprocess.run(self.command(*argv), capture_output=True, text=True, check=True).stdout

    def command(self, *argv: str) -> list[str]:
        """What runs a command there."""
        return [str(probe.path()), "launch", "--enter", str(self.first), "--", *argv]

    def cut_sessions(self) -> None:
        """Kill what serves its SSH connections; one that ends by itself meanwhile is as good."""
        sessions = [line.split()[0] for line in self.run("ps", "-eo", "pid,args").splitlines() if "sshd: root" in line]
        self.run("sh", "-c", f"kill -9 {' '.join(sessions)} || true")


@dataclass
class User:
    """Whose keys and known hosts decide: a home folder."""

    home: Path

    @property
    def folder(self) -> Path:
        return self.home / ".ssh"

    def know(self, *hosts: FarHost) -> None:
        (self.folder / "known_hosts").write_text("\n".join(host.known.strip() for host in hosts) + "\n")


def user(home: Path) -> tuple[User, asyncssh.SSHKey]:
    """A home with a key in it, and no host known."""
    key = asyncssh.generate_private_key("ssh-ed25519")
    (home / ".ssh").mkdir(parents=True, mode=0o700)
    key.write_private_key(str(home / ".ssh/id_ed25519"))
    return User(home), key


@contextlib.contextmanager
def far_host(
    image: Image,
    folder: Path,
    user_key: asyncssh.SSHKey,
    *,
    address: str = "127.0.0.1",
    port: int,
    netns: str | None = None,
    cache: Path | None = None,
    programs_of_this_host: bool = False,
    in_place_of: Mapping[str, Path] = MappingProxyType({}),
    passwords: bool = False,
) -> Iterator[FarHost]:
    """`netns`: the name of a network namespace that has the address. QEMU is not in the image, but here.

    `in_place_of`: files of this host that stand where others of the image are. `passwords`: it asks for one.
    """
    settings = folder / "far"
    settings.mkdir(parents=True)
    cache, state = cache or folder / "cache", folder / "state"
    for place in (cache, state, folder / "scratch"):
        place.mkdir(parents=True, exist_ok=True)
    host_key = asyncssh.generate_private_key("ssh-ed25519")
    host_key.write_private_key(str(settings / "host_key"))
    (settings / "host_key").chmod(0o600)
    user_key.write_public_key(str(settings / "authorized_keys"))
    asks = "yes" if passwords else "no"
    (settings / "sshd_config").write_text(CONFIG.format(address=address, port=port, passwords=asks))
    bound = {
        settings: "/etc/far",
        cache: "/var/cache/nearmetal",
        state: "/var/lib/nearmetal",
        Path("/sys/fs/cgroup"): "/sys/fs/cgroup",
        **{here: there for there, here in in_place_of.items()},
    }
    if programs_of_this_host:
        wrappers = next(image.root.glob("usr/lib/*/libwrap.so.0"))  # of all that sshd needs, this host may lack it
        bound |= {
            Path("/usr"): "/usr",
            image.root / "usr/sbin/sshd": f"{OWN}/sshd",
            wrappers.resolve(): f"{OWN}/libwrap.so.0",
        }
    sshd = f"{OWN}/sshd" if programs_of_this_host else "/usr/sbin/sshd"
    holder = subprocess.Popen(
        [
            *(("nsenter", f"--net=/run/netns/{netns}", "--") if netns else ()),
            *(str(probe.path()), "hold", f"--die-with-parent={os.getpid()}"),
            *("--root", str(image.root), "--scratch", str(folder / "scratch"), "--hostname", "far"),
            *(word for here, there in bound.items() for word in ("--bind", f"{here}:{there}")),
        ],
        stdout=subprocess.PIPE,
    )
    try:
        assert holder.stdout
        first = int(json.loads(holder.stdout.readline())["pid"])
        host = FarHost(address, port, folder, holder, first, host_key)
        host.run("mkdir", "-p", "/run/sshd")
        host.run("env", f"LD_LIBRARY_PATH={OWN}", sshd, "-f", "/etc/far/sshd_config")
        # It leaves for the background before it listens; its number is written after.
        host.run("timeout", "20", "sh", "-c", "until [ -s /run/sshd.pid ]; do sleep 0.02; done")
        yield host
    finally:
        holder.terminate()
        holder.wait(10)
        assert holder.stdout
        holder.stdout.close()
