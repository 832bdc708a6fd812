"""An image as a Vagrant box: what is in it, and what keeps it from being written."""

import json
import re
import tarfile
from pathlib import Path

import asyncssh
import pytest

from nearmetal.errors import BadInput, HostCannot
from nearmetal.lab.image import Image, newc
from nearmetal.lab.vagrant import box

BUSYBOX = bytes(range(256)) * 33


@pytest.fixture
def image(tmp_path: Path) -> Image:
    """As large as it has to be."""
    made = Image("lab", "k", "d" * 64, tmp_path / "image")
    made.folder.mkdir()
    made.manifest_path.write_text("{}")
    made.kernel.write_bytes(b"kernel")
    made.disk.write_bytes(b"disk" * 1000)
    made.initrd.write_bytes(
        newc.archive([newc.regular("odd", b"123"), newc.folder("bin"), newc.regular("bin/busybox", BUSYBOX, 0o755)])
    )
    return made


def unpacked(file: Path) -> dict[str, tuple[bytes, int]]:
    with tarfile.open(file) as archive:
        members = archive.getmembers()
        return {one.name: (archive.extractfile(one).read(), one.mode) for one in members}  # type: ignore[union-attr]


def test_a_box_has_what_its_guest_boots_from_and_a_key_of_its_own(image: Image, tmp_path: Path) -> None:
    box.write_box(image, tmp_path / "a.box")
    box.write_box(image, tmp_path / "b.box")
    first, second = unpacked(tmp_path / "a.box"), unpacked(tmp_path / "b.box")
    assert set(first) == {"metadata.json", "Vagrantfile", "key", "vmlinux", "initrd", "box.img"}
    assert json.loads(first["metadata.json"][0]) == {"provider": "libvirt", "format": "qcow2", "virtual_size": 10}
    assert (first["vmlinux"][0], first["box.img"][0]) == (b"kernel", b"disk" * 1000)
    assert first["key"][1] == 0o600
    assert first["key"][0] != second["key"][0]
    public = asyncssh.import_private_key(first["key"][0]).export_public_key()
    seeded = first["initrd"][0].removeprefix(image.initrd.read_bytes())
    assert newc.content(seeded, "seed/authorized_keys") == public
    assert newc.content(seeded, "seed/busybox") == BUSYBOX
    assert b"udhcpc" in newc.content(seeded, "seed/start")


def test_every_file_that_its_vagrantfile_names_is_in_it(image: Image, tmp_path: Path) -> None:
    box.write_box(image, tmp_path / "a.box")
    content = unpacked(tmp_path / "a.box")
    text = content["Vagrantfile"][0].decode()
    named = re.findall(r'File\.join\(here, "([^"]+)"\)', text)
    assert sorted(named) == ["initrd", "key", "vmlinux"]
    assert set(named) < set(content)
    assert "@" not in text and "console=ttyS0 " in text


def test_what_is_there_stays(image: Image, tmp_path: Path) -> None:
    (tmp_path / "a.box").write_text("mine")
    with pytest.raises(BadInput, match="there is something already"):
        box.write_box(image, tmp_path / "a.box")
    assert (tmp_path / "a.box").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir() if "unfinished" in path.name] == []


def test_what_cannot_be_written_is_told_and_leaves_nothing(image: Image, tmp_path: Path) -> None:
    with pytest.raises(HostCannot, match="the box cannot be written: No such file or directory"):
        box.write_box(image, tmp_path / "no/such/a.box")
    image.disk.unlink()
    with pytest.raises(HostCannot, match="No such file or directory"):
        box.write_box(image, tmp_path / "a.box")
    assert [path for path in tmp_path.iterdir() if "box" in path.name] == []
