"""Kernels of a study's own, without guests: what is made ready once, and what it depends on."""

import gzip
import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from nearmetal.errors import HostCannot
from nearmetal.lab.image import Image, kernel
from nearmetal.lab.qemu import kernel_override

RELEASE = "6.1.0-9-own"
BANNER = f"Linux version {RELEASE} (who@where) (gcc) #1 SMP Debian"
PVH = struct.pack("<III4s", 4, 4, 18, b"Xen\0")
ELF = b"\x7fELF" + PVH + BANNER.encode() + b"\n\0"
MODULES = ("virtio_pci", "virtio_blk", "virtio_net", "crc32c_generic", "ext4")


def bzimage(elf: bytes) -> bytes:
    """A kernel as the boot protocol lays it out, with its release before the payload."""
    setup = bytearray(2048)
    setup[0x1F1] = 3
    setup[0x202:0x206] = b"HdrS"
    struct.pack_into("<H", setup, 0x20E, 0x300)
    named = f"{RELEASE} (who@where) #1 SMP Debian\0".encode()
    setup[0x500 : 0x500 + len(named)] = named
    payload = gzip.compress(elf, mtime=0)
    struct.pack_into("<II", setup, 0x248, 0, len(payload))
    return bytes(setup) + payload


@pytest.fixture
def image(tmp_path: Path) -> Image:
    (tmp_path / "image").mkdir()
    (tmp_path / "image/initrd").write_bytes(b"the lab's")
    return Image("lab", "key", "digest", tmp_path / "image")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As its package has it, with a cache of its own."""
    monkeypatch.setenv("NEARMETAL_HOME", str(tmp_path / "own"))
    folder = tmp_path / "unpacked/lib/modules" / RELEASE
    folder.mkdir(parents=True)
    for name in MODULES:
        (folder / f"{name}.ko").write_bytes(name.encode())
    (folder / "modules.dep").write_text("".join(f"{name}.ko:\n" for name in MODULES))
    (folder / "modules.builtin").write_text("")
    (tmp_path / "unpacked/boot").mkdir()
    made = tmp_path / "unpacked/boot/vmlinuz"
    made.write_bytes(bzimage(ELF))
    return made


def module_folder(file: Path) -> Path:
    return file.parents[1] / "lib/modules" / RELEASE


def test_it_is_unpacked_once(file: Path, image: Image, monkeypatch: pytest.MonkeyPatch) -> None:
    made = kernel_override._prepare(str(file), image, "")
    assert (made / "vmlinux").read_bytes() == ELF
    assert json.loads((made / "kernel.json").read_text()) == {"release": RELEASE, "banner": BANNER}
    monkeypatch.setattr(kernel, "find_vmlinux", lambda *_: pytest.fail("it was unpacked again"))
    assert kernel_override._prepare(str(file), image, "") == made


@pytest.mark.parametrize(
    "change",
    [
        lambda file, image: file.write_bytes(bzimage(ELF + b"more")),
        lambda file, image: (module_folder(file) / "ext4.ko").write_bytes(b"built anew"),
        lambda file, image: (module_folder(file) / "modules.builtin").write_text("kernel/net/tun.ko\n"),
        lambda file, image: image.initrd.write_bytes(b"another"),
    ],
)
def test_what_is_made_of_anything_else_is_made_anew(
    change: Callable[[Path, Image], None], file: Path, image: Image
) -> None:
    made = kernel_override._prepare(str(file), image, "")
    change(file, image)
    assert kernel_override._prepare(str(file), image, "") != made


def test_modules_without_their_list_are_told_with_what_writes_it(file: Path, image: Image) -> None:
    """As `dpkg-deb --extract` leaves them: the package's script was not run."""
    (module_folder(file) / "modules.dep").unlink()
    with pytest.raises(HostCannot, match="has no list of its modules") as raised:
        kernel_override._prepare(str(file), image, "")
    assert raised.value.remedy == f"have it written: depmod --basedir {file.parents[1]} {RELEASE}"


def test_what_a_guest_cannot_do_without_is_looked_for_before_anything_is_kept(
    file: Path, image: Image, tmp_path: Path
) -> None:
    folder = module_folder(file)
    (folder / "modules.dep").write_text("ext4.ko:\n")
    for _ in range(2):
        with pytest.raises(HostCannot, match="has no virtio_pci, virtio_blk, virtio_net, neither"):
            kernel_override._prepare(str(file), image, "")
