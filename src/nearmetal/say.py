"""Telling whoever waits how it goes, a sentence at a time: a terminal, a log, or nobody."""

from collections.abc import Callable

Say = Callable[[str], None]


def silent(text: str) -> None:
    """Nobody waits."""
