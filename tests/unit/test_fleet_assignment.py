"""Blocks go to sites by a list that the seed draws: balanced, and the same whoever is faster."""

from collections import Counter

import pytest

from nearmetal.fleet.assignment import assign_site

SITES = ("a", "b", "c")


def listed(count: int, seed: int = 1, **more: object) -> list[str | None]:
    return [assign_site("digest", seed, SITES, index, **more) for index in range(count)]  # type: ignore[arg-type]


def test_each_site_has_as_many_blocks() -> None:
    rounds = [listed(60)[first : first + 3] for first in range(0, 60, 3)]
    assert all(Counter(one) == Counter(SITES) for one in rounds)
    assert len({tuple(one) for one in rounds}) > 1, "each round is drawn anew"


def test_the_seed_draws_the_list() -> None:
    assert listed(30) == listed(30)
    assert listed(30) != listed(30, seed=2)


@pytest.mark.parametrize("attempt", [1, 2])
def test_an_attempt_after_the_first_is_on_another_site(attempt: int) -> None:
    assert all(one != other for one, other in zip(listed(12), listed(12, attempt=attempt), strict=True))


def test_blocks_of_a_site_that_is_gone_go_to_the_others() -> None:
    moved = [now for before, now in zip(listed(60), listed(60, gone={"b"}), strict=True) if before == "b"]
    assert set(moved) == {"a", "c"}
    kept = [(before, now) for before, now in zip(listed(60), listed(60, gone={"b"}), strict=True) if before != "b"]
    assert all(before == now for before, now in kept)
    assert set(listed(6, gone=set(SITES))) == {None}
