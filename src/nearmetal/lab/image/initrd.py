"""The initial RAM disk of a guest: the common part, made with the image, and a seed per machine."""

import asyncio
import stat
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from nearmetal.errors import BadInput

from . import newc
from .image import Image
from .modules import Tree, dependencies, shell_functions
from .recipe import FILES, Modules

_APPLETS = ("sh", "mount", "mkdir", "modprobe", "ip", "sleep", "cp", "ls", "switch_root")


def base(busybox: bytes, modules_folder: Path, tree: Tree, wanted: Modules) -> bytes:
    """The archive that holds /init, busybox and the modules which a guest needs before it has its root."""
    files = {
        "bin/busybox": (busybox, 0o755),
        "init": ((FILES / "initramfs/init").read_bytes(), 0o755),
        "etc/fstab": ((FILES / "initramfs/fstab").read_bytes(), 0o644),
        "etc/fstab.root": ((FILES / "initramfs/fstab.root").read_bytes(), 0o644),
        "modules.sh": (shell_functions(wanted).encode(), 0o644),
    }
    release = f"lib/modules/{modules_folder.name}"
    files[f"{release}/modules.dep"] = (dependencies(tree, wanted.early).encode(), 0o644)
    for name in tree.ordered(wanted.early):
        files[f"{release}/{tree.files[name]}"] = ((modules_folder / tree.files[name]).read_bytes(), 0o644)
    return newc.archive(
        [
            *map(newc.folder, ("dev", "proc", "root", "run", "sys")),
            newc.Entry("dev/console", stat.S_IFCHR | 0o600, device=(5, 1)),
            *newc.with_folders(files),
            *(newc.link(f"bin/{applet}", "busybox") for applet in _APPLETS),
        ]
    )


async def seed_initrd(image: Image, files: Mapping[str, tuple[bytes, int]], out: Path) -> Path:
    """Write `out`: the image's initial RAM disk and after it the files, which the guest finds in /run/nearmetal.

    `files` maps a path below /run/nearmetal to its content and permissions: the probe, keys, whatever belongs to one
    machine and never to the image. `out` is readable by its owner alone. Raises BadInput for a path that leads outside.
    """
    seed = seed_archive(files)
    await asyncio.to_thread(_write, out, image.initrd.read_bytes(), seed)
    return out


def seed_archive(files: Mapping[str, tuple[bytes, int]]) -> bytes:
    """The archive that /init finds as /seed."""
    below = {}
    for name, content in files.items():
        path = PurePosixPath(name)
        if path.is_absolute() or not path.parts or ".." in path.parts:
            raise BadInput(f"{name!r} is no path below /run/nearmetal", remedy="give a relative path without '..'")
        below[f"seed/{path}"] = content
    return newc.archive(newc.with_folders(below))


def _write(out: Path, *parts: bytes) -> None:
    out.unlink(missing_ok=True)
    out.touch(mode=0o600)
    out.write_bytes(b"".join(parts))
