"""The first of many names, and how many more there are: what a sentence can hold."""

from collections.abc import Sequence


def shorten_list(names: Sequence[str], most: int, between: str = ", ") -> str:
    """ "a, b, and 3 more". Where names hold commas, something else stands `between` them.

    One more than `most` is named as well: "and 1 more" would be no shorter.
    """
    if len(names) == most + 1:
        return between.join(names)
    more = [f"and {len(names) - most} more"] if len(names) > most else []
    return between.join([*names[:most], *more])
