"""An image of the user's own: what comes out of each form that it may have, and what is refused."""

import bz2
import gzip
import hashlib
import json
import lzma
import os
import stat
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nearmetal.errors import BadInput, HostCannot
from nearmetal.lab import machine_image
from nearmetal.lab.image import Image, ImageSource, Process, build_own, rm, store
from nearmetal.lab.image.user_image import read_process
from tests.own_image import Member, busybox, docker_archive, entry, layer, oci_layout, packed_folder

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="refused earlier without root")

CONFIG = {
    "Entrypoint": ["/srv/api", "--port"],
    "Cmd": ["8080"],
    "Env": ["PATH=/srv:/bin", "LOG=a=b"],
    "User": "1000",
    "WorkingDir": "/var/api",
}
PROCESS = Process(("/srv/api", "--port", "8080"), {"PATH": "/srv:/bin", "LOG": "a=b"}, "server", "/var/api")


@pytest.fixture(scope="module")
def base() -> bytes:
    return layer(busybox())


@pytest.fixture
def lab(tmp_path: Path) -> Image:
    """What an image of the user's takes of the lab's."""
    folder = tmp_path / "lab"
    modules = folder / "root/usr/lib/modules/6.1.0/kernel"
    modules.mkdir(parents=True)
    (modules / "9p.ko").write_bytes(b"module")
    for part in ("vmlinux", "initrd"):
        (folder / part).write_bytes(part.encode())
    (folder / "manifest.json").write_text(json.dumps({"kernel": "6.1.0"}))
    return Image("lab", "cd" * 32, "ab" * 32, folder)


Build = Callable[..., Any]


@pytest.fixture
def build(tmp_path: Path, lab: Image) -> Build:
    said: list[str] = []

    async def one(path: Path, **settings: Any) -> Image:
        one.said = said  # type: ignore[attr-defined]
        return await build_own(ImageSource("mine", path, lab, **settings), tmp_path / "cache", said.append)

    return one


def run(*argv: str, given: bytes = b"") -> None:
    subprocess.run(argv, input=given, check=True)


def disk_of(base: bytes, folder: Path) -> Path:
    """A qcow2 with a partition table, and a root file system in its second partition."""
    root, raw, path = folder / "unpacked", folder / "disk.raw", folder / "disk.qcow2"
    root.mkdir()
    run("tar", "-xf", "-", "-C", str(root), given=base)
    run("mkfs.ext4", "-q", "-d", str(root), str(folder / "part"), "16M")
    sectors = (16 << 20) // 512
    entries = b"".join(
        bytes([0, 0, 0, 0, 0x83, 0, 0, 0]) + start.to_bytes(4, "little") + size.to_bytes(4, "little")
        for start, size in ((34, 2014), (2048, sectors))
    )
    head = bytes(446) + entries.ljust(64, b"\0") + b"\x55\xaa"
    raw.write_bytes(head.ljust(2048 * 512, b"\0") + (folder / "part").read_bytes())
    run("qemu-img", "convert", "-f", "raw", "-O", "qcow2", str(raw), str(path))
    return path


async def test_each_form_of_an_image_becomes_the_same_root(tmp_path: Path, base: bytes, build: Build) -> None:
    made = {}
    (tmp_path / "root.tar.gz").write_bytes(gzip.compress(base))
    run("zstd", "-q", "-o", str(tmp_path / "root.tar.zst"), "-", given=base)
    forms = {
        "docker": docker_archive(tmp_path / "docker.tar", [base], CONFIG),
        "packed": docker_archive(tmp_path / "packed.tar", [base], CONFIG, pack=lzma.compress),
        "layout": oci_layout(tmp_path / "layout", [base], CONFIG),
        "oci": packed_folder(tmp_path / "layout", tmp_path / "oci.tar"),
        "gz": tmp_path / "root.tar.gz",
        "zst": tmp_path / "root.tar.zst",
        "disk": disk_of(base, tmp_path),
    }
    for form, path in forms.items():
        made[form] = await build(path)
        assert machine_parts(made[form].root) == machine_parts(made["docker"].root)
        has_process = form in ("docker", "packed", "layout", "oci")
        assert Process.of(made[form]) == (PROCESS if has_process else Process())
    assert len({made[form].digest for form in ("docker", "packed", "layout", "oci")}) == 1, "the same bits"
    assert made["gz"].digest == made["zst"].digest
    (root,) = {image.manifest["kernel"] for image in made.values()}
    assert root == "6.1.0"


