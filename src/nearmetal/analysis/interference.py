"""Whether CPU time went to other programs or guests in so many trials that the whole run is disturbed. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence

from nearmetal.analysis.responses import key_of
from nearmetal.analysis.warning_groups import group_warnings
from nearmetal.model import TrialRecord, TrialStatus, Warned

INTERFERENCE = frozenset({"busy-host", "steal"})
"""Codes of trials that shared their CPUs with what is not theirs."""

_MANY = 0.5
"""Share of a treatment's trials from which on the others are no quiet ones to rely on: the median is among them."""


def warn_of_interference(records: Sequence[TrialRecord]) -> Iterable[Warned]:
    """What of `INTERFERENCE` a run's trials have that count, if many of some treatment's have it; with what to do."""
    counted = [record for record in records if record.status is TrialStatus.OK]
    warned = [(record, one) for record in counted for one in record.warnings if one.code in INTERFERENCE]
    if not warned:
        return
    disturbed = {record.trial.id: key_of(record.trial.treatment) for record, _ in warned}
    of_treatment = Counter([key_of(record.trial.treatment) for record in counted])
    if not any(number >= _MANY * of_treatment[of] for of, number in Counter(disturbed.values()).items()):
        return
    for group in group_warnings(warned):
        having = len({record.trial.id for record in group.about})
        of = f"all {len(counted):,}" if having == len(counted) > 1 else f"{having:,} of {len(counted):,}"
        yield Warned(
            code=group.code,
            text=f"{group.text}, in {of} trials: these are figures of a busy host; repeat the run on a quiet one",
        )
