"""A kernel for a guest of the lab's image that is not the image's own: the host's, a file, or another image's.

It is made ready once and kept by its content and that of its modules: as QEMU boots it fastest, with an initial RAM
disk that has those of its modules which a guest of the lab needs. `nearmetal-init` runs the seed's `start`, which puts
the others in their place.
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
from typing import Final, Never

from nearmetal.config import Paths
from nearmetal.errors import HostCannot, ToolFailed
from nearmetal.lab import machine_image
from nearmetal.lab.architecture import X86_64
from nearmetal.lab.image import Image, kernel, modules, newc
from nearmetal.lab.image.build import sha256
from nearmetal.lab.image.modules import Tree
from nearmetal.lab.image.recipe import Modules, ModuleSet
from nearmetal.lab.image.transfer import Parts
from nearmetal.lab.local_site import run_checked
from nearmetal.model import Site
from nearmetal.system.files import refuse_irregular

BUILDER: Final = 2
"""Raised when something else comes out of the same kernel."""
HOST: Final = "host"
WHERE: Final = "machine.kernel"
_NEEDED: Final = ("virtio_pci", "virtio_blk", "virtio_net", "ext4")
"""Without these a guest has no disk, no control network, or no root."""
_REMEDY: Final = "name a kernel whose modules lie in /lib/modules, or beside it in ../lib/modules"
_ELF: Final = b"\x7fELF"
_PLACE: Final = "own-modules"
"""Where its modules lie in the initial RAM disk."""
_BANNER: Final = re.compile(rb"Linux version (\S+) [^\0\n]* (?=#\d)[^\0\n]+")
"""What the kernel says in /proc/version, as it stands in its file (init/version-timestamp.c)."""
_PVH: Final = tuple(struct.pack("<III4s", 4, size, 18, b"Xen\0") for size in (4, 8))
"""The ELF note by which QEMU enters an uncompressed kernel (XEN_ELFNOTE_PHYS32_ENTRY)."""
LAY: Final = "/run/nearmetal/lay-modules"
"""The script in a guest that does so, for each other `start`."""
_LAY: Final = """#!/bin/sh
mkdir -p "/usr/lib/modules/{release}" && mount --bind /run/nearmetal/modules "/usr/lib/modules/{release}"
"""


@dataclass(frozen=True)
class _Found:
    """A kernel in its file, not unpacked: that takes most of a second."""

    file: Path
    content: bytes
    release: str
    modules: Path | None
    """The folder of its modules; None if it has none."""

    @property
    def is_elf(self) -> bool:
        return self.content[:4] == _ELF


async def exchange_kernel(parts: Parts, named: str | None, image: Image, site: Site) -> Parts:
    """A guest's parts with the kernel that a study names. HostCannot, with the remedy, if no guest can boot it."""
    if named is None:
        return parts
    folder = await asyncio.to_thread(_prepare, named, image, await _running(named, site))
    files = [folder / name for name in ("vmlinux", "initrd")]
    made, initrd = [await site.place(file, sha256(file) if site.spec else "") for file in files]
    told = json.loads((folder / "kernel.json").read_text("utf-8"))
    return replace(parts, kernel=made, initrd=initrd, banner=told["banner"])


async def _running(named: str, site: Site) -> str:
    """The release of the host's kernel, if that is asked for."""
    if named != HOST:
        return ""
    if site.spec is not None:
        what = "the kernel of another host is not fetched from there"
        raise HostCannot(what, WHERE, "name a copy of it on this host")
    return (await run_checked(site, "uname", "-r")).decode().strip()


def _prepare(named: str, image: Image, running: str) -> Path:
    """The folder of what is ready to boot. HostCannot."""
    found = _find(named, running)
    tree = _read_tree(found)
    folder = Paths.default().cache / "kernels" / _hash(found, tree, image)[:32]
    if not (folder / "kernel.json").exists():
        elf = _unpack(found)
        _require(found, tree, elf)
        # The first one in the file is for version strings of its own, without the number of its build.
        banner = _read_banner(elf, found.file)[0].decode("utf-8", "replace").rstrip()
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as work:
            _write(found, tree, elf, image, Path(work))
            Path(work, "kernel.json").write_text(json.dumps({"release": found.release, "banner": banner}))
            folder.mkdir(exist_ok=True)
            for name in ("vmlinux", "initrd", "kernel.json"):  # the last one says that all are there
                Path(work, name).replace(folder / name)
    return folder


def _hash(found: _Found, tree: Tree, image: Image) -> str:
    """Of all that what is made ready depends on."""
    wanted = _leave_known(Modules.of_recipe(), tree)
    digest = hashlib.sha256(f"{BUILDER} {wanted}".encode())
    for content in (found.content, image.initrd.read_bytes()):
        digest.update(hashlib.sha256(content).digest())
    if found.modules is not None:
        names = tree.ordered((*wanted.early, *wanted.guest))
        files = [_find_module(found.modules, tree.files[name])[0] for name in names]
        for file in (*files, *_list_lists(found.modules)):
            digest.update(f"\0{file.relative_to(found.modules)}\0".encode())
            digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def _list_lists(folder: Path) -> list[Path]:
    names = ("modules.dep", "modules.order", "modules.builtin", "modules.builtin.modinfo")
    return [folder / name for name in names if (folder / name).is_file()]


def _find(named: str, running: str) -> _Found:
    if named == HOST:
        file = Path(f"/boot/vmlinuz-{running}")
        if not file.exists():
            remedy = 'install its package, or name a kernel: machine.kernel = "/boot/vmlinuz-…"'
            raise HostCannot(f"this host has no file of the kernel that it runs: {file}", WHERE, remedy)
    elif named.startswith("/"):
        file = Path(named)
    else:
        other = machine_image.find_image(named)
        return _read(other.kernel, [other.root / "usr/lib/modules"])
    return _read(file, [file.parent.parent / "lib/modules", Path("/lib/modules")])


