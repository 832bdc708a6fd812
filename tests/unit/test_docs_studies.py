"""What the manual counts of the built-in studies is what their plans have, and the minutes are those of the plan."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

from nearmetal import studies
from nearmetal.model import Plan, Study
from nearmetal.planning import plan
from nearmetal.run.estimate import estimate_plan
from nearmetal.study import study_file

DOCS = Path(__file__).parents[2] / "docs"
MANUAL = (DOCS / "studies.md").read_text()


def planned(name: str, quick: bool) -> tuple[Study, Plan]:
    asked = study_file.read(studies.read_study_file(name), f"{name}.toml", quick=quick)
    return asked, plan.make_plan(asked)


def counted() -> dict[tuple[str, bool], list[int]]:
    """Treatments, blocks and comparisons of each study, whole and with --quick."""
    table = MANUAL.split("| study | |", 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    cells = [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in table]
    for above, row in pairwise(cells):
        row[0] = row[0] or above[0]
    which = {"whole": (False,), "--quick": (True,), "both": (False, True)}
    return {(name, quick): [int(one) for one in row] for name, kind, *row in cells for quick in which[kind]}


def test_each_study_is_counted_as_it_is_planned() -> None:
    found = {}
    for name in studies.list_names():
        for quick in (False, True):
            _, made = planned(name, quick)
            found[name, quick] = [len(made.treatments), made.blocks, len(made.contrasts)]
    assert counted() == found


def test_what_is_said_to_conclude_has_the_blocks_for_it() -> None:
    """All but quickstart, which --quick only shows to work."""
    made = {name: planned(name, quick=True) for name in studies.list_names()}
    needed = {name: plan.enough_blocks(len(one.contrasts), asked.design.alpha) for name, (asked, one) in made.items()}
    assert [name for name, (_, one) in made.items() if one.blocks < needed[name]] == ["quickstart"]
    assert "but for `quickstart`" in MANUAL.split("## Quick and whole", 1)[1].split("\n\n", 2)[1]


def test_a_ramp_of_quick_climbs_by_what_is_said() -> None:
    asked, _ = planned("shared-network", quick=True)
    (ramp,) = (one for one in asked.workloads if one.name == "heavy")
    assert f"The ramp climbs in steps of {ramp.parameters['step']}" in MANUAL


@pytest.mark.parametrize(("quick", "said"), [(False, r"some (\w+) minutes"), (True, r"less than (\w+) minutes")])
def test_calibrating_takes_the_minutes_that_are_said(quick: bool, said: str) -> None:
    (minutes,) = re.findall(said, (DOCS / "calibrate.md").read_text())
    words = ["one", "two", "three", "four", "five", "six", "seven", "eight"]
    assert words.index(minutes) + 1 == round(estimate_plan(planned("calibration", quick)[1]) / 60)
