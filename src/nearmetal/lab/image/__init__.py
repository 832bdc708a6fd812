"""The lab image: one root file system for every environment, and the kernel with which a guest boots it.

image = await build(Recipe(), Paths.default().cache, print)
image.root       for a chroot
image.tarball    for a container engine
image.disk       for a virtual machine, with image.kernel and a seeded initial RAM disk (initrd.seed_archive)
"""

from .build import build as build
from .image import Image as Image
from .image import Process as Process
from .recipe import Recipe as Recipe
from .store import hold as hold
from .store import ls as ls
from .store import newest as newest
from .store import rm as rm
from .user_image import REMEDY as REMEDY
from .user_image import ImageSource as ImageSource
from .user_image import build_own as build_own
from .user_image import check as check
