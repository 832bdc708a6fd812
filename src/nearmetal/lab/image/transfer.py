"""An image on the host where machines are made of it: here where it was built, elsewhere where it was sent once."""

import asyncio
from dataclasses import dataclass
from functools import cache

from nearmetal.lab.local_site import run_checked
from nearmetal.model import Site

from .build import sha256
from .image import ROOTS_ALONE, Image

_UNPACKING = 600.0
"""Seconds."""

# The folder appears under its name only when it is whole; the archive is not needed any more then.
_UNPACK = """
set -e
rm -rf -- "$2.unfinished"
mkdir -p -m "$3" -- "$2.unfinished"
tar --extract --file "$1" --directory "$2.unfinished" --no-overwrite-dir --numeric-owner --same-owner \\
    --preserve-permissions --xattrs --xattrs-include='*'
mv -T -- "$2.unfinished" "$2"
rm -f -- "$1"
"""


async def place_root(image: Image, site: Site) -> str:
    """The folder on a site that has the image's root filesystem. HostCannot when it cannot be had there."""
    if site.spec is None:
        image.root.chmod(ROOTS_ALONE)  # those of earlier builds were not
        return str(image.root)
    mode, folder = f"{ROOTS_ALONE:o}", f"/var/cache/nearmetal/images/{image.name}-{image.digest[:16]}/root"
    if (await site.exec(["chmod", mode, folder])).status != 0:  # it is not there
        archive = await site.place(image.tarball, image.digest)
        await run_checked(site, "sh", "-c", _UNPACK, "unpack", archive, folder, mode, timeout=_UNPACKING)
    return folder


@dataclass(frozen=True)
class Parts:
    """What a virtual machine is made of: paths on its site."""

    kernel: str
    """"" for a disk that brings its own."""
    initrd: str
    disk: str
    disk_format: str = "qcow2"
    banner: str = ""
    """What the kernel is to say in /proc/version; "" for an image's own, of which the image's digest tells."""


async def place_parts(image: Image, site: Site) -> Parts:
    """HostCannot when they cannot be had there."""
    found = []
    for file in (image.kernel, image.initrd, image.disk):
        known = image.manifest["sha256"].get(file.name) if site.spec else ""
        digest = known if known is not None else await asyncio.to_thread(_hash_part, file)
        found.append(await site.place(file, digest))
    return Parts(*found)


_hash_part = cache(sha256)
"""A part of a finished image never changes."""


async def write_initrd(base: str, more: bytes, path: str, site: Site) -> None:
    """Write an initial RAM disk: the base's archive and one more after it, readable by its owner alone."""
    await site.put(more, f"{path}.more", mode=0o600)
    await run_checked(site, "sh", "-c", 'umask 077; cat -- "$1" "$2.more" >"$2"; rm -- "$2.more"', "initrd", base, path)
