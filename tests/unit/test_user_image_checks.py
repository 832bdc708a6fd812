"""Images of the user's own: what is told of one that cannot be used, and what cloud-init is told of one that can."""

import bz2
import gzip
import io
import json
import lzma
import os
import random
import re
import tarfile
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import asyncssh
import pytest
from docker.errors import ImageNotFound

from nearmetal.errors import BadInput, HostCannot
from nearmetal.lab import machine_image
from nearmetal.lab.containers import image as container_image
from nearmetal.lab.image.transfer import Parts
from nearmetal.lab.keys import lab_keys
from nearmetal.lab.local_site import LocalSite, run_checked
from nearmetal.lab.qemu import cloud_image
from nearmetal.model import MachineSpec, Port

X86_ROOT = "4f68bce3-e8cd-4db1-96e7-fbcaf984b709"
ARM_ROOT = "b921b045-1df0-41c3-af44-4c6f280d3fae"
PORT = Port(address="10.111.0.7", prefix=16, mac="02:00:00:00:00:07", switch="/run/netns/lab", outside="port7")


@pytest.mark.parametrize(
    ("image", "is_own"),
    [("lab", False), ("my-lab_2.0", False), ("/x/y.qcow2", True), ("debian:12", True), ("ghcr.io/a/b", True)],
)
def test_a_name_of_ours_has_neither_slash_nor_colon(image: str, is_own: bool) -> None:
    assert MachineSpec(image=image).brings_image == is_own


def test_a_machine_of_the_hosts_is_made_of_ours_alone() -> None:
    with pytest.raises(HostCannot, match="machines of this kind are made of nothing else"):
        machine_image.find_image("debian:12")


# ── Disks ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def disk(*partitions: str, boot_code: bytes = b"\xeb\x63", signature: bytes = b"\x55\xaa") -> bytes:
    first = boot_code.ljust(510, b"\0") + signature
    if not partitions:
        return first.ljust(34 * 512, b"\0")
    entries = b"".join(uuid.UUID(kind).bytes_le.ljust(128, b"\0") for kind in partitions)
    return (first + b"EFI PART".ljust(512, b"\0") + entries).ljust(34 * 512, b"\0")


@pytest.mark.parametrize("good", [disk(), disk(X86_ROOT), disk("21686148-6449-6e6f-744e-656564454649", X86_ROOT)])
def test_nothing_speaks_against_a_disk_that_a_pc_boots(good: bytes) -> None:
    assert cloud_image.find_problem(good) is None


@pytest.mark.parametrize(
    ("head", "problem"),
    [
        (b"", "it is no disk"),
        (b"#!/bin/sh\necho hello\n".ljust(34 * 512, b"\0"), "it is no disk"),
        (disk(signature=b"\0\0"), "it is no disk"),
        (disk(boot_code=b"\0"), "no boot loader of a PC"),
        (disk(ARM_ROOT), "architecture arm64"),
        (disk(X86_ROOT, ARM_ROOT, boot_code=b"\0"), "architecture arm64"),
    ],
)
def test_what_speaks_against_one_is_told(head: bytes, problem: str) -> None:
    assert problem in (cloud_image.find_problem(head) or "")


async def told(path: Path | str, provision: Any = "boot", **settings: Any) -> list[tuple[str, str]]:
    """What is found wrong, with its detail."""
    spec = MachineSpec(image=str(path), **settings)
    findings = await cloud_image.check_image(spec, provision, LocalSite())
    assert all(finding.remedy for finding in findings if not finding.ok)
    return [(finding.what, finding.detail) for finding in findings if not finding.ok]


async def qcow2(path: Path, content: bytes) -> Path:
    raw = path.with_suffix(".raw")
    raw.write_bytes(content)
    await LocalSite().exec(["qemu-img", "convert", "-f", "raw", "-O", "qcow2", str(raw), str(path)])
    return path


