"""What `nearmetal image build`, `image box` and `image ls` print with `--json`."""

from typing import Annotated, Literal

from pydantic import Field

from nearmetal.model import Document, Frozen


class Built(Document):
    """`image.built.v1`."""

    schema_: Annotated[Literal["image.built.v1"], Field(alias="schema")] = "image.built.v1"
    name: str
    digest: str
    """The SHA-256 of its root file system, in hexadecimal."""
    folder: str


class BoxOutput(Document):
    """`box.v1`."""

    schema_: Annotated[Literal["box.v1"], Field(alias="schema")] = "box.v1"
    name: str
    """Of the image that is in it."""
    digest: str
    file: str


class ImageEntry(Frozen):
    """An image that is built."""

    name: str
    digest: str
    folder: str
    current: bool
    """Machines are made of it: the last of its name."""
    bytes: int
    """What it occupies."""
    made: str
    """When, by ISO 8601."""


class Snapshots(Frozen):
    """Guests that were stopped in the middle, for machines to go on from."""

    count: int
    bytes: int
    """What they occupy."""


class Images(Document):
    """`images.v1`."""

    schema_: Annotated[Literal["images.v1"], Field(alias="schema")] = "images.v1"
    images: tuple[ImageEntry, ...]
    snapshots: Snapshots
