"""A disk image of the user's own in place of ours: a cloud image, booted by its own loader and set up by cloud-init.

What cloud-init is told (NoCloud: a file system labelled CIDATA) lets the lab in and names the network cards; the image
itself is never written to.
"""

import errno
import json
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nearmetal.errors import HostCannot
from nearmetal.lab.architecture import X86_64
from nearmetal.lab.host_checks import finding
from nearmetal.lab.image.disk import find_other_file
from nearmetal.lab.image.transfer import Parts
from nearmetal.lab.keys import LabKeys
from nearmetal.lab.local_site import run_checked
from nearmetal.model import Finding, Machine, MachineSpec, Port, Provision, Site
from nearmetal.system import files
from nearmetal.system.temporary_folders import temporary_folder

from .arguments import CONTROL_ADDRESS, CONTROL_MAC

BOOT = 600.0
"""Seconds until such a guest has to answer: a whole distribution comes up, emulated perhaps, and is set up first."""

_SECTOR = 512
_HEAD = 34
"""Sectors that hold the boot loader's first part and a whole partition table."""
_BOOT_CODE = slice(0, 440)
_ENTRY = 128
_ROOTS: Mapping[str, str] = {
    "b921b045-1df0-41c3-af44-4c6f280d3fae": "arm64",
    "69dad710-2ce4-4e3c-b16c-21a1d49abed3": "arm",
    "72ec70a6-cf74-40e6-bd49-4bda08e8f224": "riscv64",
    "c31c45e6-3f39-412e-80fb-4809c4980599": "ppc64el",
    "5eead9a9-fe09-4a1e-a1d7-520d00531306": "s390x",
}
"""Type of a root partition to the architecture that it is for (the Discoverable Partitions Specification)."""


async def check_image(machine: MachineSpec, provision: Provision | None, site: Site) -> list[Finding]:
    """What keeps an image of the user's from being booted here; nothing where the machine is made of ours."""
    if not machine.brings_image:
        return []
    path = machine.image
    problem = _where(path, site)
    found = [
        finding(
            f"image {path}",
            problem is None,
            problem or "",
            "name a qcow2 or raw disk image in machine.image, by its whole path; OCI images are for containers",
        ),
        finding(
            f"kernel arguments in {path}",
            not machine.kernel_arguments,
            "its own boot loader decides what its kernel is told",
            "leave out machine.kernel_arguments and the isolation by kernel, or use an image of nearmetal's",
        ),
        finding(
            f"{path} restored",
            provision != "restore",
            "guests of an image of your own are booted, and not restored",
            'set provision = "boot"',
        ),
    ]
    return found if not all(one.ok for one in found) else [*found, await _bootable(path, site)]


def _where(path: str, site: Site) -> str | None:
    """What is wrong with the place of an image; None where there is a file."""
    if site.spec is not None:
        return "a disk image of your own is used on this host only"
    if not path.startswith("/"):
        return "this is no whole path of a file"
    try:
        files.refuse_irregular(path)
    except OSError as error:
        return "there is no such file" if error.errno == errno.ENOENT else str(error.strerror)
    return None


async def _bootable(path: str, site: Site) -> Finding:
    what = f"image {path}"
    ended = await site.exec(["qemu-img", "info", "--output=json", path])
    info = json.loads(ended.stdout) if ended.status == 0 else {}
    kind = info.get("format")
    if kind not in ("qcow2", "raw"):
        said = ended.complaint.rpartition(": ")[2]
        detail = f"it cannot be read: {said}" if said else f"it is of the format {kind}"
        return finding(what, False, detail, "convert it: qemu-img convert -O qcow2")
    if other := find_other_file(info):
        return finding(what, False, _reads(other), _ONE_FILE)
    checked = await site.exec(["qemu-img", "check", "-q", "-f", kind, path]) if kind == "qcow2" else None
    if checked and checked.status != 0:
        said = shorten_problems(checked.complaint or checked.text)
        return finding(what, False, f"it is damaged: {said}", "get it anew, and compare its checksum")
    problem = find_problem(await _head(path, kind, site))
    return finding(
        what, problem is None, problem or "", f"use an image for {X86_64.title} that a BIOS boots, with cloud-init"
    )


_ONE_FILE = "if the guest may read that, make one file of both: qemu-img convert -O qcow2"


def _reads(other: str) -> str:
    return f"it is not all in one file: the guest would read {other}"