async def test_a_disk_is_looked_at_before_it_is_used(tmp_path: Path) -> None:
    assert await told("lab") == []
    good = await qcow2(tmp_path / "good.qcow2", disk(X86_ROOT))
    assert await told(good) == []
    assert await told(tmp_path / "good.raw") == []
    assert await cloud_image.find_parts(str(good), LocalSite()) == Parts("", "", str(good), "qcow2")
    ((_, missing),) = await told(tmp_path / "none.qcow2")
    assert missing == "there is no such file"
    ((_, reference),) = await told("debian:12")
    assert reference == "this is no whole path of a file"
    other = await qcow2(tmp_path / "arm.qcow2", disk(ARM_ROOT))
    ((_, architecture),) = await told(other)
    assert "arm64" in architecture


@pytest.mark.parametrize(
    "options",
    [
        "backing_file=secret,backing_fmt=raw",
        'backing_file=json:{"driver":"raw",,"file":{"driver":"file",,"filename":"secret"}},backing_fmt=raw',
        "data_file=secret,data_file_raw=on",
    ],
)
async def test_a_disk_that_has_the_guest_read_another_file_is_refused(tmp_path: Path, options: str) -> None:
    secret, path = tmp_path / "secret", tmp_path / "disk.qcow2"
    secret.write_bytes(disk(X86_ROOT).ljust(65536, b"\0"))
    named = options.replace("secret", str(secret))
    await run_checked(LocalSite(), "qemu-img", "create", "-f", "qcow2", "-o", named, str(path), "64K")
    ((_, detail),) = await told(path)
    assert "secret" in detail
    # What the file is may have changed since the check.
    with pytest.raises(HostCannot, match="secret"):
        await cloud_image.find_parts(str(path), LocalSite())


async def test_a_damaged_disk_is_told(tmp_path: Path) -> None:
    good = (await qcow2(tmp_path / "disk.qcow2", disk(X86_ROOT))).read_bytes()
    cut = tmp_path / "cut.qcow2"
    cut.write_bytes(good[:100])
    assert len(await told(cut)) == 1
    scrambled = tmp_path / "scrambled.qcow2"
    scrambled.write_bytes(good[: 2**16] + b"\xff" * 2**16 + good[2**17 :])
    ((_, detail),) = await told(scrambled)
    assert "damaged" in detail or "cannot be read" in detail
    unreferenced = bytearray(good)
    table = int.from_bytes(good[48:56], "big")
    block = int.from_bytes(good[table : table + 8], "big")
    unreferenced[block : block + 64] = bytes(64)
    scrambled.write_bytes(unreferenced)
    ((_, detail),) = await told(scrambled)
    assert re.fullmatch(r"it is damaged: ERROR cluster 0 refcount=0 reference=1 \(and \d+ more\)", detail)
    text = tmp_path / "text.qcow2"
    text.write_text("not a disk\n" * 2000)
    ((_, detail),) = await told(text)
    assert "no disk" in detail


def test_of_what_is_wrong_with_a_disk_the_first_is_told_whole() -> None:
    corrupt = "qcow2: Image is corrupt: L2 table offset 0x1; further non-fatal corruption events will be suppressed"
    assert (
        cloud_image.shorten_problems(f"{corrupt}\nqemu-img: Check failed: {'word ' * 100}\n")
        == f"{corrupt} (and 1 more)"
    )
    assert cloud_image.shorten_problems("qemu-img: Check failed\n") == "Check failed"
    assert cloud_image.shorten_problems("") == "qemu-img does not say how"


async def test_a_command_that_has_to_succeed_tells_its_last_words_whole() -> None:
    with pytest.raises(HostCannot) as caught:
        await run_checked(LocalSite(), "sh", "-c", f"echo '{'suppressed ' * 100}' >&2; exit 1")
    told = caught.value.what.partition("failed: ")[2]
    assert set(told.split()) == {"…", "suppressed"}


async def test_what_only_a_kernel_of_ours_can_do_is_refused(tmp_path: Path) -> None:
    good = await qcow2(tmp_path / "good.qcow2", disk())
    assert [what for what, _ in await told(good, kernel_arguments=("isolcpus=1",))] == [f"kernel arguments in {good}"]
    assert [what for what, _ in await told(good, provision="restore")] == [f"{good} restored"]