def machine_parts(root: Path) -> dict[str, str]:
    """The files of an image, without what only one form of it can have."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[name] = str(path.readlink())
        elif path.is_file():
            found[name] = f"{path.stat().st_mode:o} {hashlib.sha256(path.read_bytes()).hexdigest()}"
    return found


async def test_what_a_guest_needs_is_laid_over_it_and_follows_its_links(
    tmp_path: Path, base: bytes, build: Build
) -> None:
    links: list[Member] = [
        entry("usr/lib", tarfile.DIRTYPE),
        entry("lib", tarfile.SYMTYPE, linkname="usr/lib"),
        entry("etc/resolv.conf", tarfile.SYMTYPE, linkname="/run/resolv.conf"),
        entry("tmp", tarfile.SYMTYPE, linkname="/var/tmp"),
        entry("var/tmp", tarfile.DIRTYPE, mode=0o1777),
    ]
    path = docker_archive(tmp_path / "image.tar", [base, layer(links)])
    (tmp_path / "more").write_bytes(b"more")
    image = await build(path, files=((str(tmp_path / "more"), "/srv/more"),))
    root = image.root
    assert (root / "usr/lib/modules/6.1.0/kernel/9p.ko").read_bytes() == b"module"
    assert (root / "lib").is_symlink() and (root / "tmp").is_symlink()
    assert (root / "usr/sbin/nearmetal-init").stat().st_mode & 0o777 == 0o755
    assert not (root / "etc/resolv.conf").is_symlink()
    assert (root / "srv/more").read_bytes() == b"more"
    assert image.kernel.read_bytes() == b"vmlinux"
    assert await build(path, files=((str(tmp_path / "more"), "/srv/more"),)) == image, "it is there already"
    assert rm(tmp_path / "cache", "mine") == [image]


async def test_higher_layers_remove_and_replace_what_lower_ones_have(tmp_path: Path, base: bytes, build: Build) -> None:
    lower: list[Member] = [
        ("srv/gone", b"", 0o644),
        ("srv/folder/old", b"", 0o644),
        ("srv/folder/deep/old", b"", 0o644),
        ("srv/file", b"", 0o644),
        ("srv/tree/leaf", b"", 0o644),
        ("srv/kept", b"kept", 0o4755),
        entry("srv/second", tarfile.LNKTYPE, linkname="srv/kept"),
        entry("srv/dangling", tarfile.SYMTYPE, linkname="nowhere"),
        entry("srv/again", tarfile.LNKTYPE, linkname="srv/dangling"),
    ]
    upper: list[Member] = [
        ("srv/.wh.gone", b"", 0o644),
        ("srv/.wh.never-there", b"", 0o644),
        ("srv/folder/new", b"", 0o644),
        ("srv/folder/.wh..wh..opq", b"", 0o644),
        ("srv/file/now-a-folder", b"", 0o644),
        ("srv/tree", b"now a file", 0o644),
    ]
    root = (await build(docker_archive(tmp_path / "image.tar", [base, layer(lower), layer(upper)]))).root / "srv"
    names = {str(path.relative_to(root)) for path in root.rglob("*")}
    assert names == {
        *("folder", "folder/new", "file", "file/now-a-folder", "tree", "kept", "second", "dangling", "again"),
    }
    assert (root / "kept").stat().st_ino == (root / "second").stat().st_ino
    assert stat.S_IMODE((root / "kept").stat().st_mode) == 0o4755


async def test_device_nodes_are_left_out_and_told(tmp_path: Path, base: bytes, build: Build) -> None:
    nodes: list[Member] = [
        entry("dev/null", tarfile.CHRTYPE, devmajor=1, devminor=3),
        entry("srv/disk", tarfile.BLKTYPE, devmajor=8, devminor=0),
        entry("dev/a", tarfile.CHRTYPE),
        entry("dev/b", tarfile.CHRTYPE),
        entry("srv/pipe", tarfile.FIFOTYPE),
    ]
    image = await build(docker_archive(tmp_path / "image.tar", [base, layer(nodes)]))
    assert not [path for path in image.root.rglob("*") if path.is_block_device() or path.is_char_device()]
    assert (image.root / "srv/pipe").is_fifo()
    (told,) = [line for line in build.said if "device nodes" in line]  # type: ignore[attr-defined]
    assert told.endswith("dev/null, srv/disk, dev/a and 1 more")


async def test_nothing_is_written_outside_by_way_of_links(tmp_path: Path, base: bytes, build: Build) -> None:
    """A link of a layer leads where it would in the machine, also in the layers above and for what is laid over."""
    outside = tmp_path / "outside"
    outside.mkdir()
    links: list[Member] = [
        entry(str(outside).lstrip("/"), tarfile.DIRTYPE),
        entry("srv", tarfile.SYMTYPE, linkname=str(outside)),
        entry("usr/sbin", tarfile.SYMTYPE, linkname="../../../../../../../.." + str(outside)),
        ("srv/escaped", b"", 0o644),
    ]
    image = await build(docker_archive(tmp_path / "image.tar", [base, layer(links), layer([("srv/too", b"", 0o644)])]))
    assert list(outside.iterdir()) == []
    inside = image.root / str(outside).lstrip("/")
    assert {path.name for path in inside.iterdir()} == {"escaped", "too", "nearmetal-init", "poweroff", "reboot"}


def _elf(machine: int) -> bytes:
    return b"\x7fELF" + bytes(14) + machine.to_bytes(2, "little") + bytes(44)


BAD_LAYERS: list[tuple[list[Member], str]] = [
    ([("../../etc/cron.d/evil", b"", 0o644)], "layer 2 of 2: a name in it leads out of it: ../../etc/cron.d/evil"),
    ([entry("srv/a", tarfile.LNKTYPE, linkname="../../etc/shadow")], "a name in it leads out of it"),
    ([entry("srv/a", tarfile.LNKTYPE, linkname="srv/none")], "second name of srv/none, which is not there"),
    ([("srv/.wh...", b"", 0o644)], "removes nothing that has a name"),
    ([entry("a", tarfile.SYMTYPE, linkname="b"), entry("b", tarfile.SYMTYPE, linkname="a"), ("a/x/y", b"", 0)], ""),
    ([entry("big", size=1 << 50)], "it unpacks to more than"),
    ([entry("less", tarfile.DIRTYPE, size=-(1 << 52)), entry("big", size=1 << 50)], "it unpacks to more than"),
    ([("../room/x", b"", 0o644)], "a name in it leads out of it: ../room/x"),
    ([("a/" * 1500 + "x", b"", 0o644)], "layer 2 of 2: it is damaged: "),
    ([entry("etc/passwd", tarfile.FIFOTYPE)], ""),
    ([("etc/passwd", b"".join(b"user%d:x:%d:1::/:\n" % (one, one) for one in range(5000)), 0o644)], ""),
    ([("bin/.wh.sh", b"", 0o644), ("bin/.wh.cat", b"", 0o644)], "it has no sh, cat, by which the probe"),
    ([("bin/busybox", _elf(183), 0o755)], "its programs are for the architecture arm64"),
    ([("bin/busybox", _elf(62), 0o755)], "its shell does not run"),
]


@pytest.mark.parametrize(("members", "said"), BAD_LAYERS)
async def test_a_layer_that_cannot_be_is_told(
    tmp_path: Path, base: bytes, build: Build, members: list[Member], said: str
) -> None:
    path = docker_archive(tmp_path / "image.tar", [base, layer(members)])
    if not said:  # a link that leads in circles is replaced, as an engine does; what lists users may be anything
        assert (await build(path)).root.is_dir()
        return
    with pytest.raises(BadInput) as caught:
        await build(path)
    assert said in caught.value.what and caught.value.remedy
    assert caught.value.where == str(path)
    assert [one.name for one in store.images(tmp_path / "cache").iterdir()] == [".lock"], "nothing is left of it"


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress])
@pytest.mark.parametrize("damage", ["cut", "changed", "nothing", "no tar", "checksum"])
async def test_a_broken_layer_is_told(
    tmp_path: Path, build: Build, pack: Callable[[bytes], bytes], damage: str
) -> None:
    good = layer([("srv/a", b"x" * 5000, 0o644), ("srv/b", b"y" * 5000, 0o644)])

    def broken(content: bytes) -> bytes:
        whole = pack(content)
        changed = {"cut": whole[: len(whole) // 2], "nothing": b"", "no tar": pack(b"no tar" * 1000)}
        changed["checksum"] = whole[:-5] + bytes([whole[-5] ^ 1]) + whole[-4:]
        return changed.get(damage) or (pack(content.replace(b"yy", b"yz")) if damage == "changed" else b"")

    path = docker_archive(tmp_path / "image.tar", [good], pack=broken)
    with pytest.raises(BadInput, match="layer 1 of 1: it is damaged"):
        await build(path)


BAD_IMAGES: list[tuple[dict[str, Any], str]] = [
    ({"architecture": "arm64"}, "it is for linux on the architecture arm64"),
    ({"os": "windows"}, "it is for windows"),
    ({"config": {"User": "nobody-here"}}, "is to run as the user nobody-here, who is not in its /etc/passwd"),
    ({"config": {"Env": ["no assignment"]}}, "what it starts cannot be told"),
    ({"config": {"Entrypoint": [1]}}, "what it starts cannot be told"),
    ({"config": {"WorkingDir": "../../etc"}}, "is no directory of the image"),
    ({"rootfs": {"diff_ids": []}}, "this is no archive of an image"),
    ({"rootfs": None}, "this is no archive of an image"),
]


@pytest.mark.parametrize(("document", "said"), BAD_IMAGES)
async def test_an_image_that_cannot_be_is_told(
    tmp_path: Path, base: bytes, build: Build, document: dict[str, Any], said: str
) -> None:
    with pytest.raises(BadInput) as caught:
        await build(docker_archive(tmp_path / "image.tar", [base], **document))
    assert said in caught.value.what and caught.value.remedy


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"", "it is no tar archive"), (b"hello" * 500, "it is no tar archive"), (b"QFI\xfb" * 200, "cannot be read")],
)
async def test_a_file_that_is_no_image_is_told(tmp_path: Path, build: Build, content: bytes, said: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(BadInput, match=said):
        await build(path)


async def test_a_folder_or_a_disk_without_a_root_is_told(tmp_path: Path, base: bytes, build: Build) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/index.json").write_text("[]")
    with pytest.raises(BadInput, match="no image in the OCI's layout") as caught:
        await build(tmp_path / "folder")
    assert "tar -C" in caught.value.remedy
    (tmp_path / "folder/oci-layout").write_text("{}")
    with pytest.raises(BadInput, match="no image in the OCI's layout"):
        await build(tmp_path / "folder")
    empty = tmp_path / "empty.qcow2"
    run("qemu-img", "create", "-q", "-f", "qcow2", str(empty), "16M")
    with pytest.raises(BadInput, match="no partition of it holds a root file system"):
        await build(empty)
    backed = tmp_path / "backed.qcow2"
    run("qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", str(empty), str(backed))
    with pytest.raises(BadInput, match="it is not all in one file"):
        await build(backed)


def test_an_image_starts_what_its_configuration_says() -> None:
    where = Path("image.tar")
    assert read_process({}, where) == Process()
    assert read_process({**CONFIG, "User": "web:www"}, where).user == "web"
    assert read_process({"Cmd": ["sh"], "Entrypoint": None, "Env": None}, where).argv == ("sh",)


def test_an_image_is_asked_what_it_starts(monkeypatch: pytest.MonkeyPatch, lab: Image) -> None:
    monkeypatch.setattr(machine_image, "find_image", lambda name: lab)
    with pytest.raises(HostCannot, match="has no entry point and no command") as caught:
        machine_image.find_process("mine")
    assert "start = [" in caught.value.remedy
    with pytest.raises(HostCannot, match="nearmetal's alone") as caught:
        machine_image.find_process("/tmp/own.tar")
    assert "image build --from /tmp/own.tar --name mine" in caught.value.remedy


async def test_nobody_waits_for_a_login_that_an_image_lacks(
    tmp_path: Path, base: bytes, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    for members, has_it in (([], False), ([("usr/sbin/sshd", b"", 0o755)], True)):
        image = await build(docker_archive(tmp_path / f"{has_it}.tar", [base, layer(members)]))
        monkeypatch.setattr(machine_image, "_image", lambda name, image=image: image)
        assert machine_image.has_sshd("mine") is has_it


@pytest.mark.parametrize(("name", "said"), [("lab", "the image that studies get"), ("a/b", "no name for an image")])
def test_a_name_that_cannot_be_is_told(tmp_path: Path, lab: Image, name: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        ImageSource(name, tmp_path, lab)
