"""Images of machines."""

from pathlib import Path

import click

from nearmetal.arguments.options import FileToWrite, json_option


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
    from nearmetal.commands import image as command

    command.build(source, packages, files, name, as_json)


@image.command("box")
@click.argument("name", default="lab")
@click.option("-o", "--output", "out", type=FileToWrite(), help="The file to write; else NAME.box here.")
@json_option("box.v1")
def image_box(name: str, out: Path | None, as_json: bool) -> None:
    """Write an image that is built as a Vagrant box, for machines by libvirt."""
    from nearmetal.commands import image as command

    command.export_box(name, out, as_json)


@image.command("ls")
@json_option("images.v1")
def image_ls(as_json: bool) -> None:
    """List the images that are built."""
    from nearmetal.commands import image as command

    command.list_images(as_json)


@image.command("rm")
@click.argument("name")
def image_rm(name: str) -> int:
    """Remove an image, by its name or digest."""
    from nearmetal.commands import image as command

    return command.remove_image(name)
