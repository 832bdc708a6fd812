"""What the commands about images do."""

import shlex
from itertools import product
from pathlib import Path

import click

from nearmetal.config import Paths
from nearmetal.console.printing import console_for, print_beside, print_json
from nearmetal.console.tables import TextColumn, fit_table
from nearmetal.errors import BadInput, ExitCode, HostCannot, Interrupted, LeftAtOnce
from nearmetal.lab import image, machine
from nearmetal.lab.containers import copies
from nearmetal.lab.containers.api import BRANDS
from nearmetal.lab.containers.image import save
from nearmetal.lab.image.documents import BoxOutput, Built, ImageEntry, Images, Snapshots
from nearmetal.lab.machines.kept import everything
from nearmetal.lab.qemu import snapshot
from nearmetal.lab.vagrant import box as vagrant_box
from nearmetal.report import figures
from nearmetal.say import Say
from nearmetal.system.interrupts import run_until_done, until_interrupted
from nearmetal.system.temporary import temporary_folder
from nearmetal.units import show_size


def build(
    source: str | None, packages: tuple[str, ...], files: tuple[str, ...], name: str | None, as_json: bool
) -> None:
    console = console_for(as_json)
    placed = tuple(_parse_placement(text) for text in files)
    recipe = image.Recipe(name=name or image.Recipe().name, packages=packages, files=placed)
    done: list[image.Image] = []

    def say_progress(text: str) -> None:
        console.print(text, highlight=False, markup=False)

    async def build_it() -> None:
        cache = Paths.default().cache
        if source is None:
            done.append(await image.build(recipe, cache, say_progress))
            return
        own = _check_own(source, packages, name)
        with temporary_folder() as folder:
            path = own if own.exists() else await _save_reference(source, folder / "saved.tar", say_progress)
            kind = image.check(path)
            lab = await image.build(image.Recipe(), cache, say_progress)
            say_progress({"image": "an image of containers", "rootfs": "a root filesystem", "disk": "a disk"}[kind])
            done.append(await image.build_own(image.ImageSource(recipe.name, path, lab, placed), cache, say_progress))

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


async def _save_reference(reference: str, file: Path, say: Say) -> Path:
    """The archive of an image that an engine of this host has. BadInput."""
    if reference.startswith(("/", "./", "../")) or reference.endswith((".tar", ".qcow2", ".tgz", ".gz")):
        raise BadInput("there is no such file", reference, image.REMEDY)
    answers = []
    for brand in BRANDS:
        try:
            await save(reference, file, brand)
        except HostCannot as error:
            answers.append(f"{brand.client}: {error.what}")
        else:
            say(f"saved from the {brand.called}")
            return file
    remedy = f"get it: docker pull {shlex.quote(reference)}; or name a file: {image.REMEDY}"
    raise BadInput(f"this is no file, and no engine of this host has it ({'; '.join(answers)})", reference, remedy)


def _parse_placement(text: str) -> tuple[str, str]:
    """`FILE:PATH`; the last colon divides, since a path in an image needs none."""
    source, colon, destination = text.rpartition(":")
    if not colon:
        raise BadInput(f"--file {text!r} names no place in the image", remedy="write FILE:PATH, both of them")
    return source, destination


def list_images(as_json: bool) -> None:
    built = image.ls(Paths.default().cache)
    current = image.newest(built)
    snapshots = snapshot.kept()
    if as_json:
        listed = tuple(_make_entry(one, one in current) for one in built)
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
        many = figures.format_count(len(snapshots), "snapshot")
        console.print(
            f"{many} of guests, {show_size(sum(snapshots))}: at most {snapshot.KEPT} are kept, none without its image"
        )
    if len(current) < len(built):
        console.print("machines are made of the current one; remove an old one by: nearmetal image rm DIGEST")


def _make_entry(one: image.Image, is_current: bool) -> ImageEntry:
    return ImageEntry(
        name=one.name,
        digest=one.digest,
        folder=str(one.folder),
        current=is_current,
        bytes=one.occupied,
        made=one.made.isoformat(timespec="seconds"),
    )


def export_box(name: str, out: Path | None, as_json: bool) -> None:
    known = sorted({one.name for one in image.ls(Paths.default().cache)})
    if name not in known and name != image.Recipe().name:
        raise BadInput(f"there is no image {name!r}", remedy=f"images here: {', '.join(known) or 'none'}")
    chosen = machine.image(name)
    file = out or Path(f"{name}.box")
    vagrant_box.write(chosen, file)
    if as_json:
        print_json(BoxOutput(name=chosen.name, digest=chosen.digest, file=str(file.resolve())))
        return
    console = console_for(False)
    console.print(f"{file}  {show_size(file.stat().st_size)}", highlight=False, soft_wrap=True)
    console.print(f"vagrant box add --name nearmetal/{name} {shlex.quote(str(file))}", highlight=False, soft_wrap=True)


def remove_image(name: str) -> int:
    """1 where an engine may still have a copy, which is told."""
    gone = image.rm(Paths.default().cache, name, _name_holder, print_beside)
    for removed in gone:
        click.echo(f"removed {removed.name} {removed.digest[:12]}")
    snapshot.sweep()
    left = False
    for removed, brand in product(gone, BRANDS):
        try:
            if address := run_until_done(copies.remove(removed, brand)):
                click.echo(f"removed {copies.tag(removed)} from the {brand.called} at {address}")
        except HostCannot as error:
            print_beside(f"nearmetal: {error}")
            left = True
    return ExitCode.NOT_ALL_OF_IT if left else ExitCode.DONE


def _name_holder(process: int) -> str:
    """Who holds an image: a machine by its name, a run by its command."""
    for kept in everything():
        if kept.keeper == process:
            return f"{kept.name} is up"
    try:
        words = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
    except OSError:
        words = []
    command = shlex.join(word.decode("utf-8", "replace") for word in words[:-1])
    return f"process {process} ({command[:200]})"
