"""An image of the user's own as an image of ours: the same bits for a chroot, a container and a guest's disk.

It comes as an archive of a container's image, as a tar archive of a root file system, or as a disk (qcow2). What it
lacks to be a guest is laid over it: the lab's kernel with its modules, and the first process. Of what it starts by
itself nothing runs but what a service asks for by `start = "image"`.
"""

import hashlib
import io
import json
import os
import shlex
import shutil
import sys
import tarfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from nearmetal.errors import BadInput, ToolFailed
from nearmetal.lab.architecture import HERE, TABLE
from nearmetal.units import show_size

from . import archive, build_tools, disk, unpack_layers
from .build import finish_image, pack_root, sha256, write_manifest
from .image import Image, Process
from .recipe import FILES, Recipe, check_files, check_name, hash_files
from .store import folder_of

BUILDER = 1
"""Raised when another image comes out of the same source."""
REMEDY = "make it by: docker save -o FILE IMAGE, or for a root file system: tar -C FOLDER -cf FILE ."

_PULL = f"docker pull --platform linux/{HERE.debian} …"
_NEEDED = ("sh", "cat", "mkdir", "chmod", "rm", "sha256sum")
"""By which the probe and files get in, and the first process of a guest runs."""
_OF_ELF = {0: "none", 3: "i386", 40: "arm", 243: "riscv64", 21: "ppc64el", 22: "s390x"} | {
    one.elf: one.debian for one in TABLE.values()
}
"""How ELF numbers machines (elf.h)."""
_LARGEST = 8 * 2**30
"""Bytes that are unpacked at most: the disk that is made of them has 10 GiB."""
_FOLDERS = {"dev": 0o755, "proc": 0o555, "sys": 0o555, "run": 0o755, "root": 0o700, "tmp": 0o1777, "etc": 0o755}
"""What machines are mounted on, or write into; made where an image has none."""
_TOLD = 3
"""Names that are told of many."""
_QCOW2, _ZSTD = b"QFI\xfb", b"\x28\xb5\x2f\xfd"

# In a mount namespace that goes with it, and with it its loop devices. A partition that cannot be mounted is none of
# those that a root can be on.
_COPY_OUT = """
mkdir -p -- "$3"
{ echo "0 $(stat -c %s -- "$1")"; partx --raw --noheadings --bytes --output START,SIZE -- "$1" 2>/dev/null |
    while read -r start size; do echo "$((start * 512)) $size"; done; } >"$3.parts"
while read -r start size; do
    mount -o "ro,loop,offset=$start,sizelimit=$size" -- "$1" "$3" 2>/dev/null || continue
    if [ -d "$3/etc" ] && { [ -e "$3/bin/sh" ] || [ -L "$3/bin/sh" ] || [ -d "$3/usr/bin" ]; }; then
        exec tar --create --file "$2" --directory "$3" --one-file-system --numeric-owner --format=posix \\
            --xattrs --xattrs-include='*' .
    fi
    umount -- "$3"
done <"$3.parts"
echo "no partition of it holds a root file system that this kernel mounts" >&2
exit 3
"""


@dataclass(frozen=True)
class ImageSource:
    """Where an image of the user's own comes from, and what is added. BadInput for what cannot be."""

    name: str
    path: Path
    lab: Image
    """Whose kernel and first process it gets."""
    files: tuple[tuple[str, str], ...] = ()
    """As a `Recipe`'s."""

    def __post_init__(self) -> None:
        check_name(self.name)
        if self.name == Recipe().name:
            what = f"{self.name!r} is the image that studies get which name none"
            raise BadInput(what, remedy="choose another name: --name mine")
        check_files(self.files)

    @cached_property
    def key(self) -> str:
        """Hexadecimal SHA-256 over all that determines the image. OSError."""
        # Of a folder in the OCI's layout the index names everything else by checksums.
        content = sha256(self.path / "index.json" if self.path.is_dir() else self.path)
        facts = [str(BUILDER), self.name, self.lab.digest, self.lab.key, content]
        digest = hashlib.sha256("\0".join(facts).encode())
        for fact in hash_files(self.files):
            digest.update(fact)
        return digest.hexdigest()


def check(path: Path) -> str:
    """What a file holds: "image", "rootfs" or "disk". BadInput where it is none of them."""
    if path.is_dir():
        if (path / "oci-layout").is_file() and (path / "index.json").is_file():
            return "image"
        remedy = f"make an archive of it: tar -C {shlex.quote(str(path))} -cf rootfs.tar ."
        raise BadInput("this folder is no image in the OCI's layout", str(path), remedy)
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise BadInput(f"it cannot be read: {error.strerror}", str(path), REMEDY) from None
    if magic == _QCOW2:
        return "disk"
    if magic == _ZSTD:
        return "rootfs"
    return "image" if archive.holds_bundle(path, REMEDY) else "rootfs"


