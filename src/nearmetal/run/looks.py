"""Looks of a sequential run: after some of its blocks, what is decided, and whether to go on."""

from collections.abc import Sequence

from nearmetal.model import Assignment, TrialRecord
from nearmetal.run.events import LookTaken
from nearmetal.store.manifest import Manifest
from nearmetal.study.levels import format_assignment


def look_after(
    blocks: int, manifest: Manifest, records: Sequence[TrialRecord], withdrawn: Sequence[Assignment]
) -> LookTaken | None:
    """The look that the plan has after so many blocks, if it has one there. It sees the first planned blocks alone."""
    number = next((number for number, look in enumerate(manifest.plan.looks, 1) if look.blocks == blocks), None)
    if number is None:
        return None
    decided, still_open = _count_decided(manifest, records, withdrawn, blocks)
    return LookTaken(look=number, blocks=blocks, decided=decided, undecided=still_open, stops=not still_open)


def last_look(
    ran: int, manifest: Manifest, records: Sequence[TrialRecord], withdrawn: Sequence[Assignment]
) -> LookTaken | None:
    """The look that comes next, taken at once: after so many blocks none is open but of treatments that are withdrawn.

    No block to come has anything for it to see, so that it finds what it would have found in its place. What is open is
    what the look before has left so: nothing that came since is looked at before that is known.
    """
    looks = manifest.plan.looks
    number = next((number for number, look in enumerate(looks, 1) if look.blocks > ran), None)
    if number is None or not withdrawn:
        return None
    before = looks[number - 2].blocks if number > 1 else 0
    _, still_open = _count_decided(manifest, records, withdrawn, before)
    if still_open:
        return None
    decided, _ = _count_decided(manifest, records, withdrawn, looks[number - 1].blocks)
    return LookTaken(look=number, blocks=ran, decided=decided, undecided=0, stops=True)


def _count_decided(
    manifest: Manifest, records: Sequence[TrialRecord], withdrawn: Sequence[Assignment], blocks: int
) -> tuple[int, int]:
    """By the look after so many blocks, how many primary contrasts are decided, and how many more blocks may decide."""
    # They load numpy, which no other run waits for.
    from nearmetal.analysis.contrasts import DECIDED, NEVER_DECIDED, primary_contrasts
    from nearmetal.analysis.responses import arms_of_study

    design = manifest.study.design
    arms = arms_of_study(records, design)
    primary = primary_contrasts(manifest.plan, arms, design.margin, blocks)
    gone = {format_assignment(treatment) for treatment in withdrawn}
    still_open = [
        contrast
        for contrast in primary
        if contrast.verdict not in DECIDED
        and contrast.reason not in NEVER_DECIDED
        and not contrast.is_futile
        and not gone & {format_assignment(contrast.treatment), format_assignment(contrast.reference)}
    ]
    return sum(contrast.verdict in DECIDED for contrast in primary), len(still_open)
