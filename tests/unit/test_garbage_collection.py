"""Python's collection of garbage, put off while a run is read."""

import gc

from nearmetal.system.garbage_collection import without_collection


def test_what_was_made_meanwhile_is_not_looked_through_when_collection_is_on_again() -> None:
    with without_collection():
        assert not gc.isenabled()
        made = [[number] for number in range(10_000)]
    assert gc.isenabled()
    assert not {id(one) for one in made} & {id(one) for one in gc.get_objects(generation=0)}
    assert gc.get_freeze_count() == 0


def test_what_others_have_frozen_stays_frozen() -> None:
    gc.freeze()
    try:
        before = gc.get_freeze_count()
        with without_collection():
            pass
        assert gc.get_freeze_count() == before
    finally:
        gc.unfreeze()