async def build_own(source: ImageSource, cache: Path, progress: Callable[[str], None]) -> Image:
    """The image of a source: the cached one if it is whole, else made now. BadInput, HostCannot, ToolFailed."""
    return await finish_image(
        folder_of(source.name, source.key, cache), partial(_make_in, source=source, progress=progress), progress
    )


async def _make_in(work: Path, source: ImageSource, progress: Callable[[str], None]) -> None:
    work.chmod(0o700)  # what it brings may run as root for whoever gets there
    folder = work / "image"
    image = Image(source.name, source.key, "", folder)
    image.root.mkdir(parents=True)
    image.root.chmod(0o755)
    kind, layers, process = check(source.path), [], Process()
    if kind == "image":
        bundle = archive.read_bundle(source.path, REMEDY)
        if (bundle.architecture, bundle.system) != (HERE.debian, "linux"):
            what = f"it is for {bundle.system} on the architecture {bundle.architecture}"
            raise BadInput(what, str(source.path), f"get it for this one: {_PULL}")
        layers = list(_list_layers(bundle, source.path))
        process = read_process(bundle.config, source.path)
    elif kind == "disk":
        progress("reading the disk")
        layers = [{"file": str(await _copy_out(source.path, work))}]
    else:
        layers = [{"file": str(source.path)}]
    progress(f"unpacking {'1 layer' if len(layers) == 1 else f'{len(layers)} layers'}")
    _write_ours(work / "ours.tar", source, process.directory)
    told = await _unpack(image, [*layers, {"file": str(work / "ours.tar"), "lays": True}], source)
    await _check_programs(image, told["programs"], source)
    if told["left_out"]:
        names, more = ", ".join(told["left_out"][:_TOLD]), len(told["left_out"]) - _TOLD
        others = f" and {more} more" if more > 0 else ""
        progress(f"left out, since machines have their own: device nodes {names}{others}")
    process = _name_user(process, told["users"], source)
    progress("writing the root file system")
    await pack_root(image)
    await disk.make_disk(image.root, image.disk)
    for part in ("vmlinux", "initrd"):
        try:
            os.link(source.lab.folder / part, folder / part)  # one file with two names; nobody writes to either
        except OSError:
            shutil.copyfile(source.lab.folder / part, folder / part)
    write_manifest(
        image,
        digest=sha256(image.tarball),
        architecture=HERE.debian,
        kernel=source.lab.manifest["kernel"],
        packages={},
        source={"kind": kind, "file": source.path.name, "lab": source.lab.digest},
        process=asdict(process),
    )


def _list_layers(bundle: archive.Bundle, path: Path) -> Iterator[dict[str, Any]]:
    for layer in bundle.layers:
        place = {"file": str(path / layer.member)} if path.is_dir() else {"file": str(path), "member": layer.member}
        yield {**place, "digest": layer.digest, "whiteouts": True}


async def _copy_out(path: Path, work: Path) -> Path:
    """A tar archive of the root file system that is on a disk. BadInput where there is none."""
    asked = ("qemu-img", "info", "--output=json", str(path.resolve()))
    status, text = await build_tools.run(asked, folder=work)
    info = json.loads(text) if status == 0 else {}
    if other := disk.find_other_file(info):
        what = f"it is not all in one file: {other} would be read too"
        raise BadInput(what, str(path), "if that may be read, make one file of both: qemu-img convert -O qcow2")
    raw, packed = work / "disk.raw", work / "disk.tar"
    convert = ("qemu-img", "convert", "-f", "qcow2", "-O", "raw", str(path.resolve()), str(raw))
    status, text = await build_tools.run(convert, folder=work)
    if status != 0:
        raise BadInput(f"the disk cannot be read: {text.strip()[-300:]}", str(path), "qemu-img check tells more")
    argv = ("sh", "-c", _COPY_OUT, "copy-out", str(raw), str(packed), str(work / "mounted"))
    status, text = await build_tools.run(argv, folder=work)
    if status != 0:
        where = "take a disk with ext4, xfs or btrfs on it, or give its root file system as a tar archive"
        raise BadInput(text.strip().splitlines()[-1][-300:] if text.strip() else "it has no root", str(path), where)
    raw.unlink()
    return packed


def read_process(config: Mapping[str, Any], path: Path) -> Process:
    """What an image starts. Its user's own group is taken, whatever group is named beside. BadInput. Pure."""
    try:
        argv = (*(config.get("Entrypoint") or ()), *(config.get("Cmd") or ()))
        env = dict(one.split("=", 1) for one in config.get("Env") or ())
        user = str(config.get("User") or "").partition(":")[0]
        directory = str(config.get("WorkingDir") or "/")
        words = (*argv, *env, *env.values(), user, directory)
        if not all(isinstance(word, str) and "\0" not in word for word in words):
            raise TypeError("not all of it is text")
        if not directory.startswith("/") or ".." in Path(directory).parts:
            raise ValueError(f"{directory!r} is no directory of the image")
    except (AttributeError, TypeError, ValueError) as error:
        raise BadInput(f"what it starts cannot be told: {str(error)[:200]}", str(path), REMEDY) from None
    return Process(tuple(argv), env, user, directory)


