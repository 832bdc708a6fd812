"""A later kernel than the lab image's: from Debian's backports, as its package has it, and the lab image with it.

That image is a folder of its own in the cache, made once: the lab's disk, that kernel, and an initial RAM disk with
what a guest needs of it to reach its disk and its network. What else a guest may load, it then lacks.
"""

import asyncio
import json
import lzma
import shutil
from pathlib import Path

from nearmetal.lab.image import Image, initrd, modules, store
from nearmetal.lab.image.build import sha256
from nearmetal.lab.image.image import read
from nearmetal.lab.image.recipe import Modules, ModuleSet

from . import debian

NAME = "later-kernel"
_SUITE = "bookworm-backports"
_KERNEL = "linux-image-cloud-amd64"
"""That for virtual machines, which is small: others have drivers that no guest of these tests needs."""
_NEEDED = Modules(
    buses=("virtio_pci", "virtio_blk"),
    disks=ModuleSet(("crc32c_generic", "ext4"), {}),
    network=ModuleSet(("virtio_net",), {}),
    guest=(),
)


async def image(lab: Image, cache: Path) -> Image:
    """debian.CannotBeHad where Debian's archive cannot be reached."""
    folder = store.images(cache) / f"{NAME}-{lab.key[:16]}"
    if found := read(folder):
        return found
    shutil.rmtree(folder, ignore_errors=True)
    work = folder.with_name(f"{store.UNFINISHED}{folder.name}")
    async with store.lock(cache, print):
        shutil.rmtree(work, ignore_errors=True)
        (work / "image").mkdir(parents=True)
        try:
            release = await _unpacked(work)
            await asyncio.to_thread(_lay, lab, work, release)
            (work / "image").rename(folder)
        finally:
            shutil.rmtree(work)
    made = read(folder)
    assert made is not None
    return made


async def fetch(cache: Path) -> Path:
    """The kernel's file, with its modules in ../lib/modules. debian.CannotBeHad if the archive cannot be reached."""
    folder = cache / "kernels-of-tests" / _KERNEL
    work = folder.with_name(f"{store.UNFINISHED}{folder.name}")
    async with store.lock(cache, print):
        if not folder.exists():
            shutil.rmtree(work, ignore_errors=True)
            work.mkdir(parents=True)
            try:
                await _unpacked(work)
                (work / "unpacked").rename(folder)
            finally:
                shutil.rmtree(work)
    (file,) = (folder / "boot").glob("vmlinuz-*")
    return file


async def _unpacked(work: Path) -> str:
    """Fetch the newest of the suite's kernels and unpack it; its release."""
    package = await debian.unpack(_KERNEL, f"{_SUITE} main", work, needed="linux-image-")
    release = package.removeprefix("linux-image-")
    await debian.run("depmod", "--basedir", str(work / "unpacked"), release, at=work)
    return release


def _lay(lab: Image, work: Path, release: str) -> None:
    made = Image(NAME, lab.key, lab.digest, work / "image")
    for part in ("root", "rootfs.tar", "root.qcow2"):
        (made.folder / part).symlink_to(lab.folder / part)
    # It unpacks itself, which takes some seconds more than one that was unpacked beforehand.
    shutil.copy(work / "unpacked/boot" / f"vmlinuz-{release}", made.kernel)
    folder = work / "unpacked/lib/modules" / release
    for packed in folder.rglob("*.ko.xz"):
        packed.with_suffix("").write_bytes(lzma.decompress(packed.read_bytes()))
    listed = (folder / "modules.dep").read_text().replace(".ko.xz", ".ko")
    tree = modules.parse(listed, (folder / "modules.builtin").read_text())
    made.initrd.write_bytes(initrd.build_base(Path("/bin/busybox").read_bytes(), folder, tree, _NEEDED))
    parts = (made.tarball, made.disk, made.kernel, made.initrd)
    document = {
        **lab.manifest,
        "name": NAME,
        "kernel": release,
        "sizes": {part.name: part.stat().st_size for part in parts},
        "sha256": {part.name: sha256(part) for part in (made.kernel, made.initrd)},
    }
    made.manifest_path.write_text(json.dumps(document))
