"""The built-in studies are found by name and can be carried out as written."""

import pytest

from nearmetal import plan, studies, study
from nearmetal.blocks import plan_blocks
from nearmetal.errors import BadInput
from nearmetal.resolve import build_workload

EIGHT_MINUTES = 480.0
BOOT = {"host": 0.5, "docker": 1.0, "qemu": 8.0}
"""Seconds until an environment's machine answers, without hardware virtualization, seen generously."""
AROUND = 3.0
"""Seconds around a trial: starting the server, warming it, asking both ends for what was set."""


def test_a_study_that_is_not_there_is_told_with_what_is() -> None:
    assert "quickstart" in studies.names()
    with pytest.raises(BadInput, match="did you mean `quickstart`"):
        studies.text("quikstart")
    with pytest.raises(BadInput, match=r"choose one of: .*quickstart"):
        studies.text("../../etc/passwd")


@pytest.mark.parametrize("name", studies.names())
@pytest.mark.parametrize("quick", [False, True])
def test_every_study_reads_and_plans(name: str, quick: bool) -> None:
    read = study.read(studies.text(name), f"{name}.toml", quick=quick)
    assert read.name == name
    assert plan.make(read).blocks


def test_quickstart_has_enough_blocks_for_its_four_verdicts_and_fits_in_eight_minutes() -> None:
    read = study.read(studies.text("quickstart"), "quickstart.toml")
    made = plan.make(read)
    assert len(made.contrasts) == 4
    assert made.blocks == 8
    boots = [boot for block in plan_blocks(made) for boot in block.boots]
    trials = sum(len(boot.trials) for boot in boots)
    assert (len(boots), trials) == (24, 48)
    booting = sum(BOOT[str(boot.treatment["environment"])] for boot in boots)
    durations = {spec.name: build_workload(spec).duration for spec in read.workloads}
    measuring = sum(durations[trial.workload] for boot in boots for trial in boot.trials)
    assert booting + measuring + trials * AROUND < EIGHT_MINUTES
