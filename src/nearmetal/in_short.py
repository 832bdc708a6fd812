"""The first of many names, and how many more there are: what a sentence can hold."""

from collections.abc import Sequence


def in_short(names: Sequence[str], most: int, between: str = ", ") -> str:
    """ "a, b, and 3 more". Where names hold commas, something else stands `between` them."""
    more = [f"and {len(names) - most} more"] if len(names) > most else []
    return between.join([*names[:most], *more])
