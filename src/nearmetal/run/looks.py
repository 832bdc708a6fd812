"""Looks of a sequential run: after some of its blocks, what is decided, and whether to go on."""

from collections.abc import Sequence

from nearmetal import factors as words
from nearmetal.model import Assignment, TrialRecord
from nearmetal.run.events import LookTaken
from nearmetal.store.folder import Manifest


def look_after(
    blocks: int, manifest: Manifest, records: Sequence[TrialRecord], withdrawn: Sequence[Assignment]
) -> LookTaken | None:
    """The look that the plan has after so many blocks, if it has one there. It sees the first planned blocks alone."""
    plan, design = manifest.plan, manifest.study.design
    number = next((number for number, look in enumerate(plan.looks, 1) if look.blocks == blocks), None)
    if number is None:
        return None
    # They load numpy, which no other run waits for.
    from nearmetal.analysis.contrasts import NEVER_DECIDED, primary_contrasts
    from nearmetal.analysis.responses import arms_of_study
    from nearmetal.analysis.results import Verdict

    arms = arms_of_study(records, design)
    primary = primary_contrasts(plan, arms, design.margin, blocks)
    gone = {words.key(treatment) for treatment in withdrawn}
    open_still = [
        contrast
        for contrast in primary
        if contrast.verdict is Verdict.UNDECIDED
        and contrast.reason not in NEVER_DECIDED
        and not gone & {words.key(contrast.treatment), words.key(contrast.reference)}
    ]
    return LookTaken(
        look=number,
        blocks=blocks,
        decided=sum(contrast.verdict is not Verdict.UNDECIDED for contrast in primary),
        undecided=len(open_still),
        stops=not open_still,
    )
