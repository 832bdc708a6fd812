"""The studies that come with nearmetal: one TOML file each, run by name."""

import difflib
from importlib import resources

from nearmetal.errors import BadInput

_FOLDER = resources.files(__package__)


def names() -> tuple[str, ...]:
    """Every built-in study, sorted."""
    return tuple(sorted(file.name.removesuffix(".toml") for file in _FOLDER.iterdir() if file.name.endswith(".toml")))


def text(name: str) -> str:
    """A study's file. BadInput when there is none of that name."""
    if name not in names():
        near = difflib.get_close_matches(name, names(), n=1)
        raise BadInput(
            f"there is no built-in study {name!r}",
            remedy=f"did you mean {near[0]!r}?" if near else f"choose one of: {', '.join(names())}",
        )
    return (_FOLDER / f"{name}.toml").read_text(encoding="utf-8")
