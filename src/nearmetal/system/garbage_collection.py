"""Python's collection of garbage, put off."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collection() -> Iterator[None]:
    """Ten thousand records are a million objects that all stay: looking for garbage among them takes a second."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            if not gc.get_freeze_count():  # what somebody else has frozen stays so
                gc.freeze()
                gc.unfreeze()  # all of it counts as old now, and is not looked through as soon as collection is on
            gc.enable()