def _name_user(process: Process, users: Mapping[str, list[str]], source: ImageSource) -> Process:
    """With the name of the user, which an image may give by number. BadInput for one that is not there."""
    user = process.user
    names = {numbers[0]: name for name, numbers in reversed(list(users.items()))}
    found = user if user in users else names.get(user, "")
    if found == "root" or user in ("", "0"):
        return replace(process, user="")
    if not found:
        what = f"its entry point is to run as the user {user}, who is not in its /etc/passwd"
        raise BadInput(what, str(source.path), "add the user in the image, or build it with another USER")
    return replace(process, user=found)


def _write_ours(path: Path, source: ImageSource, directory: str) -> None:
    """The highest layer: folders that machines need, the lab's modules and first process, files of the user's."""
    lab, release = source.lab, source.lab.manifest["kernel"]
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as ours:
        for name, mode in {**_FOLDERS, directory.strip("/"): 0o755}.items():
            if name:
                ours.addfile(_member(name, mode, tarfile.DIRTYPE))
        _add(ours, "etc/hostname", b"nearmetal\n")
        _add(ours, "etc/hosts", b"127.0.0.1 localhost nearmetal\n")
        _add(ours, "etc/resolv.conf", b"")
        for below in ("etc/nearmetal/sshd_config", "usr/sbin/nearmetal-init", "usr/sbin/poweroff", "usr/sbin/reboot"):
            content = (FILES / "root").joinpath(*below.split("/")).read_bytes()
            _add(ours, below, content, 0o755 if "sbin/" in below else 0o644)
        modules = lab.root / "usr/lib/modules" / release
        for file in sorted(one for one in modules.rglob("*") if one.is_file() and not one.is_symlink()):
            _add(ours, f"lib/modules/{release}/{file.relative_to(modules)}", file.read_bytes())
        for origin, destination in source.files:
            _add(ours, destination.strip("/"), Path(origin).read_bytes(), Path(origin).stat().st_mode & 0o777)


def _member(name: str, mode: int, kind: bytes = tarfile.REGTYPE) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.mode, member.type, member.mtime = mode, kind, build_tools.EPOCH
    return member


def _add(ours: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    member = _member(name, mode)
    member.size = len(content)
    ours.addfile(member, io.BytesIO(content))


async def _unpack(image: Image, layers: list[dict[str, Any]], source: ImageSource) -> dict[str, Any]:
    room = shutil.disk_usage(image.folder).free // 3  # unpacked, packed again, and as a disk
    limit = min(room, _LARGEST)
    for layer in layers:
        layer["file"] = str(Path(layer["file"]).resolve())
    task = {"root": str(image.root), "limit": limit, "layers": layers, "programs": _NEEDED}
    argv = (sys.executable, "-I", "-B", unpack_layers.__file__, json.dumps(task))
    status, text = await build_tools.run(argv, folder=image.folder)
    try:
        told: dict[str, Any] = json.loads(text.rpartition("\n")[2])
    except ValueError:
        raise ToolFailed(f"unpacking ended with status {status}: {text[-300:]}", str(source.path)) from None
    if told.get("is_too_large"):
        what = f"it unpacks to more than {show_size(limit)}"
        raise BadInput(what, str(source.path), "free some space, or take a smaller one: at most 8 GiB")
    if "error" in told:
        raise BadInput(told["error"], str(source.path), REMEDY)
    return told


async def _check_programs(image: Image, programs: Mapping[str, int], source: ImageSource) -> None:
    """BadInput where its programs are for another machine, or it lacks those that the lab needs."""
    other = next((machine for machine in programs.values() if machine not in (0, -1, HERE.elf)), None)
    if other is not None:
        what = f"its programs are for the architecture {_OF_ELF.get(other, f'number {other}')}, not for {HERE.debian}"
        raise BadInput(what, str(source.path), f"take the one for {HERE.debian}: {_PULL}")
    lacking = [name for name, machine in programs.items() if not machine]
    if lacking:
        what = f"it has no {', '.join(lacking)}, by which the probe and files get into machines"
        remedy = "build it FROM an image with a shell, as debian:12-slim or alpine; or unpack a static busybox into it"
        raise BadInput(what, str(source.path), remedy)
    argv = ("chroot", str(image.root), "sh", "-c", ":")
    status, text = await build_tools.run(argv, folder=image.folder)
    if status != 0:
        what = f"its shell does not run: {text.strip()[-300:] or f'status {status}'}"
        raise BadInput(what, str(source.path), "does it lack its C library?")
