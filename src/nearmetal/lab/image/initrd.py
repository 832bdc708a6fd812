"""The initial RAM disk of a guest: the common part, made with the image, and a seed per machine.

What the kernel runs first, /init, is the probe: it comes with the seed, so that the image does not depend on it.
"""

import stat
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Final

from nearmetal.errors import BadInput
from nearmetal.lab import probe

from . import newc
from .modules import Tree, list_modules
from .recipe import Modules

FIRST: Final = "init"
_MODULES: Final = "modules"


def build_base(busybox: bytes, modules_folder: Path, tree: Tree, wanted: Modules) -> bytes:
    """The archive that holds the modules which a guest needs before it has its root, and busybox for who wants it."""
    files = {"bin/busybox": (busybox, 0o755), "modules.json": (list_modules(tree, wanted, f"/{_MODULES}"), 0o644)}
    for name in tree.ordered(wanted.early):
        files[f"{_MODULES}/{tree.files[name]}"] = ((modules_folder / tree.files[name]).read_bytes(), 0o644)
    return newc.archive(
        [
            *map(newc.folder, ("dev", "proc", "root", "run", "sys")),
            newc.ArchiveEntry("dev/console", stat.S_IFCHR | 0o600, device=(5, 1)),
            *newc.with_folders(files),
            newc.link("bin/sh", "busybox"),
        ]
    )


def seed_archive(files: Mapping[str, tuple[bytes, int]]) -> bytes:
    """The archive that has /init, and what that finds as /seed: it follows upon the image's initial RAM disk.

    `files` maps a path below /run/nearmetal to its content and permissions: keys, whatever belongs to one machine and
    never to the image. The probe is there in any case. BadInput for a path that leads outside.
    """
    below = {FIRST: (probe.content(), 0o755)}
    for name, content in files.items():
        path = PurePosixPath(name)
        if path.is_absolute() or not path.parts or ".." in path.parts:
            raise BadInput(f"{name!r} is no path below /run/nearmetal", remedy="give a relative path without '..'")
        below[f"seed/{path}"] = content
    return newc.archive(newc.with_folders(below))
