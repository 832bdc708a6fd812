"""A kernel for a guest of the lab's image that is not the image's own: the host's, a file, or another image's.

It is made ready once and kept by its content: as QEMU boots it fastest, with an initial RAM disk that has those of its
modules which a guest of the lab needs. `nearmetal-init` runs the seed's `start`, which puts the others in their place.
"""

import asyncio
import gzip
import hashlib
import json
import lzma
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from nearmetal.config import Paths
from nearmetal.errors import HostCannot, ToolFailed
from nearmetal.files import refuse_irregular
from nearmetal.lab import machine as lab_machine
from nearmetal.lab.image import Image, kernel, modules, newc
from nearmetal.lab.image.build import sha256
from nearmetal.lab.image.modules import Tree
from nearmetal.lab.image.placed import Parts
from nearmetal.lab.image.recipe import Modules, Wanted
from nearmetal.lab.site import must
from nearmetal.model import Site

HOST: Final = "host"
WHERE: Final = "machine.kernel"
_NEEDED: Final = ("virtio_pci", "virtio_blk", "virtio_net", "ext4")
"""Without these a guest has no disk, no control network, or no root."""
_REMEDY: Final = "name a kernel whose modules lie in /lib/modules, or beside it in ../lib/modules"
_PLACE: Final = "own-modules"
"""Where its modules lie in the initial RAM disk."""
_BANNER: Final = re.compile(rb"Linux version (\S+) [^\0\n]* (?=#\d)[^\0\n]+")
"""What the kernel says in /proc/version, as it stands in its file (init/version-timestamp.c)."""
_PVH: Final = tuple(struct.pack("<III4s", 4, size, 18, b"Xen\0") for size in (4, 8))
"""The ELF note by which QEMU enters an uncompressed kernel (XEN_ELFNOTE_PHYS32_ENTRY)."""
_START: Final = """#!/bin/sh
mkdir -p "/usr/lib/modules/{release}" && mount --bind /run/nearmetal/modules "/usr/lib/modules/{release}"
"""


@dataclass(frozen=True)
class _Found:
    file: Path
    modules: Path | None
    """The folder of its modules; None if it has none."""
    release: str
    banner: str
    elf: bytes


async def exchange(parts: Parts, named: str | None, image: Image, site: Site) -> Parts:
    """A guest's parts with the kernel that a study names. HostCannot, with the remedy, if no guest can boot it."""
    if named is None:
        return parts
    folder = await asyncio.to_thread(_prepare, named, image, await _running(named, site))
    made = []
    for name in ("vmlinux", "initrd"):
        file = folder / name
        made.append(await site.place(file, sha256(file) if site.spec else ""))
    told = json.loads((folder / "kernel.json").read_text("utf-8"))
    return replace(parts, kernel=made[0], initrd=made[1], banner=told["banner"])


async def _running(named: str, site: Site) -> str:
    """The release of the host's kernel, if that is asked for."""
    if named != HOST:
        return ""
    if site.spec is not None:
        raise HostCannot(
            "the kernel of another host is not fetched from there", WHERE, "name a copy of it on this host"
        )
    return (await must(site, "uname", "-r")).decode().strip()


def _prepare(named: str, image: Image, running: str) -> Path:
    """The folder of what is ready to boot. HostCannot."""
    found = _find(named, running)
    digest = hashlib.sha256(found.elf)
    for file in (image.initrd, *([found.modules / "modules.dep"] if found.modules else [])):
        digest.update(file.read_bytes())
    folder = Paths.default().cache / "kernels" / digest.hexdigest()[:32]
    if not (folder / "kernel.json").exists():
        with tempfile.TemporaryDirectory(dir=_made(folder.parent)) as work:
            _write(found, image, Path(work))
            Path(work, "kernel.json").write_text(json.dumps({"release": found.release, "banner": found.banner}))
            folder.mkdir(exist_ok=True)
            for name in ("vmlinux", "initrd", "kernel.json"):  # the last one says that all are there
                Path(work, name).replace(folder / name)
    return folder


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


# ── What it is ────────────────────────────────────────────────────────────────────────────────────────────────────


def _find(named: str, running: str) -> _Found:
    if named == HOST:
        file = Path(f"/boot/vmlinuz-{running}")
        if not file.exists():
            remedy = 'install its package, or name a kernel: machine.kernel = "/boot/vmlinuz-…"'
            raise HostCannot(f"this host has no file of the kernel that it runs: {file}", WHERE, remedy)
    elif named.startswith("/"):
        file = Path(named)
    else:
        other = lab_machine.image(named)
        return _read(other.kernel, [other.root / "usr/lib/modules"])
    return _read(file, [file.parent.parent / "lib/modules", Path("/lib/modules")])


