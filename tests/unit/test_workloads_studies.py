"""The built-in studies are found by name and can be carried out as written."""

from itertools import pairwise

import pytest

from nearmetal import studies
from nearmetal.analysis.verdict_rules import count_spare
from nearmetal.commands.demo import RUN
from nearmetal.errors import BadInput
from nearmetal.planning import plan
from nearmetal.study import study_file
from nearmetal.study.blocks import plan_blocks
from nearmetal.study.resolve import build_workload

FIVE_MINUTES = 300.0
BOOT = {"host": 0.5, "docker": 1.0, "qemu": 8.0}
"""Seconds until an environment's machine answers, without hardware virtualization, seen generously."""
AROUND = 1.0
"""Seconds around a trial: starting the server, asking both ends for what was set."""


def test_a_study_that_is_not_there_is_told_with_what_is() -> None:
    assert "quickstart" in studies.list_names()
    with pytest.raises(BadInput, match="did you mean `quickstart`"):
        studies.read_study_file("quikstart")
    with pytest.raises(BadInput, match=r"choose one of: .*quickstart"):
        studies.read_study_file("../../etc/passwd")


@pytest.mark.parametrize("name", studies.list_names())
@pytest.mark.parametrize("quick", [False, True])
def test_every_study_reads_and_plans(name: str, quick: bool) -> None:
    read = study_file.read(studies.read_study_file(name), f"{name}.toml", quick=quick)
    assert read.name == name
    assert plan.make_plan(read).blocks


@pytest.mark.parametrize("name", studies.list_names())
def test_three_blocks_of_each_study_may_disagree(name: str) -> None:
    spare = count_spare(plan.make_plan(study_file.read(studies.read_study_file(name), f"{name}.toml")))
    assert spare is not None and spare >= 3


def test_the_demo_of_quickstart_has_slack_for_its_six_verdicts_and_fits_in_five_minutes() -> None:
    (blocks,) = [given for before, given in pairwise(RUN) if before == "--blocks"]
    read = study_file.read(studies.read_study_file("quickstart"), "quickstart.toml", [f"design.blocks={blocks}"])
    made = plan.make_plan(read)
    assert len(made.contrasts) == 6
    assert (
        made.blocks
        == plan.make_plan(study_file.read(studies.read_study_file("quickstart"), "quickstart.toml")).looks[0].blocks
        == 12
    )
    assert count_spare(made) == 3
    boots = [boot for block in plan_blocks(made) for boot in block.boots]
    trials = sum(len(boot.trials) for boot in boots)
    assert (len(boots), trials) == (36, 72)
    booting = sum(BOOT[str(boot.treatment["environment"])] for boot in boots)
    durations = {spec.name: build_workload(spec).duration for spec in read.workloads}
    measuring = sum(durations[trial.workload] for boot in boots for trial in boot.trials)
    assert booting + measuring + trials * AROUND < FIVE_MINUTES
