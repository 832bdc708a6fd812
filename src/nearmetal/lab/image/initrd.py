"""The initial RAM disk of a guest: the common part, made with the image, and a seed per machine."""

import asyncio
import stat
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from nearmetal.errors import BadInput

from . import newc
from .image import Image
from .modules import Tree, shell_functions
from .recipe import FILES, Modules

_APPLETS = ("sh", "mount", "insmod", "ip", "findfs", "sleep", "cp", "cat", "mkdir", "switch_root")


def base(busybox: bytes, modules_folder: Path, tree: Tree, wanted: Modules) -> bytes:
    """The archive that holds /init, busybox and the modules which a guest needs before it has its root."""
    names = tree.ordered((*wanted.always, *(name for names in wanted.by_device.values() for name in names)))
    entries = [
        *map(newc.folder, ("bin", "dev", "loaded", "modules", "proc", "root", "run", "sys")),
        newc.Entry("dev/console", stat.S_IFCHR | 0o600, device=(5, 1)),
        newc.Entry("dev/null", stat.S_IFCHR | 0o666, device=(1, 3)),
        newc.regular("bin/busybox", busybox, 0o755),
        *(newc.link(f"bin/{applet}", "busybox") for applet in _APPLETS),
        newc.regular("init", (FILES / "initramfs/init").read_bytes(), 0o755),
        newc.regular("pci-modules.sh", shell_functions(tree, wanted).encode()),
        *(newc.regular(f"modules/{name}.ko", (modules_folder / tree.files[name]).read_bytes()) for name in names),
    ]
    return newc.archive(entries)


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
    folders: dict[str, None] = {"seed": None}
    for name in sorted(files):
        path = PurePosixPath(name)
        if path.is_absolute() or not path.parts or ".." in path.parts:
            raise BadInput(f"{name!r} is no path below /run/nearmetal", remedy="give a relative path without '..'")
        for parent in reversed(path.parents[:-1]):
            folders[f"seed/{parent}"] = None
    return newc.archive(
        [
            *map(newc.folder, folders),
            *(newc.regular(f"seed/{PurePosixPath(name)}", *files[name]) for name in sorted(files)),
        ]
    )


def _write(out: Path, *parts: bytes) -> None:
    out.unlink(missing_ok=True)
    out.touch(mode=0o600)
    out.write_bytes(b"".join(parts))