def _read(file: Path, places: Iterable[Path]) -> _Found:
    try:
        refuse_irregular(str(file))
        content = file.read_bytes()
    except OSError as error:
        what = f"the kernel cannot be read: {error.strerror}"
        raise HostCannot(what, str(file), "name a vmlinuz or vmlinux") from None
    if content[:4] == _ELF:
        release = _read_banner(content, file)[1].decode("ascii", "replace")
    else:
        release = kernel.read_release(content) or _refuse(file)
    folders = [place / release for place in places if (place / release).is_dir()]
    listed = next((folder for folder in folders if (folder / "modules.dep").is_file()), None)
    if listed is None and folders:
        remedy = f"have it written: depmod --basedir {folders[0].parents[2]} {release}"
        raise HostCannot(f"{folders[0]} has no list of its modules, modules.dep", str(file), remedy)
    return _Found(file, content, release, listed)


def _refuse(file: Path) -> Never:
    raise HostCannot(f"this is no Linux kernel for {X86_64.title}", str(file), "name a vmlinuz or vmlinux")


def _read_banner(elf: bytes, file: Path) -> re.Match[bytes]:
    return _BANNER.search(elf) or _refuse(file)


def _unpack(found: _Found) -> bytes:
    try:
        return found.content if found.is_elf else kernel.find_vmlinux(found.content, str(found.file))
    except ToolFailed as error:
        remedy = f"name a Linux kernel for {X86_64.title}: vmlinuz or vmlinux"
        raise HostCannot(error.what, str(found.file), remedy) from None


def _require(found: _Found, tree: Tree, elf: bytes) -> None:
    """HostCannot for a kernel that lacks what every guest of the lab needs."""
    lacking = [name for name in _NEEDED if name not in tree.files and not _is_built_in(name, tree, elf)]
    if lacking:
        of = f"in {found.modules}" if found.modules else f"(there is no /lib/modules/{found.release})"
        what = f"the kernel {found.release} has no {', '.join(lacking)}, neither built in nor as a module {of}"
        raise HostCannot(what, str(found.file), _REMEDY)
    if found.is_elf and not any(note in elf for note in _PVH):
        raise HostCannot("QEMU enters no uncompressed kernel without PVH", str(found.file), "name the vmlinuz of it")


def _is_built_in(name: str, tree: Tree, elf: bytes) -> bool:
    """By its list, else by the driver's name: without that in it, it can register no such driver."""
    return name in tree.built_in or (
        not tree.files and any(f"\0{one}\0".encode() in elf for one in (name, name.replace("_", "-")))
    )


def _read_tree(found: _Found) -> Tree:
    if found.modules is None:
        return Tree({}, {}, frozenset())
    listed = re.sub(r"\.ko\.(xz|gz|zst)\b", ".ko", (found.modules / "modules.dep").read_text("utf-8"))
    return modules.parse(listed, (found.modules / "modules.builtin").read_text("utf-8"))


def _write(found: _Found, tree: Tree, elf: bytes, image: Image, work: Path) -> None:
    is_entered = any(note in elf for note in _PVH)
    (work / "vmlinux").write_bytes(elf if is_entered else found.content)
    wanted = _leave_known(Modules.of_recipe(), tree)
    files = {"modules.json": (modules.list_modules(tree, wanted, f"/{_PLACE}"), 0o644)}
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

    def of(kind: ModuleSet) -> ModuleSet:
        return ModuleSet(known(kind.always), {device: known(names) for device, names in kind.by_device.items()})

    return Modules(known(wanted.buses), of(wanted.disks), of(wanted.network), known(wanted.guest))


def _lay_late(found: _Found, tree: Tree, names: list[str], work: Path) -> dict[str, tuple[bytes, int]]:
    """Modules that a guest may load once it has its root, with depmod's lists, as files of the seed."""
    assert found.modules is not None
    below = work / "late/lib/modules" / found.release
    for name in names:
        file = below / tree.files[name]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(_read_module(found.modules, tree.files[name]))
    for listed in _list_lists(found.modules):  # depmod writes the first anew
        shutil.copy(listed, below / listed.name)
    depmod = ["depmod", "--basedir", str(work / "late"), found.release]
    ended = subprocess.run(depmod, capture_output=True, text=True, timeout=60, check=False)
    if ended.returncode != 0:
        raise HostCannot(f"depmod failed: {ended.stderr.strip()[-300:]}", str(found.modules), "apt-get install kmod")
    files = [one for one in below.rglob("*") if one.is_file()]
    laid = {f"seed/modules/{one.relative_to(below)}": (one.read_bytes(), 0o644) for one in files}
    lay = (_LAY.format(release=found.release).encode(), 0o755)
    return laid | {f"seed/{Path(LAY).name}": lay, "seed/start": lay}


def _read_module(folder: Path, path: str) -> bytes:
    """Neither compressed nor signed."""
    file, program = _find_module(folder, path)
    content = file.read_bytes()
    match program:
        case "xz":
            content = lzma.decompress(content)
        case "gz":
            content = gzip.decompress(content)
        case "zst":
            content = kernel.decompress_by("zstd", content, str(file))
    return modules.strip_signature(content)


def _find_module(folder: Path, path: str) -> tuple[Path, str]:
    """Its file, and how that is packed: "xz", "gz", "zst", or "" if it is not."""
    for packing in ("", "xz", "gz", "zst"):
        file = folder / (f"{path}.{packing}" if packing else path)
        if file.is_file():
            return file, packing
    raise HostCannot(f"its module {path} is listed and not there", str(folder), "install its package again")
