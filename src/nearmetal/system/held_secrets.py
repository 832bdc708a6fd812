"""Secrets that the environment brought: held here, so that no program which is started finds them in its own.

A process of ours that needs them too is given them with its environment, and takes them out of it as the first thing.
"""

import os

_NAMES = "NEARMETAL_HELD_SECRETS"
_held: dict[str, str] = {}


def take_secret(name: str) -> str | None:
    """The value of a variable of the environment, which it is taken out of; None where there was none."""
    if name in os.environ:
        _held[name] = os.environ.pop(name)
    return _held.get(name)


def pass_secrets() -> dict[str, str]:
    """The environment of a process of ours that is to hold them too."""
    return {**os.environ, **_held, _NAMES: ",".join(_held)}


def take_passed() -> None:
    """Take out of the environment what `pass_secrets` put there."""
    for name in filter(None, os.environ.pop(_NAMES, "").split(",")):
        take_secret(name)
