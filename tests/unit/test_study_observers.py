"""Observers and what they are told, as factors."""

import pytest

from nearmetal import errors, studies
from nearmetal.model import CaptureSpec
from nearmetal.study import factors, study_file
from nearmetal.study.resolve import Resolver
from tests.unit.study_text import GOOD, line, refused


def test_whether_an_observer_watches_is_a_factor_of_any_name() -> None:
    text = GOOD.replace("[machine]", '[factors.tap]\nlevels = [false, true]\nsets = "observe.capture"\n[machine]')
    read = study_file.read(text, "s.toml")
    assert read.factors["tap"].levels == (False, True)
    asked = [(one["tap"], Resolver(read).ask_treatment(one).observe.capture) for one in factors.treatments_of(read)]
    assert {tap for tap, _ in asked} == {False, True}
    assert all(capture == (CaptureSpec(snap=96) if tap else None) for tap, capture in asked)


CAPTURED = """[factors.snap]
levels = [64, 256]
sets = "observe.capture.snap"
[factors.inside]
levels = [false, true]
sets = "observe.capture.inside"
[machine]"""


def test_how_captures_are_made_is_a_factor() -> None:
    read = study_file.read(GOOD.replace("[machine]", CAPTURED), "s.toml")
    found = [
        (treatment["snap"], treatment["inside"], Resolver(read).ask_treatment(treatment).observe.capture)
        for treatment in factors.treatments_of(read)
    ]
    assert {(snap, inside) for snap, inside, _ in found} == {(64, False), (64, True), (256, False), (256, True)}
    assert all(capture == CaptureSpec(snap=snap, inside=inside) for snap, inside, capture in found)


@pytest.mark.parametrize(
    ("old", "new", "what", "remedy"),
    [
        ("[64, 256]", "[64, 32]", "the level 32 of `snap` cannot be 32", "at least 64"),
        ("[64, 256]", '[64, "big"]', "the level 'big' of `snap` cannot be 'big'", "a whole number"),
        ("[false, true]", "[false, 1]", "the level 1 of `inside` cannot be 1", "true or false"),
        ('sets = "observe.capture.snap"', "", "the factor 'snap' sets nothing", 'sets = "observe.capture.snap"'),
        ("capture.snap", "capture.limit", "sets = 'observe.capture.limit' names nothing that can be set", "sets = "),
        ("capture.snap", "capture.snip", "sets = 'observe.capture.snip' names nothing that can be set", "sets = "),
        ("capture.inside", "capture.snap", "`inside` and `snap` both set capture.snap", "one factor"),
    ],
)
def test_what_captures_cannot_be_is_told_at_the_factor(old: str, new: str, what: str, remedy: str) -> None:
    text = GOOD.replace("[machine]", CAPTURED.replace(old, new))
    error = refused(text)
    assert what in error.what and remedy in error.remedy
    assert error.where == f"s.toml:{line('[factors.inside]' if 'inside' in what else '[factors.snap]', text)}"


def test_a_factor_that_is_nothing_is_told_which_observers_there_are() -> None:
    text = GOOD.replace("[machine]", "[factors.watched]\nlevels = [false, true]\n[machine]")
    error = refused(text)
    assert "no observer (capture, noise, usage)" in error.what
    assert error.remedy == 'write "{watched}" into a workload, or say what it sets, as in: sets = "machine.nic"'


def test_captures_that_are_not_made_are_not_varied() -> None:
    off = GOOD.replace("capture = { snap = 96 }", "").replace("[machine]", CAPTURED)
    error = refused(off)
    assert error.what == "`snap` is varied where nothing is captured"
    assert error.where == f"s.toml:{line('[factors.snap]', off)}"
    assert "[observe] capture = true" in error.remedy
    whether = off.replace("workers = [1, 4]", "workers = [1, 4]\ncapture = [false, true]")
    assert refused(whether).what == error.what
    nested = whether.replace("levels = [64", "when = { capture = true }\nlevels = [64")
    nested = nested.replace("levels = [false", "when = { capture = true }\nlevels = [false")
    treatments = factors.treatments_of(study_file.read(nested, "s.toml"))
    assert {(one["capture"], one.get("snap"), one.get("inside")) for one in treatments} == {
        (False, None, None),
        *((True, snap, inside) for snap in (64, 256) for inside in (False, True)),
    }


def test_a_level_that_switches_an_observer_on_leaves_its_settings_to_be_set() -> None:
    source = studies.read_study_file("probe-cost")
    read = study_file.read(
        source, "p.toml", ['observe.usage="100ms"', 'observe.capture={ ring = true, limit = "1GiB" }']
    )
    assert read.observe.chosen["usage"] == 0.1


def test_levels_of_an_observer_are_the_same_by_what_the_study_says_of_it() -> None:
    text = GOOD.replace("workers = [1, 4]", 'workers = [1, 4]\nusage = [false, true, "1s"]')
    assert text != GOOD
    said = text.replace("[observe]", '[observe]\nusage = "100ms"')
    assert study_file.read(said, "s.toml").factors["usage"].levels == (False, True, "1s")
    with pytest.raises(errors.BadInput, match="the levels true and '100ms' of `usage` are the same"):
        study_file.read(said.replace('"1s"]', '"100ms"]'), "s.toml")
