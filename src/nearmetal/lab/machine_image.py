"""The image that a machine is made of: found, held while it is in use, told, and refused."""

import shlex
from pathlib import PurePosixPath
from typing import IO

from nearmetal.config import Paths
from nearmetal.errors import HostCannot
from nearmetal.lab import image as images
from nearmetal.lab.architecture import HERE, Architecture
from nearmetal.lab.host_checks import check_provided
from nearmetal.lab.image import Image, Process, Recipe, ls, pinned_images
from nearmetal.model import Finding, MachineSpec

_ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.zst")


def find_image(name: str) -> Image:
    """The image of a name: the newest, or the one that the run began with. HostCannot when it is not there."""
    found = _image(name)
    if found:
        refuse_foreign(found)
        return found
    if digest := pinned_images.digest(name):
        what = f"the image {name} {digest[:12]} that the run began with is gone, and another would be another system"
        raise HostCannot(what, remedy="begin a new run")
    if MachineSpec(image=name).brings_image:
        what = f"{name!r} is no image of nearmetal's, and machines of this kind are made of nothing else"
        remedy = f"make it one: {_build_from(name)}; or use it for qemu (a disk) or docker (an OCI image) alone"
        raise HostCannot(what, remedy=remedy)
    if name.endswith(_ARCHIVES):
        stem = PurePosixPath(name).name.partition(".")[0] or "mine"
        remedy = f'{_build_from(name, stem)}; then write image = "{stem}"'
        raise HostCannot(f"there is no image {name!r}: an archive has to be made one", remedy=remedy)
    build = f"nearmetal image build{'' if name == Recipe().name else f' --name {name}'}"
    raise HostCannot(f"there is no image {name!r}", remedy=f"build it: {build}; or name one of: nearmetal image ls")


def refuse_foreign(image: Image, here: Architecture = HERE) -> None:
    """HostCannot for an image that was built on a host with another processor."""
    built = image.manifest.get("architecture", here.debian)
    if built != here.debian:
        what = f"it is for {built}, and this host is {here.debian}"
        raise HostCannot(what, f"the image {image.name}", f"nearmetal image rm {image.name}; nearmetal image build")


def _build_from(name: str, as_name: str = "mine") -> str:
    return f"nearmetal image build --from {shlex.quote(name)} --name {as_name}"


def _image(name: str) -> Image | None:
    digest = pinned_images.digest(name)
    named = (one for one in ls(Paths.default().cache) if one.name == name)
    return next((one for one in named if digest in (None, one.digest)), None)


def find_process(name: str) -> Process:
    """What the image of that name starts. HostCannot if it starts nothing, or is none of nearmetal's."""
    if MachineSpec(image=name).brings_image:
        remedy = f'make it one: {_build_from(name)}; then machine.image = "mine"'
        raise HostCannot(f"what {name} starts is known of images of nearmetal's alone", remedy=remedy)
    found = Process.of(find_image(name))
    if not found.argv:
        remedy = 'write it out: start = ["/srv/api", "--port", "8080"]'
        raise HostCannot(f"the image {name!r} has no entry point and no command", remedy=remedy)
    return found


def has_sshd(name: str) -> bool:
    """Whether people can log in to guests of an image by SSH; nobody waits for a server that an image lacks."""
    found = _image(name)
    return found is None or "process" not in found.manifest or (found.root / "usr/sbin/sshd").exists()


def hold_image(name: str) -> IO[bytes] | None:
    """Keep the image of a name, until what is returned is closed; None where there is none. HostCannot."""
    found = _image(name)
    return images.hold(found) if found else None


def check_image(name: str) -> Finding:
    """Whether an image is built. The lab's own is no obstacle: a run builds it."""
    return check_provided(f"image {name}", lambda: find_image(name)).model_copy(update={"fatal": name != Recipe().name})


def describe_image(name: str) -> str:
    """What a machine is made of, for the record: an image of ours with its digest, or what the user named."""
    found = _image(name)
    return name if found is None else f"{name} {found.digest[:12]}"
