"""What is alike in every machine of ours: the image it is made of, the environment of its programs, its files."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import IO, Any, Protocol

from nearmetal.config import Paths
from nearmetal.errors import HostCannot, NotProvisioned
from nearmetal.lab import image as images
from nearmetal.lab.architecture import HERE, Architecture
from nearmetal.lab.commands.command_errors import cannot_read, cannot_write
from nearmetal.lab.host_checks import check_provided
from nearmetal.lab.image import Image, Process, Recipe, ls, pinned_images
from nearmetal.model import Commands, Completed, ControlGroup, Finding, Handle, MachineImage, MachineSpec, Order, Site

ENVIRONMENT: Mapping[str, str] = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LC_ALL": "C.UTF-8",
}
"""All that a program finds in its environment, whatever the machine is made of, besides what its caller gives."""

# The mode is a new file's, as with open(2): what exists keeps its own. Writing in place also serves /proc and /sys.
_PUT = """
set -e
mkdir -p -- "$2"
[ -e "$1" ] || { : >"$1"; chmod -- "$3" "$1"; }
exec cat >"$1"
"""
_PART = """
[ -e "$1" ] || exit 0
exec dd if="$1" bs=64K iflag=skip_bytes,count_bytes skip="$2" count="$3" status=none
"""

_NEEDED, _NEEDED_BY_SHELL = ("sh", "cat", "sha256sum"), ("mkdir", "chmod")
"""What is started by itself, and what a shell starts, which may have it built in."""
_NOT_STARTED = (126, 127)
_LACKING = 'for program; do command -v "$program" >/dev/null || echo "$program"; done'

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


def name_folder(name: str, site: Site) -> str:
    """Where a machine of that name has its files on its site. Its environment removes them with the machine. Pure."""
    return f"{site.state}/machines/{name}"


def describe_image(name: str) -> str:
    """What a machine is made of, for the record: an image of ours with its digest, or what the user named."""
    found = _image(name)
    return name if found is None else f"{name} {found.digest[:12]}"


def make_handle(kind: str, order: Order, site: Site, image: MachineImage | None = None, **data: Any) -> Handle:
    """A handle for the ledger, written before the machine exists.

    It has what is known of every machine of ours; `data` are JSON values for the plugin of this `kind` alone.
    """
    return Handle(
        kind=kind,
        name=order.name,
        site=site.name,
        role=order.role,
        port=order.port,
        shared=order.shared,
        image=image or MachineImage(name=describe_image(order.spec.image)),
        data=data,
    )


def build_words(probe: str, argv: Sequence[str], env: Mapping[str, str] | None, *place: str) -> list[str]:
    """The argument vector with which the probe starts a program, at its home, as where one logs in.

    `place` are options of its verb `launch`.
    """
    return [probe, "launch", *place, "--at-home", "--clear-env", *build_variables(env), "--", *argv]


def build_launch(
    site: Site,
    argv: Sequence[str],
    env: Mapping[str, str] | None = None,
    *,
    group: ControlGroup | None = None,
    inside: int | None = None,
) -> list[str]:
    """The command of a site by which a program of a machine starts: in a control group, inside its namespaces.

    `inside` is the number of a process whose namespaces and root it enters. It begins at its home, has
    `env` in its environment besides what every machine's programs have, and ends with the
    controller, however that ends.
    """
    entered = () if inside is None else ("--enter", str(inside))
    spent = ("--spent", group.spent) if entered and group and group.spent else ()
    return build_words(site.probe, argv, env, *site.bound, *entered, *spent, *(group.joined if group else ()))


def build_env(argv: Sequence[str], env: Mapping[str, str] | None = None) -> list[str]:
    """The argument vector with which `env` starts a program, where the probe need not."""
    return ["env", "-i", *_assignments(env), *argv]


def build_variables(env: Mapping[str, str] | None) -> list[str]:
    """A program's whole environment, as the probe's verbs take it."""
    return [word for assignment in _assignments(env) for word in ("--env", assignment)]


def _assignments(env: Mapping[str, str] | None) -> list[str]:
    return [f"{name}={value}" for name, value in {**ENVIRONMENT, **(env or {})}.items()]


class NamedCommands(Commands, Protocol):
    """Commands with a name for errors: a machine, or a site."""

    name: str


async def put_file(commands: NamedCommands, content: bytes, path: str, mode: int) -> None:
    """Write a whole file with permissions `mode`, by programs that every image has. Parents are made.

    HostCannot with what the machine said.
    """
    file = PurePosixPath(path)
    ended = await commands.exec(["sh", "-c", _PUT, "put", str(file), str(file.parent), f"{mode:o}"], stdin=content)
    if ended.status != 0:
        raise cannot_write(path, _said(ended), commands.name)


async def require_programs(commands: NamedCommands, image: str) -> None:
    """NotProvisioned where an image of the user's has not what the probe and files get in by."""
    tried = {program: await commands.exec([program, "/dev/null"]) for program in _NEEDED}
    lacking = [program for program, ended in tried.items() if ended.status in _NOT_STARTED]
    if "sh" not in lacking:
        lacking += (await commands.exec(["sh", "-c", _LACKING, "lacking", *_NEEDED_BY_SHELL])).text.split()
    if lacking:
        remedy = f"take one that has {', '.join((*_NEEDED, *_NEEDED_BY_SHELL))}: see docs/image.md"
        raise NotProvisioned(f"its image {image} has no {', '.join(lacking)}", commands.name, remedy)


async def read_file(commands: NamedCommands, path: str) -> bytes:
    """Read a whole file. ToolFailed with what the machine said."""
    return await _read(commands, path, ["cat", "--", path])


async def read_part(commands: NamedCommands, path: str, begin: int, most: int) -> bytes:
    """Read so much of a file from there on; nothing where there is none. ToolFailed with what the machine said."""
    return await _read(commands, path, ["sh", "-c", _PART, "part", path, str(begin), str(most)])


async def _read(commands: NamedCommands, path: str, argv: Sequence[str]) -> bytes:
    ended = await commands.exec(argv)
    if ended.status != 0:
        raise cannot_read(path, _said(ended), commands.name)
    return ended.stdout


def _said(ended: Completed) -> str:
    # An engine that cannot start a program says why where the program's own output would be.
    said = ended.complaint or ended.text.strip()
    return f"status {ended.status}, {said[-500:]}" if said else f"status {ended.status}"
