"""Our image as a Vagrant box, for machines by libvirt (vagrant-libvirt's format).

A box is a compressed tar archive: `metadata.json`, the box's own `Vagrantfile`, the disk as `box.img`, and here the
kernel and the initial RAM disk beside it, because a guest of ours boots without a loader. So does the same guest by
`qemu` and `libvirt`: what is compared is who makes the machine.

The guest takes its address by DHCP. Who may log in is decided by a key of this box's own, made with it.
"""

import io
import json
import os
import secrets
import tarfile
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Final

from nearmetal.errors import BadInput, HostCannot
from nearmetal.lab.image import Image, disk, newc
from nearmetal.lab.image.initrd import seed_archive
from nearmetal.lab.qemu import arguments
from nearmetal.lab.ssh_library import asyncssh

_FILES: Final = resources.files(__package__) / "files"
_COMPRESSION: Final = 1
"""Most of it is a file system: what more effort saves in bytes, it costs many times in seconds."""


def make_seed(image: Image, authorized: bytes) -> Mapping[str, tuple[bytes, int]]:
    """What belongs in /run/nearmetal of a guest that finds its own address; `authorized` is who may log in as root.

    Busybox, which holds the DHCP client, is the one of the image's initial RAM disk: the image itself has none.
    """
    busybox = newc.content(image.initrd.read_bytes(), "bin/busybox")
    return {
        "busybox": (busybox, 0o755),
        "start": ((_FILES / "start").read_bytes(), 0o755),
        "lease": ((_FILES / "lease").read_bytes(), 0o755),
        "authorized_keys": (authorized, 0o600),
    }


def write_box(image: Image, out: Path) -> None:
    """Write the box to a file. BadInput where there is one already, HostCannot where it cannot be written."""
    unfinished = out.with_name(f".unfinished-{secrets.token_hex(4)}-{out.name}")
    try:
        with unfinished.open("xb") as file:
            _pack(image, file)
        os.link(unfinished, out)
    except FileExistsError:
        raise BadInput("there is something already", str(out), "remove it, or name another file by -o") from None
    except OSError as error:
        remedy = "name another place by -o, or free some space"
        raise HostCannot(f"the box cannot be written: {error.strerror}", str(out), remedy) from None
    finally:
        unfinished.unlink(missing_ok=True)


def _pack(image: Image, file: io.BufferedIOBase) -> None:
    key = asyncssh.generate_private_key("ssh-ed25519", comment=f"box of {image.name} {image.digest[:12]}")
    guest = seed_archive(make_seed(image, key.export_public_key("openssh")))
    made = int(image.made.timestamp())
    with tarfile.open(fileobj=file, mode="w:gz", compresslevel=_COMPRESSION) as box:
        described = {"provider": "libvirt", "format": "qcow2", "virtual_size": int(disk.SIZE.removesuffix("G"))}
        _add(box, "metadata.json", json.dumps(described).encode(), made)
        vagrantfile = (_FILES / "Vagrantfile").read_text("utf-8")
        _add(box, "Vagrantfile", vagrantfile.replace("@COMMAND_LINE@", " ".join(arguments.KERNEL)).encode(), made)
        _add(box, "key", key.export_private_key("openssh"), made, mode=0o600)
        _add(box, "vmlinux", image.kernel, made)
        _add(box, "initrd", image.initrd.read_bytes() + guest, made)
        _add(box, "box.img", image.disk, made)


def _add(box: tarfile.TarFile, name: str, content: bytes | Path, made: int, mode: int = 0o644) -> None:
    """Owned by nobody in particular: whoever unpacks it owns it."""
    entry = tarfile.TarInfo(name)
    entry.mode, entry.mtime = mode, made
    with content.open("rb") if isinstance(content, Path) else io.BytesIO(content) as source:
        entry.size = content.stat().st_size if isinstance(content, Path) else len(content)
        box.addfile(entry, source)
