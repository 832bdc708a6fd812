"""Which kernel modules a guest gets, and in which order they load."""

import json
import lzma
import shutil
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nearmetal.errors import ToolFailed
from nearmetal.system.files import remove_empty

from . import build_tools
from .recipe import Modules, ModuleSet

_SIGNED: Final = b"~Module signature appended~\n"
_SIGNATURE: Final = struct.Struct(">3x2B3xI")
"""What stands before that: algorithms, the lengths of the signer's name and of its key's, and of the signature."""


@dataclass(frozen=True)
class Tree:
    """What depmod found in a modules folder: each module's file, and the modules it needs, nearest last."""

    files: Mapping[str, str]
    needs: Mapping[str, tuple[str, ...]]
    built_in: frozenset[str]

    def ordered(self, names: Iterable[str]) -> list[str]:
        """The named modules with all they need, each after what it needs; those built into the kernel left out.

        Raises ToolFailed for a name the kernel does not have.
        """
        order: dict[str, None] = {}
        for name in map(module_name, names):
            if name in self.built_in:
                continue
            if name not in self.files:
                raise ToolFailed(f"this kernel has no module {name}", remedy="take it out of modules.toml")
            for needed in (*reversed(self.needs[name]), name):
                order[needed] = None
        return list(order)


def module_name(path: str) -> str:
    """The name in a path: "8139cp" from "kernel/drivers/…/8139cp.ko". The kernel takes "-" and "_" for one."""
    return path.rsplit("/", 1)[-1].split(".", 1)[0].replace("-", "_")


def parse(dependencies: str, built_in: str) -> Tree:
    """From the texts of modules.dep and modules.builtin."""
    files, needs = {}, {}
    for line in dependencies.splitlines():
        path, _, rest = line.partition(":")
        files[module_name(path)] = path
        needs[module_name(path)] = tuple(map(module_name, rest.split()))
    return Tree(files, needs, frozenset(map(module_name, built_in.split())))


def strip_signature(module: bytes) -> bytes:
    """A module without the signature that is appended to it, as the kernel's module_signature.h has it.

    To check one takes an emulated guest longer than all else of loading it, and nobody there asks for it.
    """
    if not module.endswith(_SIGNED):
        return module
    end = len(module) - len(_SIGNED) - _SIGNATURE.size
    signer, key, length = _SIGNATURE.unpack_from(module, end)
    return module[: end - length - signer - key]


async def prune_modules(root: Path, release: str, wanted: Modules) -> Tree:
    """Leave only the wanted modules, as plain files, in the root file system's modules folder of this release."""
    folder = root / "usr/lib/modules" / release
    await _depmod(root, release)
    whole = _read(folder)
    keep = {folder / whole.files[name] for name in whole.ordered((*wanted.early, *wanted.guest))}
    for path in list((folder / "kernel").rglob("*.ko*")):
        if path not in keep:
            path.unlink()
        else:
            _plain(path)
    remove_empty(path for path in sorted((folder / "kernel").rglob("*"), reverse=True) if path.is_dir())
    for leftover in ("source", "build"):
        (folder / leftover).unlink(missing_ok=True)
    await _depmod(root, release)
    return _read(folder)


def _plain(path: Path) -> None:
    """Neither compressed nor signed."""
    content = path.read_bytes()
    if path.suffix == ".xz":
        path.unlink()
        path, content = path.with_suffix(""), lzma.decompress(content)
    path.write_bytes(strip_signature(content))


def _read(folder: Path) -> Tree:
    return parse((folder / "modules.dep").read_text("utf-8"), (folder / "modules.builtin").read_text("utf-8"))


async def _depmod(root: Path, release: str) -> None:
    # The image's own depmod: the host may have none.
    status, text = await build_tools.run(("chroot", str(root), "/sbin/depmod", release), folder=root)
    if status != 0:
        raise ToolFailed(f"depmod failed: {text}", release)


def list_modules(tree: Tree, wanted: Modules, folder: str) -> bytes:
    """The initial RAM disk's modules.json: of each kind the files below `folder` in the order in which they load."""

    def files(names: Iterable[str]) -> list[str]:
        return [f"{folder}/{tree.files[name]}" for name in tree.ordered(names)]

    def whichever(kind: ModuleSet) -> Mapping[str, object]:
        by_device = {device: files(names) for device, names in kind.by_device.items()}
        return {"always": files(kind.always), "by_device": by_device}

    kinds = {"disks": whichever(wanted.disks), "network": whichever(wanted.network)}
    return json.dumps({"buses": files(wanted.buses), **kinds}, indent=1).encode()


def move_modules(unpacked: Path, root: Path) -> str:
    """Move the modules of an unpacked kernel package into the root file system; the kernel's release is returned."""
    releases = sorted((unpacked / "lib/modules").iterdir())
    target = root / "usr/lib/modules"
    target.mkdir(exist_ok=True)
    shutil.move(releases[0], target / releases[0].name)
    return releases[0].name
