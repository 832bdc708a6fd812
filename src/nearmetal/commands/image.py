"""Images of machines."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nearmetal.commands.options import FileToWrite, json_option
from nearmetal.errors import BadInput, ExitCode, HostCannot, Interrupted, LeftAtOnce

if TYPE_CHECKING:
    from nearmetal.progress_messages import Say


@click.group()
def image() -> None:
    """Build and list images of machines.

    An image is one root filesystem for every environment: the lab's, or one of your own.
    """


@image.command("build")
@click.option(
    "--from",
    "source",
    metavar="REF|FILE",
    help="Make it of an image of your own: an archive by docker save, an OCI layout, a tar of a root filesystem, "
    "a qcow2 disk, or a reference that an engine of this host has.",
)
@click.option("--package", "packages", multiple=True, metavar="NAME", help="Also install this Debian package.")
@click.option("--file", "files", multiple=True, metavar="FILE:PATH", help="Also lay this file at that path in it.")
@click.option("--name", help="What studies call it; the lab image without --from.")
@json_option("image.built.v1")
def image_build(
    source: str | None, packages: tuple[str, ...], files: tuple[str, ...], name: str | None, as_json: bool
) -> None:
    """Build the image, or find it built already."""
    from nearmetal.config import Paths
    from nearmetal.console.printing import console_for, print_json
    from nearmetal.lab import image as images
    from nearmetal.lab.image.documents import Built
    from nearmetal.system.interrupts import until_interrupted
    from nearmetal.system.temporary_folders import temporary_folder

    console = console_for(as_json)
    placed = tuple(_parse_placement(text) for text in files)
    recipe = images.Recipe(name=name or images.Recipe().name, packages=packages, files=placed)
    done: list[images.Image] = []

    def say_progress(text: str) -> None:
        console.print(text, highlight=False, markup=False)

    async def build_it() -> None:
        cache = Paths.default().cache
        if source is None:
            done.append(await images.build(recipe, cache, say_progress))
            return
        own = _check_own(source, packages, name)
        with temporary_folder() as folder:
            path = own if own.exists() else await _save_reference(source, folder / "saved.tar", say_progress)
            kind = images.check(path)
            lab = await images.build(images.Recipe(), cache, say_progress)
            say_progress({"image": "an image of containers", "rootfs": "a root filesystem", "disk": "a disk"}[kind])
            done.append(await images.build_own(images.ImageSource(recipe.name, path, lab, placed), cache, say_progress))

    try:
        finished = until_interrupted(build_it(), console.print)
    except LeftAtOnce:
        click.echo("the build was interrupted, and the next one removes what is left of it", err=True)
        raise
    if not finished:
        raise Interrupted("the build was interrupted, and nothing is left of it", remedy="run it again")
    built = done[0]
    if as_json:
        print_json(Built(name=built.name, digest=built.digest, folder=str(built.folder)))
    else:
        console.print(f"{built.name} {built.digest[:12]}  {built.folder}", highlight=False)


def _check_own(source: str, packages: tuple[str, ...], name: str | None) -> Path:
    """BadInput for what does not go with an image of the user's own."""
    if name is None:
        raise BadInput("the image has no name by which studies ask for it", remedy="add one: --name mine")
    if packages:
        raise BadInput(
            "--package adds Debian's packages to the lab image, and none to one of your own",
            remedy="install it in your image; --file adds files",
        )
    return Path(source)


async def _save_reference(reference: str, file: Path, say: "Say") -> Path:
    """The archive of an image that an engine of this host has. BadInput."""
    from nearmetal.lab import image as images
    from nearmetal.lab.containers.api import BRANDS
    from nearmetal.lab.containers.image import save_image

    if reference.startswith(("/", "./", "../")) or reference.endswith((".tar", ".qcow2", ".tgz", ".gz")):
        raise BadInput("there is no such file", reference, images.REMEDY)
    answers = []
    for brand in BRANDS:
        try:
            await save_image(reference, file, brand)
        except HostCannot as error:
            answers.append(f"{brand.client}: {error.what}")
        else:
            say(f"saved from the {brand.called}")
            return file
    remedy = f"get it: docker pull {shlex.quote(reference)}; or name a file: {images.REMEDY}"
    raise BadInput(f"this is no file, and no engine of this host has it ({'; '.join(answers)})", reference, remedy)


def _parse_placement(text: str) -> tuple[str, str]:
    """`FILE:PATH`; the last colon divides, since a path in an image needs none."""
    source, colon, destination = text.rpartition(":")
    if not colon:
        raise BadInput(f"--file {text!r} names no place in the image", remedy="write FILE:PATH, both of them")
    return source, destination


