"""A later kernel than the lab image's: from Debian's backports, as its package has it, and the lab image with it.

That image is a folder of its own in the cache, made once: the lab's disk, that kernel, and an initial RAM disk with
what a guest needs of it to reach its disk and its network. What else a guest may load, it then lacks.
"""

import asyncio
import json
import lzma
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from nearmetal.lab.image import Image, apt, initrd, modules, store
from nearmetal.lab.image.build import sha256
from nearmetal.lab.image.image import read
from nearmetal.lab.image.recipe import Modules, Wanted

NAME = "later-kernel"
_SUITE = "bookworm-backports"
_KERNEL = "linux-image-cloud-amd64"
"""That for virtual machines, which is small: others have drivers that no guest of these tests needs."""
_NEEDED = Modules(
    buses=("virtio_pci", "virtio_blk"),
    disks=Wanted(("crc32c_generic", "ext4"), {}),
    network=Wanted(("virtio_net",), {}),
    guest=(),
)
_PATH = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}
_LIMIT = 300.0


class CannotBeHad(Exception):
    """Why there is no such kernel here."""


async def image(lab: Image, cache: Path) -> Image:
    """CannotBeHad where Debian's archive cannot be reached."""
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
    """The kernel's file, with its modules in ../lib/modules. CannotBeHad where Debian's archive cannot be reached."""
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
    _, options = await apt.host_sources("bookworm", work, _PATH)
    sources = f"deb [signed-by={apt.KEYRING}] {apt.DEBIAN} {_SUITE} main\n"
    for name in ("lists/partial", "archives/partial"):
        (work / name).mkdir(parents=True)
    (work / "sources.list").write_text(sources)
    (work / "apt.conf").write_text(
        f'Dir::Etc::SourceList "{work}/sources.list";\nDir::Etc::SourceParts "-";\nAPT::Sandbox::User "root";\n'
        f'Dir::State::Lists "{work}/lists";\nDir::Cache "{work}";\n' + "\n".join(options)
    )
    with_apt = {"APT_CONFIG": str(work / "apt.conf")}
    await _run("apt-get", "update", "-qq", "-o", "APT::Update::Error-Mode=any", at=work, environment=with_apt)
    depends = await _run("apt-cache", "depends", "--important", _KERNEL, at=work, environment=with_apt)
    package = next(line.split()[-1] for line in depends.splitlines() if "Depends: linux-image-" in line)
    await _run("apt-get", "download", "-qq", package, at=work, environment=with_apt)
    (archive,) = work.glob("*.deb")
    await _run("dpkg-deb", "--extract", str(archive), str(work / "unpacked"), at=work)
    release = package.removeprefix("linux-image-")
    await _run("depmod", "--basedir", str(work / "unpacked"), release, at=work)
    return release


async def _run(*argv: str, at: Path, environment: Mapping[str, str] | None = None) -> str:
    ended = await asyncio.to_thread(
        subprocess.run,
        argv,
        capture_output=True,
        text=True,
        timeout=_LIMIT,
        cwd=at,
        env={**_PATH, **(environment or {})},
    )
    if ended.returncode != 0:
        raise CannotBeHad(f"{' '.join(argv[:2])}: {ended.stderr.strip()[-300:]}")
    return str(ended.stdout)


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
    made.initrd.write_bytes(initrd.base(Path("/bin/busybox").read_bytes(), folder, tree, _NEEDED))
    parts = (made.tarball, made.disk, made.kernel, made.initrd)
    document = {
        **lab.manifest,
        "name": NAME,
        "kernel": release,
        "sizes": {part.name: part.stat().st_size for part in parts},
        "sha256": {part.name: sha256(part) for part in (made.kernel, made.initrd)},
    }
    made.manifest_path.write_text(json.dumps(document))
