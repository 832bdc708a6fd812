"""What a sentence can hold of many names."""

from nearmetal.shortened_list import shorten_list


def test_the_first_are_named_and_the_others_counted() -> None:
    assert shorten_list(list("abcdef"), 3) == "a, b, c, and 3 more"
    assert shorten_list(["a", "b"], 3) == "a, b"


def test_a_single_other_is_named_too() -> None:
    assert shorten_list(["a", "b", "c", "d"], 3) == "a, b, c, d"
