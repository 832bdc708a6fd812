"""The lab image: one root file system for every environment, and the kernel with which a guest boots it.

image = await build(Recipe(), Paths.default().cache, print)
image.root       for a chroot
image.tarball    for a container engine
image.disk       for a virtual machine, with image.kernel and a seeded initial RAM disk (seed_initrd)
"""

from .build import build
from .image import Image, Process
from .initrd import seed_initrd
from .own import REMEDY, ImageSource, build_own, check
from .recipe import Recipe
from .store import hold, ls, newest, rm

__all__ = [
    "REMEDY",
    "Image",
    "ImageSource",
    "Process",
    "Recipe",
    "build",
    "build_own",
    "check",
    "hold",
    "ls",
    "newest",
    "rm",
    "seed_initrd",
]