def test_cloud_init_is_told_who_may_come_in_and_what_cards_are_called(tmp_path: Path) -> None:
    keys = lab_keys(tmp_path)
    files = cloud_image.make_seed("nm-a-1", PORT, keys)
    assert files["user-data"].startswith(b"#cloud-config\n")
    user = json.loads(files["user-data"].partition(b"\n")[2])
    assert user["users"][0]["ssh_authorized_keys"] == [keys.client.public.decode()]
    assert asyncssh.import_private_key(user["ssh_keys"]["ed25519_private"]) == keys.host.loaded()
    cards = json.loads(files["network-config"])["ethernets"]
    assert cards["data"]["addresses"] == ["10.111.0.7/16"] and cards["data"]["set-name"] == "data"
    assert "data" not in json.loads(cloud_image.make_seed("nm-a-1", None, keys)["network-config"])["ethernets"]
    assert json.loads(files["meta-data"])["instance-id"] == "nm-a-1"


# ── Archives of containers' images ────────────────────────────────────────────────────────────────────────────────


def archive(path: Path, **files: Any) -> Path:
    with tarfile.open(path, "w") as tar:
        for name, document in files.items():
            content = json.dumps(document).encode()
            member = tarfile.TarInfo(name.replace("_", "."))
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


class NoEngine:
    """An engine that is not asked."""


