"""From a recipe to an image in the cache."""

import asyncio
import hashlib
import json
import os
import shutil
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

from nearmetal.errors import HostCannot, ToolFailed
from nearmetal.lab.architecture import HERE, require_known
from nearmetal.system import system_errors

from . import bootstrap, build_tools, disk, initrd, kernel, modules, rootfs, store
from .image import ROOTS_ALONE, SCHEMA, Image, read
from .recipe import Modules, Recipe

SPACE = 3 << 30
"""Bytes a build needs while it runs; the finished image takes about a third."""

BINARIES = ("/usr/sbin/lighttpd", "/usr/bin/php-cgi", "/usr/bin/iperf3", "/usr/bin/sysbench", "/usr/sbin/sshd")
"""Whose hashes the manifest records: the servers and tools that results depend on."""


async def build(recipe: Recipe, cache: Path, progress: Callable[[str], None]) -> Image:
    """The recipe's image: the cached one if it is whole, else built now, which takes a minute or two.

    Raises HostCannot where tools, rights, space or the network are missing, BadInput for packages Debian does not have.
    """
    make = partial(_build_in, recipe=recipe, progress=progress)
    return await finish_image(store.folder_of(recipe.name, recipe.key, cache), make, progress)


async def finish_image(target: Path, make: Callable[[Path], Awaitable[None]], progress: Callable[[str], None]) -> Image:
    """The image in this folder of the cache if it is whole, else what `make` leaves as `image` in the folder it gets.

    One at a time; what fails leaves nothing. Raises HostCannot, and what `make` raises.
    """
    cache = target.parent.parent
    if image := read(target):
        return image
    if os.geteuid() != 0:
        raise HostCannot("building an image needs root: its files belong to root", remedy="run nearmetal as root")
    require_known()
    build_tools.require()
    async with store.lock(cache, progress):
        if image := read(target):
            return image
        store.sweep(cache)
        free = shutil.disk_usage(cache).free
        if free < SPACE:
            what = f"building an image needs {SPACE >> 20} MiB, and {free >> 20} MiB are free"
            raise HostCannot(what, str(cache), "free some space, or put the cache elsewhere by NEARMETAL_HOME")
        work = target.with_name(store.UNFINISHED + target.name)
        work.mkdir()
        try:
            await make(work)
            (work / "image/root").chmod(ROOTS_ALONE)
            if target.exists():
                shutil.rmtree(target)
            (work / "image").rename(target)
        except OSError as error:
            remedy = system_errors.find_remedy(error, otherwise="see: df, dmesg")
            what = f"the image cannot be written: {error.strerror}"
            raise HostCannot(what, str(error.filename or cache), remedy) from error
        finally:
            await asyncio.to_thread(shutil.rmtree, work)
    image = read(target)
    if image is None:
        raise ToolFailed("the image was built but is not whole", str(target))
    return image


async def _build_in(work: Path, recipe: Recipe, progress: Callable[[str], None]) -> None:
    packages, unpacked, folder = work / "packages", work / "unpacked", work / "image"
    for made in (packages, unpacked, folder):
        made.mkdir()
    image = Image(recipe.name, recipe.key, "", folder)

    await bootstrap.make_debian(recipe, image.root, packages, progress)
    progress("unpacking the kernel")
    await bootstrap.unpack_packages(packages, unpacked)
    release = modules.move_modules(unpacked, image.root)
    wanted = Modules.of_recipe()
    tree = await modules.prune_modules(image.root, release, wanted)
    packed = unpacked / "boot" / f"vmlinuz-{release}"
    image.kernel.write_bytes(await asyncio.to_thread(kernel.unpack_kernel, packed.read_bytes(), packed.name))
    busybox = (unpacked / "bin/busybox").read_bytes()
    image.initrd.write_bytes(initrd.build_base(busybox, image.root / "usr/lib/modules" / release, tree, wanted))

    progress("writing the root file system")
    rootfs.finish_root(image.root, recipe)
    rootfs.set_ages(image.root)
    await pack_root(image)
    await disk.make_disk(image.root, image.disk)
    digest = await asyncio.to_thread(sha256, image.tarball)
    made_of = bootstrap.read_packages(packages)
    write_manifest(
        image,
        digest=digest,
        suite=recipe.suite,
        architecture=HERE.debian,
        kernel=release,
        packages={name: package.version for name, package in made_of.items()},
        debs={name: package.sha256 for name, package in made_of.items()},
        binaries={name: sha256(_inside(image.root, name)) for name in BINARIES},
    )


async def pack_root(image: Image) -> None:
    """Its tar archive, from its unpacked root. ToolFailed."""
    await build_tools.run_checked(
        ("tar", "--create", "--file", str(image.tarball), "--directory", str(image.root), "--sort=name",
         "--numeric-owner", "--format=posix", "--pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime",
         "--xattrs", "--xattrs-include=*", "."),
        image.folder, str(image.tarball),
    )  # fmt: skip


def write_manifest(image: Image, **facts: Any) -> None:
    """Its manifest: these facts, its name and key, and of its parts what says whether it is whole."""
    parts = (image.tarball, image.disk, image.kernel, image.initrd)
    document = {
        "schema": SCHEMA,
        "name": image.name,
        "key": image.key,
        "sizes": {part.name: part.stat().st_size for part in parts},
        "sha256": {part.name: sha256(part) for part in (image.kernel, image.initrd)},
        **facts,
    }
    image.manifest_path.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", "utf-8")


def _inside(root: Path, name: str) -> Path:
    """The file that `name` means inside `root`, its absolute symbolic links followed there and not on the host."""
    path = root / name.lstrip("/")
    while path.is_symlink():
        link = path.readlink()
        path = root / str(link).lstrip("/") if link.is_absolute() else path.parent / link
    return path


def sha256(path: Path) -> str:
    """In hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
