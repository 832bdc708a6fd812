"""Levels: told apart with their types, written as in a study file, put in place of placeholders."""

from nearmetal.model import Level, identify_assignment
from nearmetal.study.levels import fill_placeholders, find_placeholders, format_assignment, is_same_level


def test_levels_are_told_apart_with_their_types() -> None:
    assert is_same_level(True, True)
    assert not is_same_level(True, 1)
    assert not is_same_level(1, 1.0)
    assert identify_assignment({"a": True, "b": 1}) == identify_assignment({"b": 1, "a": True})
    assert identify_assignment({"a": True}) != identify_assignment({"a": 1})


def test_a_combination_is_one_line_in_its_own_order() -> None:
    assert format_assignment({"environment": "qemu", "offload": True, "n": 4}) == "environment=qemu offload=true n=4"


def test_placeholders_are_found_wherever_they_stand() -> None:
    assert list(find_placeholders({"a": ["{x}", 4], "b": "{y}-{z}", "c": {"d": "{x}"}})) == ["x", "y", "z", "x"]


def test_a_placeholder_keeps_its_type_alone_and_reads_as_written_within_a_text() -> None:
    levels: dict[str, Level] = {"on": True, "n": 4, "x": 0.5}
    value = {
        "alone": "{on}",
        "within": ["--on={on} --n={n}", "{x}", {"deep": "{n}"}],
        "other": "{not-a-factor} {} { n }",
    }
    assert fill_placeholders(value, levels) == {
        "alone": True,
        "within": ["--on=true --n=4", 0.5, {"deep": 4}],
        "other": "{not-a-factor} {} { n }",
    }


def test_a_level_that_looks_like_a_placeholder_is_not_filled_again() -> None:
    assert fill_placeholders("{a} {b}", {"a": "{b}", "b": "x"}) == "{b} x"
