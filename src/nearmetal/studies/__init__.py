"""The studies that come with nearmetal: one TOML file each, run by name."""

from importlib import resources

from nearmetal.errors import BadInput
from nearmetal.study.error_messages import did_you_mean

_FOLDER = resources.files(__package__)


def list_names() -> tuple[str, ...]:
    """Every built-in study, sorted."""
    return tuple(sorted(file.name.removesuffix(".toml") for file in _FOLDER.iterdir() if file.name.endswith(".toml")))


def read_study_file(name: str) -> str:
    """A study's file. BadInput when there is none of that name."""
    if name not in list_names():
        raise BadInput(f"there is no built-in study {name!r}", remedy=did_you_mean(name, list_names(), "choose one of"))
    return (_FOLDER / f"{name}.toml").read_text(encoding="utf-8")