def test_an_archive_says_for_which_architecture_it_is(tmp_path: Path) -> None:
    listed = [{"Config": "abc.json", "RepoTags": ["own:1"], "Layers": []}]
    good = archive(tmp_path / "good.tar", manifest_json=listed, abc_json={"architecture": "amd64"})
    assert container_image.check_image(NoEngine(), str(good), "x86_64", "docker").ok
    other = container_image.check_image(NoEngine(), str(good), "aarch64", "docker")
    assert not other.ok and "architecture amd64" in other.detail and "linux/arm64" in other.remedy


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "it is no tar archive"),
        (b"no archive", "it is no tar archive"),
        (b"\0" * 20_000, "it has no manifest.json that names a configuration and layers that are in it"),
    ],
)
def test_what_is_no_archive_of_an_image_is_told(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / "bad.tar"
    path.write_bytes(content)
    found = container_image.check_image(NoEngine(), str(path), "x86_64", "podman")
    assert not found.ok and found.detail == f"this is no archive of an image: {why}"
    assert found.remedy == "make it by: podman save -o FILE IMAGE"
    with pytest.raises(BadInput):
        container_image.provide_image(NoEngine(), str(path), "podman")


@pytest.mark.parametrize("files", [{}, {"manifest_json": {}}, {"manifest_json": [{"Config": "none.json"}]}])
def test_an_archive_of_something_else_is_told(tmp_path: Path, files: dict[str, Any]) -> None:
    other = archive(tmp_path / "other.tar", **{"other_json": 1, **files})
    found = container_image.check_image(NoEngine(), str(other), "x86_64", "docker")
    assert "it has no manifest.json that names" in found.detail


def test_an_archive_that_is_not_there_is_told(tmp_path: Path) -> None:
    found = container_image.check_image(NoEngine(), str(tmp_path / "none.tar"), "x86_64", "docker")
    assert found.detail == "there is no such file"


class TakesImages(NoEngine):
    """An engine that has no image, and keeps what it is given."""

    def __init__(self) -> None:
        self.given = b""

    def inspect_image(self, id: str) -> dict[str, str]:
        if not self.given:
            raise ImageNotFound(id)
        return {"Id": id}

    def load_image(self, data: Iterable[bytes]) -> list[dict[str, str]]:
        self.given = b"".join(data)
        return []

    def tag(self, *names: str) -> None:
        self.named = names


def test_an_engine_is_given_the_image_of_an_archive_without_its_names(tmp_path: Path) -> None:
    listed = [
        {"Config": "abc.json", "RepoTags": ["debian:12"], "Layers": ["index.json", "layer.tar"]},
        {"Config": "other.json", "RepoTags": ["debian:13"], "Layers": []},
    ]
    named = archive(
        tmp_path / "named.tar",
        manifest_json=listed,
        abc_json={"architecture": "amd64"},
        index_json="first",
        layer_tar="x" * 3_000_000,
        repositories={"debian": {"12": "abc"}},
    )
    engine = TakesImages()
    assert container_image.provide_image(engine, str(named), "docker") == "sha256:abc"
    assert engine.named == ("sha256:abc", "nearmetal/archive", "abc")
    with tarfile.open(fileobj=io.BytesIO(engine.given)) as tar:
        given = {name: json.load(tar.extractfile(name) or io.BytesIO()) for name in tar.getnames()}
    assert given == {
        "manifest.json": [{"Config": "config.json", "RepoTags": None, "Layers": ["0.tar", "1.tar"]}],
        "config.json": {"architecture": "amd64"},
        "0.tar": "first",
        "1.tar": "x" * 3_000_000,
    }


IMAGE = {
    "manifest_json": [{"Config": "abc.json", "Layers": ["layer.tar"]}],
    "abc_json": {"architecture": "amd64"},
    "layer_tar": "x" * 3000,
}


@pytest.mark.parametrize("files", [IMAGE, dict(reversed(IMAGE.items()))])
@pytest.mark.parametrize("cut", [*range(512, 5632, 512), 1000, 3000, 4000])
def test_an_archive_that_ends_too_early_is_told_before_it_is_sent(
    tmp_path: Path, files: dict[str, Any], cut: int
) -> None:
    path = archive(tmp_path / "cut.tar", **files)
    assert container_image.check_image(NoEngine(), str(path), "x86_64", "docker").ok
    os.truncate(path, cut)
    found = container_image.check_image(NoEngine(), str(path), "x86_64", "docker")
    assert not found.ok and found.detail.startswith("this archive is damaged: ")
    assert found.remedy == "make it by: docker save -o FILE IMAGE"


@pytest.mark.parametrize("cut", [20, 0.5, 0.9])
def test_what_bzip2_packed_is_damaged_where_it_ends_too_early(tmp_path: Path, cut: float) -> None:
    packed = bz2.compress(archive(tmp_path / "good.tar", **IMAGE).read_bytes())
    path = tmp_path / "cut.tar.bz2"
    path.write_bytes(packed[: int(cut if cut > 1 else cut * len(packed))])
    found = container_image.check_image(NoEngine(), str(path), "x86_64", "docker")
    assert not found.ok and found.detail.startswith("this archive is damaged: ")


def test_an_archive_without_a_layer_that_it_names_is_told_before_it_is_sent(tmp_path: Path) -> None:
    without = archive(tmp_path / "image.tar", **{name: IMAGE[name] for name in ("manifest_json", "abc_json")})
    found = container_image.check_image(NoEngine(), str(without), "x86_64", "docker")
    assert not found.ok and "it has no manifest.json that names" in found.detail


@pytest.mark.parametrize("form", ["gz", "bz2", "xz"])
@pytest.mark.parametrize("kept", [0.001, 0.5, 0.999])
@pytest.mark.parametrize("is_whole", [False, True])
def test_a_compressed_archive_that_is_damaged_is_told(tmp_path: Path, form: str, kept: float, is_whole: bool) -> None:
    listed = [{"Config": "abc.json", "Layers": ["layer.tar"]}]
    noise = random.Random(1).randbytes(100_000).hex()
    files = {"layer_tar": noise, "manifest_json": listed, "abc_json": {"architecture": "amd64"}}
    bad = tmp_path / f"bad.tar.{form}"
    content = {"gz": gzip, "bz2": bz2, "xz": lzma}[form].compress(archive(tmp_path / "good.tar", **files).read_bytes())
    begin = content[: int(len(content) * kept)]
    bad.write_bytes(begin + b"\x55" * (len(content) - len(begin)) if is_whole else begin)
    found = container_image.check_image(NoEngine(), str(bad), "x86_64", "docker")
    assert not found.ok and "archive" in found.detail + found.remedy
    with pytest.raises(BadInput):
        container_image.provide_image(TakesImages(), str(bad), "docker")
