"""What a sentence can hold of many names."""

from nearmetal.in_short import in_short


def test_the_first_are_named_and_the_others_counted() -> None:
    assert in_short(list("abcdef"), 3) == "a, b, c, and 3 more"
    assert in_short(["a", "b"], 3) == "a, b"


def test_a_single_other_is_named_too() -> None:
    assert in_short(["a", "b", "c", "d"], 3) == "a, b, c, d"