def _read(file: Path, places: Iterable[Path]) -> _Found:
    try:
        refuse_irregular(str(file))
        content = file.read_bytes()
        elf = content if content[:4] == b"\x7fELF" else kernel.vmlinux(content, str(file))
    except OSError as error:
        raise HostCannot(
            f"the kernel cannot be read: {error.strerror}", str(file), "name a vmlinuz or vmlinux"
        ) from None
    except ToolFailed as error:
        raise HostCannot(error.what, str(file), "name a Linux kernel for x86-64: vmlinuz or vmlinux") from None
    banner = _BANNER.search(elf)
    if banner is None:
        raise HostCannot("this is no Linux kernel: it names no version", str(file), "name a vmlinuz or vmlinux")
    release = banner[1].decode("ascii", "replace")
    folder = next((place / release for place in places if (place / release / "modules.dep").is_file()), None)
    # The first one in the file is for version strings of its own, without the number of its build.
    found = _Found(file, folder, release, banner[0].decode("utf-8", "replace").rstrip(), elf)
    _require(found)
    return found


def _require(found: _Found) -> None:
    """HostCannot for a kernel that lacks what every guest of the lab needs."""
    tree = _tree(found)
    lacking = [name for name in _NEEDED if name not in tree.files and not _is_built_in(name, tree, found.elf)]
    if lacking:
        of = f"in {found.modules}" if found.modules else f"(there is no /lib/modules/{found.release})"
        what = f"the kernel {found.release} has no {', '.join(lacking)}, neither built in nor as a module {of}"
        raise HostCannot(what, str(found.file), _REMEDY)
    if not any(note in found.elf for note in _PVH) and found.file.read_bytes()[:4] == b"\x7fELF":
        raise HostCannot("QEMU enters no uncompressed kernel without PVH", str(found.file), "name the vmlinuz of it")


def _is_built_in(name: str, tree: Tree, elf: bytes) -> bool:
    """By its list, else by the driver's name: without that in it, it can register no such driver."""
    return name in tree.built_in or (
        not tree.files and any(f"\0{one}\0".encode() in elf for one in (name, name.replace("_", "-")))
    )


def _tree(found: _Found) -> Tree:
    if found.modules is None:
        return Tree({}, {}, frozenset())
    listed = re.sub(r"\.ko\.(xz|gz|zst)\b", ".ko", (found.modules / "modules.dep").read_text("utf-8"))
    return modules.parse(listed, (found.modules / "modules.builtin").read_text("utf-8"))


# ── Making it ready ───────────────────────────────────────────────────────────────────────────────────────────────


def _write(found: _Found, image: Image, work: Path) -> None:
    is_entered = any(note in found.elf for note in _PVH)
    (work / "vmlinux").write_bytes(found.elf if is_entered else found.file.read_bytes())
    tree = _tree(found)
    wanted = _leave_known(Modules.of_recipe(), tree)
    files = {"modules.json": (modules.listed(tree, wanted, f"/{_PLACE}"), 0o644)}
    if found.modules is not None:
        for name in tree.ordered(wanted.early):
            files[f"{_PLACE}/{tree.files[name]}"] = (_read_module(found.modules, tree.files[name]), 0o644)
        if late := tree.ordered(wanted.guest):
            files |= _lay_late(found, tree, late, work)
    # A later archive's file replaces an earlier one's.
    (work / "initrd").write_bytes(image.initrd.read_bytes() + newc.archive(newc.with_folders(files)))


def _leave_known(wanted: Modules, tree: Tree) -> Modules:
    def known(names: Iterable[str]) -> tuple[str, ...]:
        return tuple(one for one in names if modules.module_name(one) in tree.files)

    def of(kind: Wanted) -> Wanted:
        return Wanted(known(kind.always), {device: known(names) for device, names in kind.by_device.items()})

    return Modules(known(wanted.buses), of(wanted.disks), of(wanted.network), known(wanted.guest))


def _lay_late(found: _Found, tree: Tree, names: list[str], work: Path) -> dict[str, tuple[bytes, int]]:
    """Modules that a guest may load once it has its root, with depmod's lists, as files of the seed."""
    assert found.modules is not None
    below = work / "late/lib/modules" / found.release
    for name in names:
        file = below / tree.files[name]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(_read_module(found.modules, tree.files[name]))
    for listed in ("modules.order", "modules.builtin", "modules.builtin.modinfo"):
        if (found.modules / listed).is_file():
            shutil.copy(found.modules / listed, below / listed)
    ended = subprocess.run(
        ["depmod", "--basedir", str(work / "late"), found.release],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if ended.returncode != 0:
        raise HostCannot(f"depmod failed: {ended.stderr.strip()[-300:]}", str(found.modules), "apt-get install kmod")
    laid = {
        f"seed/modules/{one.relative_to(below)}": (one.read_bytes(), 0o644) for one in below.rglob("*") if one.is_file()
    }
    return laid | {"seed/start": (_START.format(release=found.release).encode(), 0o755)}


def _read_module(folder: Path, path: str) -> bytes:
    """Neither compressed nor signed."""
    plain = folder / path
    if plain.is_file():
        return modules.unsigned(plain.read_bytes())
    for suffix, unpack in ((".xz", lzma.decompress), (".gz", gzip.decompress), (".zst", kernel.decompress_zstd)):
        packed = folder / f"{path}{suffix}"
        if packed.is_file():
            return modules.unsigned(unpack(packed.read_bytes()))
    raise HostCannot(f"its module {path} is listed and not there", str(folder), "install its package again")
