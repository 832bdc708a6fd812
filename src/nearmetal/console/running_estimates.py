"""What a run's comparisons come to while it goes on: estimates and intervals, and no verdicts. Pure."""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

from nearmetal.model import ContrastPlan, Identity, Plan, Response, TrialRecord, TrialStatus, identify_assignment
from nearmetal.report import words
from nearmetal.report.words import Labels

MOST = 4
"""Comparisons that have room below a bar."""


class RunningEstimates:
    """Takes in records as they come. Of a block that was repeated the last attempt counts."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._labels = Labels.of_plan(plan)
        self._values: dict[tuple[Identity, str], dict[int, tuple[int, list[dict[str, Response]]]]] = defaultdict(dict)

    def take_record(self, record: TrialRecord) -> None:
        trial = record.trial
        of_blocks = self._values[identify_assignment(trial.treatment), trial.workload]
        attempt, found = of_blocks.get(trial.block, (trial.attempt, []))
        if trial.attempt > attempt:
            found = []
        if trial.attempt >= attempt:
            kept = [dict(record.responses)] if record.status is TrialStatus.OK else []
            of_blocks[trial.block] = (trial.attempt, [*found, *kept])

    def list_lines(self) -> Iterator[str]:
        """ "so far, no verdict: 1.02 × (0.85 to 1.23) web throughput, docker vs host", of the first comparisons."""
        for contrast in self._plan.contrasts[:MOST]:
            response = contrast.response or self._plan.primaries[contrast.workload]
            if told := self._estimate_contrast(contrast, response):
                title = self._labels.name_response(contrast.workload, response)
                treatment, reference = map(self._labels.name_treatment, (contrast.treatment, contrast.reference))
                name = f"{words.name_workload(contrast.workload)} {title}, {treatment} vs {reference}"
                yield f"so far, no verdict: {told} {name}"

    def _estimate_contrast(self, contrast: ContrastPlan, response: str) -> str | None:
        pairs = list(self._pair_blocks(contrast, response))
        if not pairs:
            return None
        import numpy as np  # loaded by whoever judges a run, and not before

        from nearmetal.analysis.signed_rank import signed_rank

        scale, unit = pairs[0][0].scale, pairs[0][0].unit
        both = [(mine.value, theirs.value) for mine, theirs in pairs]
        if scale == "ratio":
            differences = [math.log(mine / theirs) for mine, theirs in both if mine > 0 and theirs > 0]
        else:
            differences = [mine - theirs for mine, theirs in both]
        largest = max(map(abs, differences), default=math.inf)
        if not math.isfinite(largest):
            return None
        found = signed_rank(np.array(differences), self._plan.level, max(largest, 1e-300) * 2**-40)
        ends = (found.estimate, *(found.interval or ()))
        value, *interval = map(math.exp, ends) if scale == "ratio" else ends
        return words.format_size(value, (interval[0], interval[1]) if interval else None, scale, unit)

    def _pair_blocks(self, contrast: ContrastPlan, response: str) -> Iterator[tuple[Response, Response]]:
        """Of each block in which both sides have it: repeats averaged."""
        mine, theirs = (
            self._values.get((identify_assignment(side), contrast.workload), {})
            for side in (contrast.treatment, contrast.reference)
        )
        for block in mine.keys() & theirs.keys():
            sides = [_average_repeats(side[block][1], response) for side in (mine, theirs)]
            if sides[0] is not None and sides[1] is not None:
                yield sides[0], sides[1]


def _average_repeats(repeats: list[dict[str, Response]], response: str) -> Response | None:
    told = [one[response] for one in repeats if response in one]
    if not told or any(one.censored or not math.isfinite(one.value) for one in told):
        return None
    return replace(told[0], value=statistics.fmean(one.value for one in told))
