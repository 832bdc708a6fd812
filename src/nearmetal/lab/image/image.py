"""A finished image: a folder whose parts belong together."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from nearmetal.errors import MALFORMED
from nearmetal.model import DebianPackage

SCHEMA = "image.v1"

ROOTS_ALONE = 0o700
"""Mode of `Image.root`, in which set-user-ID programs lie, as old as the image. No machine's own `/` has it: that of an
overlay has the mode of the upper directory."""


@dataclass(frozen=True)
class Image:
    """`key` says what it was made from, `digest` what it is: the SHA-256 of `tarball`, in hexadecimal."""

    name: str
    key: str
    digest: str
    folder: Path

    @property
    def tarball(self) -> Path:
        """The root file system as one tar archive, for container engines."""
        return self.folder / "rootfs.tar"

    @property
    def root(self) -> Path:
        """The root file system unpacked, for root alone. Never write to it: lay an overlay on it."""
        return self.folder / "root"

    @property
    def disk(self) -> Path:
        """The root file system as ext4 in a qcow2, to be the backing file of a machine's own disk."""
        return self.folder / "root.qcow2"

    @property
    def kernel(self) -> Path:
        """An uncompressed ELF kernel that QEMU boots by its PVH entry."""
        return self.folder / "vmlinux"

    @property
    def initrd(self) -> Path:
        """The common part of the initial RAM disk; what `seed_archive` makes is a machine's own."""
        return self.folder / "initrd"

    @property
    def manifest_path(self) -> Path:
        return self.folder / "manifest.json"

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """What is in it: `packages` (name to version), `debs` (name to SHA-256), `sizes` (bytes), `binaries` (path to
        SHA-256), `kernel`."""
        document: dict[str, Any] = json.loads(self.manifest_path.read_text("utf-8"))
        return document

    @property
    def packages(self) -> dict[str, DebianPackage]:
        """What it was made of, by name; empty for an image of a user's own, or of an earlier version of nearmetal."""
        versions, digests = self.manifest["packages"], self.manifest.get("debs", {})
        return {name: DebianPackage(version=versions[name], sha256=digest) for name, digest in digests.items()}

    @property
    def made(self) -> datetime:
        """When it was finished, by UTC."""
        return datetime.fromtimestamp(self.manifest_path.stat().st_mtime, UTC)

    @property
    def occupied(self) -> int:
        """Bytes on disk, of all its forms."""
        return sum(path.lstat().st_blocks * 512 for path in self.folder.rglob("*"))


@dataclass(frozen=True)
class Process:
    """What an image starts, as its configuration says; an empty `argv` if it starts nothing."""

    argv: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    user: str = ""
    """A name of the image's /etc/passwd; "" for root."""
    directory: str = "/"

    @classmethod
    def of(cls, image: Image) -> "Process":
        told = image.manifest.get("process", {})
        return cls(**{**told, "argv": tuple(told["argv"])}) if told else cls()


def read(folder: Path) -> Image | None:
    """The image in a folder, or None where there is none or a part of it is missing or has another size."""
    try:
        document = json.loads((folder / "manifest.json").read_text("utf-8"))
        if document["schema"] != SCHEMA:
            return None
        image = Image(document["name"], document["key"], document["digest"], folder)
        sizes_fit = [(folder / part).stat().st_size == size for part, size in document["sizes"].items()]
        whole = image.root.is_dir() and all(sizes_fit)
    except (OSError, *MALFORMED):
        return None
    return image if whole else None