@image.command("box")
@click.argument("name", default="lab")
@click.option("-o", "--output", "out", type=FileToWrite(), help="The file to write; else NAME.box here.")
@json_option("box.v1")
def image_box(name: str, out: Path | None, as_json: bool) -> None:
    """Write an image that is built as a Vagrant box, for machines by libvirt."""
    from nearmetal.config import Paths
    from nearmetal.console.printing import console_for, print_json
    from nearmetal.lab import image as images
    from nearmetal.lab.image.documents import BoxOutput
    from nearmetal.lab.machine_image import find_image as find_image
    from nearmetal.lab.vagrant.box import write_box as write_box
    from nearmetal.units import show_size

    known = sorted({one.name for one in images.ls(Paths.default().cache)})
    if name not in known and name != images.Recipe().name:
        raise BadInput(f"there is no image {name!r}", remedy=f"images here: {', '.join(known) or 'none'}")
    chosen = find_image(name)
    file = out or Path(f"{name}.box")
    write_box(chosen, file)
    if as_json:
        print_json(BoxOutput(name=chosen.name, digest=chosen.digest, file=str(file.resolve())))
        return
    console = console_for(False)
    console.print(f"{file}  {show_size(file.stat().st_size)}", highlight=False, soft_wrap=True)
    console.print(f"vagrant box add --name nearmetal/{name} {shlex.quote(str(file))}", highlight=False, soft_wrap=True)


@image.command("ls")
@json_option("images.v1")
def image_ls(as_json: bool) -> None:
    """List the images that are built."""
    from nearmetal.config import Paths
    from nearmetal.console.printing import console_for, print_json
    from nearmetal.console.tables import TextColumn, fit_table
    from nearmetal.lab import image as images
    from nearmetal.lab.image.documents import ImageEntry, Images, Snapshots
    from nearmetal.lab.qemu import snapshot
    from nearmetal.report.figures import format_count
    from nearmetal.units import show_size

    built = images.ls(Paths.default().cache)
    current = images.newest(built)
    snapshots = snapshot.list_sizes()
    if as_json:
        listed = tuple(
            ImageEntry(
                name=one.name,
                digest=one.digest,
                folder=str(one.folder),
                current=one in current,
                bytes=one.occupied,
                made=one.made.isoformat(timespec="seconds"),
            )
            for one in built
        )
        print_json(Images(images=listed, snapshots=Snapshots(count=len(snapshots), bytes=sum(snapshots))))
        return
    if not built:
        click.echo("no image is built; `nearmetal image build` builds one, and so does a run that needs it")
        return
    rows = [
        (
            one.name,
            one.digest[:12],
            "current" if one in current else "old",
            f"{one.made:%Y-%m-%d %H:%M}",
            show_size(one.occupied),
        )
        for one in built
    ]
    console = console_for(False)
    console.print(
        fit_table([TextColumn(title) for title in ("image", "digest", "", "made (UTC)", "size")], rows, console.width)
    )
    console.print(f"in {built[0].folder.parent}", soft_wrap=True)
    if snapshots:
        many = format_count(len(snapshots), "snapshot")
        console.print(
            f"{many} of guests, {show_size(sum(snapshots))}: at most {snapshot.KEPT} are kept, none without its image"
        )
    if len(current) < len(built):
        console.print("machines are made of the current one; remove an old one by: nearmetal image rm DIGEST")


@image.command("rm")
@click.argument("name")
def image_rm(name: str) -> int:
    """Remove an image, by its name or digest."""
    from itertools import product

    from nearmetal.config import Paths
    from nearmetal.console.printing import print_beside
    from nearmetal.lab import image as images
    from nearmetal.lab.containers import imported_images
    from nearmetal.lab.containers.api import BRANDS
    from nearmetal.lab.qemu import snapshot
    from nearmetal.system.interrupts import run_until_done

    gone = images.rm(Paths.default().cache, name, _name_holder, print_beside)
    for removed in gone:
        click.echo(f"removed {removed.name} {removed.digest[:12]}")
    snapshot.sweep()
    left = False  # whether an engine may still have a copy
    for removed, brand in product(gone, BRANDS):
        try:
            if address := run_until_done(imported_images.remove_copy(removed, brand)):
                click.echo(f"removed {imported_images.name_copy(removed)} from the {brand.called} at {address}")
        except HostCannot as error:
            print_beside(f"nearmetal: {error}")
            left = True
    return ExitCode.NOT_ALL_OF_IT if left else ExitCode.DONE


def _name_holder(process: int) -> str:
    """Who holds an image: a machine by its name, a run by its command."""
    from nearmetal.lab.machines.registry import everything

    for kept in everything():
        if kept.keeper == process:
            return f"{kept.name} is up"
    try:
        words = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
    except OSError:
        words = []
    command = shlex.join(word.decode("utf-8", "replace") for word in words[:-1])
    return f"process {process} ({command[:200]})"