def shorten_problems(said: str) -> str:
    """The first of the problems that qemu-img tells, which may be thousands, and how many there are besides. Pure."""
    lines = [line.removeprefix("qemu-img: ") for line in said.splitlines() if line.strip()]
    if not lines:
        return "qemu-img does not say how"
    return lines[0] if len(lines) == 1 else f"{lines[0]} (and {len(lines) - 1} more)"


async def _head(path: str, kind: str, site: Site) -> bytes:
    with temporary_folder() as folder:
        file = folder / "head"
        size = (f"bs={_SECTOR}", f"count={_HEAD}")
        await run_checked(site, "qemu-img", "dd", "-f", kind, "-O", "raw", *size, f"if={path}", f"of={file}")
        return file.read_bytes()


def find_problem(head: bytes) -> str | None:
    """Why a disk that begins so does not boot on a PC, as far as can be told; None when nothing speaks against it."""
    if len(head) < 2 * _SECTOR or head[510:512] != b"\x55\xaa":
        return "it is no disk: it has no partition table"
    other = next((_ROOTS[kind] for kind in _partition_types(head) if kind in _ROOTS), None)
    if other:
        return f"it is for the architecture {other}"
    if not any(head[_BOOT_CODE]):
        return "it has no boot loader of a PC: it is for another architecture, or for UEFI alone"
    return None


def _partition_types(head: bytes) -> list[str]:
    """Of a GUID partition table (UEFI specification, 5.3); none of any other."""
    if head[_SECTOR : _SECTOR + 8] != b"EFI PART":
        return []
    entries = head[2 * _SECTOR :]
    kinds = [entries[start : start + 16] for start in range(0, len(entries), _ENTRY)]
    return [str(uuid.UUID(bytes_le=kind)) for kind in kinds if len(kind) == 16 and any(kind)]


async def find_parts(path: str, site: Site) -> Parts:
    """The image as what a guest is made of: it brings its kernel. HostCannot when it is another one since the check."""
    info = json.loads(await run_checked(site, "qemu-img", "info", "--output=json", path))
    if other := find_other_file(info):
        raise HostCannot(_reads(other), path, _ONE_FILE)
    return Parts(kernel="", initrd="", disk=path, disk_format=info["format"])


def describe_image(path: str) -> str:
    """For the record, the file as it is now: another one of that name is another system."""
    written = datetime.fromtimestamp(Path(path).stat().st_mtime, UTC)
    return f"{path} of {written.isoformat(timespec='seconds')}"


async def wait_settled(machine: Machine) -> None:
    """Wait until cloud-init has come to its end, well or not: it would be measured otherwise."""
    await machine.exec(["cloud-init", "status", "--wait"], timeout=BOOT)


def make_seed(name: str, port: Port | None, keys: LabKeys) -> dict[str, bytes]:
    """The files of the NoCloud source. JSON is YAML."""
    documents: dict[str, Any] = {
        "meta-data": {"instance-id": name, "local-hostname": name[:63]},
        "user-data": _user_data(keys),
        "network-config": {"version": 2, "ethernets": _cards(port)},
    }
    head = {"user-data": "#cloud-config\n"}
    return {file: f"{head.get(file, '')}{json.dumps(document)}\n".encode() for file, document in documents.items()}


def _user_data(keys: LabKeys) -> dict[str, Any]:
    public = keys.host.public.decode()
    return {
        "disable_root": False,
        "ssh_pwauth": False,
        "users": [{"name": "root", "ssh_authorized_keys": [keys.client.public.decode()]}],
        # The host key that the lab pins, and no other.
        "ssh_deletekeys": True,
        "ssh_keys": {"ed25519_private": keys.host.private.decode(), "ed25519_public": public},
        # The probe lies in /run, from which some systems let nothing run.
        "bootcmd": [["mount", "-o", "remount,exec", "/run"]],
    }


def _cards(port: Port | None) -> dict[str, Any]:
    # What QEMU's DHCP server would give: so nobody has to ask it.
    control = {"control": _card("control", CONTROL_MAC, CONTROL_ADDRESS)}
    return control | ({"data": _card("data", port.mac, f"{port.address}/{port.prefix}")} if port else {})


def _card(name: str, mac: str, address: str) -> dict[str, Any]:
    return {"match": {"macaddress": mac}, "set-name": name, "addresses": [address]}
