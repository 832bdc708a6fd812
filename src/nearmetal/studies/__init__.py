"""The studies that come with nearmetal, each a TOML file and run by name.

Those that replicate a published study lie in a folder: what was printed there stands in its `published.toml`, and
`chapter.py` makes the chapter that reports of these studies have, and no others.
"""

from collections.abc import Mapping
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

from nearmetal.errors import BadInput
from nearmetal.spelling import did_you_mean

_PUBLISHED = "published.toml"


@cache
def _list_files() -> Mapping[str, tuple[str, Traversable]]:
    """Study to its folder below this one ("" of those that have none) and its file."""
    top = resources.files(__package__)
    folders = {"": top} | {folder.name: folder for folder in top.iterdir() if folder.is_dir()}
    return {
        file.name.removesuffix(".toml"): (name, file)
        for name, folder in folders.items()
        for file in folder.iterdir()
        if file.name.endswith(".toml") and file.name != _PUBLISHED
    }


def list_names() -> tuple[str, ...]:
    """Every built-in study, sorted."""
    return tuple(sorted(_list_files()))


def read_study_file(name: str) -> str:
    """A study's file. BadInput when there is none of that name."""
    if name not in _list_files():
        raise BadInput(f"there is no built-in study {name!r}", remedy=did_you_mean(name, list_names(), "choose one of"))
    return _list_files()[name][1].read_text(encoding="utf-8")


def find_folder(name: str) -> str | None:
    """The folder of a built-in study that replicates a published one; None of any other."""
    return _list_files().get(name, ("",))[0] or None


def read_published(folder: str) -> str:
    """What was published of the studies of a folder, as TOML (`studies.published.figures`)."""
    return (resources.files(__package__) / folder / _PUBLISHED).read_text(encoding="utf-8")
