"""What this host keeps of a study's noise: a pilot, earlier runs, calibrations; and a number of blocks that follows."""

import datetime
import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from nearmetal.config import Paths
from nearmetal.errors import BadInput
from nearmetal.model import Plan, Study, identify_assignment
from nearmetal.report import figures
from nearmetal.report.block_count import show_aim
from nearmetal.store import journal, kept_calibrations, runs
from nearmetal.store.pilot import find_pilot
from nearmetal.store.progress import RunProgress
from nearmetal.store.run_folder import RunFolder
from nearmetal.study.measurement_digest import digest_measurement

if TYPE_CHECKING:
    from nearmetal.analysis.sensitivity import EarlierRun, Evidence
    from nearmetal.store.calibration_document import Sizing

MOST_RUNS = 5
"""Earlier runs whose noise is taken together: the last ones."""
MOST_BLOCKS = 1000
"""As of a study with looks."""
_NO_SOURCE = (
    "measure the noise first: the same words with `nearmetal plan --pilot`; one run of the study does as well, and so "
    "does `nearmetal calibrate` for what it calibrates"
)


def gather_evidence(study: Study) -> "Evidence":
    """All that this host keeps of a study's noise, under the kernel release that it has now."""
    from nearmetal.analysis.sensitivity import Evidence  # loads numpy

    state, kernel = Paths.default().state, os.uname().release
    return Evidence(
        pilot=find_pilot(digest_measurement(study), kernel, state),
        runs=tuple(_find_earlier_runs(study, state, kernel)),
        calibrations=kept_calibrations.read_calibrations(state, kernel),
    )


def _find_earlier_runs(study: Study, state: Path, kernel: str) -> "Iterator[EarlierRun]":
    from nearmetal.analysis.paired_noise import measure_noise
    from nearmetal.analysis.sensitivity import EarlierRun

    read = ((one.read_manifest(), one) for one in _of_the_same_study(study, state))
    found = [one for one in read if one[0].host.get("kernel", {}).get("release") == kernel]
    newest = sorted(found, key=lambda one: datetime.datetime.fromisoformat(one[0].created), reverse=True)
    for manifest, folder in newest[:MOST_RUNS]:
        try:
            records = list(journal.read_records(folder.journal))
        except (BadInput, OSError):
            continue
        if noise := measure_noise(manifest, records):
            yield EarlierRun(manifest.created, manifest.study.design.repeats, noise)


def _of_the_same_study(study: Study, state: Path) -> Iterator[RunFolder]:
    """Runs that measured the same. One that cannot be read is none."""
    measured = digest_measurement(study)
    named = re.compile(rb'"name":\s*"' + re.escape(study.name.encode()) + rb'"')
    for path in runs.list_remembered(state):
        try:
            # Most runs are of other studies, and a manifest takes long to read.
            if not named.search((path / "manifest.json").read_bytes()):
                continue
            folder = RunFolder.open(path)
            if digest_measurement(folder.read_manifest().study) == measured:
                yield folder
        except (BadInput, OSError):
            continue


class Pace(NamedTuple):
    """How long a trial took in an earlier run, with its share of boots and of all that lay between."""

    seconds: float
    created: str
    """When that run was made."""


def find_pace(study: Study, plan: Plan) -> Pace | None:
    """By the last run that measured the same treatments here; None if there is none."""
    mine = {identify_assignment(treatment) for treatment in plan.treatments}
    found = [(one.read_manifest(), one) for one in _of_the_same_study(study, Paths.default().state)]
    for manifest, folder in sorted(found, key=lambda one: one[0].created, reverse=True)[:MOST_RUNS]:
        if {identify_assignment(treatment) for treatment in manifest.plan.treatments} != mine:
            continue
        try:
            seconds, trials = RunProgress.from_lines(journal.read_lines(folder.journal)).measure_pace()
        except (BadInput, OSError):
            continue
        if trials >= len(mine) and manifest.study.design.repeats == study.design.repeats:
            return Pace(seconds / trials, manifest.created)
    return None


def open_number(study: Study) -> Study:
    """A study whose number of blocks is not fixed yet, with one: for what does not depend on it."""
    return study if study.design.blocks != "auto" else _with_blocks(study, 1)


def fix_blocks(study: Study, plan: Plan, evidence: "Evidence", place: str = "") -> "tuple[Study, Sizing | None]":
    """The study with the number of blocks that its aim takes, where it says "auto". BadInput where that is not known.

    `plan` is of the study by `open_number`: it has the comparisons. `place` is where it says so, for errors.
    """
    if study.design.blocks != "auto":
        return study, None
    from nearmetal.analysis import sensitivity

    place = place or study.name
    if not plan.contrasts:
        raise BadInput('blocks = "auto", and nothing is compared', place, "fix the number: --blocks 12")
    if unknown := sensitivity.list_unknown(plan, evidence):
        which = figures.join_listing(list(dict.fromkeys(one.workload for one in islice(unknown, 100))))
        of = f"{len(unknown)} of {len(plan.contrasts)} comparisons"
        what = f'blocks = "auto", and the noise of {of} is not known ({which})'
        raise BadInput(what, place, f"{_NO_SOURCE}; or fix the number: --blocks 12")
    sizing = sensitivity.size_blocks(plan, evidence, study.design)
    if sizing is None or sizing.blocks > MOST_BLOCKS:
        many = "more blocks than can be counted" if sizing is None else figures.format_count(sizing.blocks, "block")
        what = f'blocks = "auto": {show_aim(study.design)} takes {many}, and {MOST_BLOCKS:,} are the most'
        raise BadInput(what, place, "ask for less, or lessen the noise: longer trials, more repeats, a quieter host")
    return _with_blocks(study, sizing.blocks), sizing


def _with_blocks(study: Study, blocks: int) -> Study:
    return study.model_copy(update={"design": study.design.model_copy(update={"blocks": blocks})})
