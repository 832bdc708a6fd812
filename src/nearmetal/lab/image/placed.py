"""An image on the host where machines are made of it: here where it was built, elsewhere where it was sent once."""

from nearmetal.lab.site import must
from nearmetal.model import Site

from .image import Image

_UNPACKING = 600.0
"""Seconds."""

# The folder appears under its name only when it is whole; the archive is not needed any more then.
_UNPACK = """
set -e
rm -rf -- "$2.unfinished"
mkdir -p -- "$2.unfinished"
tar --extract --file "$1" --directory "$2.unfinished" --numeric-owner --same-owner --preserve-permissions \\
    --xattrs --xattrs-include='*'
mv -T -- "$2.unfinished" "$2"
rm -f -- "$1"
"""


async def root(image: Image, site: Site) -> str:
    """The folder on a site that has the image's root filesystem. HostCannot when it cannot be had there."""
    if site.spec is None:
        return str(image.root)
    folder = f"/var/cache/nearmetal/images/{image.name}-{image.digest[:16]}/root"
    if (await site.exec(["test", "-d", folder])).status != 0:
        archive = await site.place(image.tarball, image.digest)
        await must(site, "sh", "-c", _UNPACK, "unpack", archive, folder, timeout=_UNPACKING)
    return folder
