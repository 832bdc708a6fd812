"""What an image is made of, and the key that stands for all of it."""

import hashlib
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath

from nearmetal.errors import BadInput
from nearmetal.lab.architecture import HERE

BUILDER = 2
"""Raised when the builder's code changes what comes out of the same recipe and the same `files/`."""

PACKAGES = {
    "lighttpd": "the web server under test",
    "php-cgi": "its expensive page",
    "iperf3": "the network workload",
    "sysbench": "the CPU, memory and file workload",
    "httperf": "the open-loop client of the first and the last of the published studies",
    "stress-ng": "contention by CPU, I/O and memory",
    "openssh-server": "the control plane of a guest",
    "ethtool": "offloads, set and read back",
    "iproute2": "links, queueing disciplines (tc) and sockets (ss)",
    "tcpdump": "captures",
    "iputils-ping": "round trips by hand",
    "procps": "sysctl, ps, top",
    "util-linux": "taskset, chrt, unshare, mount",
    "kmod": "modprobe in a guest",
}
"""What the image holds beyond Debian's minimal base, and why."""

FILES = resources.files(__package__) / "files"
"""What is laid into every image; part of the key."""

_NAME = re.compile(r"[A-Za-z0-9._-]+")
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9.+-]+")
_SUITE = re.compile(r"[a-z][a-z0-9-]*")


@dataclass(frozen=True)
class Recipe:
    """A Debian `suite` with the lab's packages and files, and what a user adds.

    `packages` are extra Debian packages; `files` are (source file on this host, absolute destination in the image).
    Raises BadInput for a name, suite, package, file or destination that cannot be.
    """

    name: str = "lab"
    suite: str = "bookworm"
    packages: tuple[str, ...] = ()
    files: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        check_name(self.name)
        if not _SUITE.fullmatch(self.suite):
            raise BadInput(f"{self.suite!r} is no Debian suite", remedy="name one like 'bookworm'")
        for package in self.packages:
            if not _PACKAGE.fullmatch(package):
                what = f"{package!r} is no name of a Debian package"
                raise BadInput(what, remedy="apt-cache search finds packages' names")
        check_files(self.files)

    @property
    def all_packages(self) -> tuple[str, ...]:
        """Sorted, each once."""
        return tuple(sorted({*PACKAGES, *self.packages}))

    @cached_property
    def key(self) -> str:
        """Hexadecimal SHA-256 over everything of ours that determines the image.

        The package archive's state is not in it: an image that was built stays valid when Debian publishes updates.
        """
        digest = hashlib.sha256()
        facts = (str(BUILDER), self.name, self.suite, HERE.debian, *self.all_packages)
        digest.update("\0".join(facts).encode())
        for path, file in tree(FILES):
            digest.update(f"\0{path}\0".encode() + hashlib.sha256(file.read_bytes()).digest())
        for fact in hash_files(self.files):
            digest.update(fact)
        return digest.hexdigest()


def hash_files(files: Iterable[tuple[str, str]]) -> Iterator[bytes]:
    """What stands in a key for files that a user adds: destination, permissions, content."""
    for source, destination in sorted(files):
        mode = Path(source).stat().st_mode & 0o777
        with Path(source).open("rb") as file:
            yield f"\0{destination}\0{mode:o}\0".encode() + hashlib.file_digest(file, "sha256").digest()


def tree(folder: Traversable, below: str = "") -> Iterator[tuple[str, Traversable]]:
    """The files below a folder of the package, sorted, each with its path relative to the folder."""
    for item in sorted(folder.iterdir(), key=lambda item: item.name):
        path = f"{below}{item.name}"
        if item.is_dir():
            yield from tree(item, f"{path}/")
        else:
            yield path, item


@dataclass(frozen=True)
class ModuleSet:
    """Modules that a guest needs, whatever it has, and by PCI device or class."""

    always: tuple[str, ...]
    by_device: Mapping[str, tuple[str, ...]]

    @property
    def all(self) -> tuple[str, ...]:
        return (*self.always, *(name for names in self.by_device.values() for name in names))


@dataclass(frozen=True)
class Modules:
    """The kernel modules to keep, from `files/modules.toml`."""

    buses: tuple[str, ...]
    disks: ModuleSet
    network: ModuleSet
    guest: tuple[str, ...]

    @classmethod
    def of_recipe(cls) -> "Modules":
        def had(names: Iterable[str]) -> tuple[str, ...]:
            return tuple(name for name in names if name not in HERE.absent_modules)

        document = tomllib.loads((FILES / "modules.toml").read_text("utf-8"))
        early = document["initramfs"]
        disks, network = (
            ModuleSet(
                had(early[kind]["always"]),
                {device: had(names) for device, names in early[kind]["by_device"].items()},
            )
            for kind in ("disks", "network")
        )
        guest = had(name for names in document["guest"].values() for name in names)
        return cls(had(early["buses"]), disks, network, guest)

    @property
    def early(self) -> tuple[str, ...]:
        """Those which a guest may need before it has its root."""
        return (*self.buses, *self.disks.all, *self.network.all)


def check_name(name: str) -> None:
    """BadInput."""
    if not _NAME.fullmatch(name) or name.startswith("."):
        raise BadInput(f"{name!r} is no name for an image", remedy="use letters, digits, '.', '_' and '-'")


def check_files(files: Iterable[tuple[str, str]]) -> None:
    """Of (source file on this host, absolute destination in the image). BadInput."""
    given = list(files)
    for source, destination in given:
        if not Path(source).is_file():
            raise BadInput("this is no file, so it cannot go into the image", source, "name a regular file")
        target = PurePosixPath(destination)
        if not target.is_absolute() or ".." in target.parts or destination.endswith("/"):
            what = f"{destination!r} is no place for a file in the image"
            raise BadInput(what, source, "name an absolute path that ends in a file")
    destinations = [str(PurePosixPath(destination)) for _, destination in given]
    twice = next((one for one in destinations if destinations.count(one) > 1), None)
    if twice:
        raise BadInput(f"two files are to lie at {twice!r} in the image", remedy="give each a place of its own")
