"""What version 1 planned is planned again: the same digests, trial ids and trial seeds for the same study and seed.

The studies are the shipped ones as they stood then: a shipped study may change, and would have other ids then.
"""

import json
from pathlib import Path

import pytest

from nearmetal.model import Study
from nearmetal.planning import plan as planning
from nearmetal.planning.plan import digest_study
from nearmetal.run.boot import derive_trial_seed
from nearmetal.store.run_folder import RunFolder
from nearmetal.store.upgrade import upgrade_v1
from nearmetal.study.blocks import plan_block, plan_blocks
from tests.golden import make_run

KEPT = Path(__file__).parent.parent / "golden" / "version_1"


def studies() -> list[str]:
    return sorted(path.stem for path in KEPT.glob("*.json"))


@pytest.mark.parametrize("name", studies())
def test_the_same_study_and_seed_give_the_same_trials(name: str) -> None:
    kept = json.loads((KEPT / f"{name}.json").read_text())
    study: Study = Study.from_json(kept["study"])
    assert digest_study(study) == kept["digest"]
    plan = planning.make_plan(study)
    as_then = plan.model_copy(update={"order": "drawn"})
    for index, ids in enumerate(kept["ids"]):
        assert [trial.id for trial in plan_block(as_then, index).trials] == ids
        assert {trial.id for trial in plan_block(plan, index).trials} == set(ids)
    seeds = [derive_trial_seed(plan.study, 0, 0, workload, 0) for workload in plan.workloads]
    assert seeds == kept["seeds"]


def test_there_are_three_of_them() -> None:
    assert len(studies()) == 3


def test_a_manifest_of_version_1_has_the_blocks_that_it_kept() -> None:
    document = json.loads((make_run.FOLDER / "manifest.json").read_text())
    assert document["schema"] == "manifest.v1"
    manifest = RunFolder(make_run.FOLDER).read_manifest()
    made = [block.model_dump(mode="json") for block in plan_blocks(manifest.plan)]
    assert made == document["plan"]["blocks"]
    assert manifest.trial_ids is not None


def test_a_manifest_whose_blocks_are_not_made_so_is_not_gone_on_with() -> None:
    document = json.loads((make_run.FOLDER / "manifest.json").read_text())
    document["plan"]["blocks"][3]["boots"].reverse()
    assert upgrade_v1(document).trial_ids is None
