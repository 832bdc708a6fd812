"""Verdicts that the blocks alone would give and the run does not bear out. Pure."""

from collections.abc import Iterable, Mapping, Set
from typing import Any

from nearmetal.analysis.faults import UNLIKE
from nearmetal.analysis.responses import Key, key_of
from nearmetal.analysis.results import Contrast, Verdict
from nearmetal.model import TrialRecord, TrialStatus

_TESTED = ("interval", "naive", "adjusted", "last_look", "p", "p_dependent", "p_lopsided", "means", "sites", "reason")


def find_withdrawn(records: Iterable[TrialRecord], events: Iterable[Mapping[str, Any]]) -> frozenset[Key]:
    """Treatments that were withdrawn, but for those of version 1, whose records do not say who was to blame."""
    named = {key_of(event["treatment"]) for event in events if event["event"] == "Withdrawn"}
    if not named:
        return frozenset()
    bad = [record for record in records if record.status is not TrialStatus.OK and record.blame is None]
    return frozenset(named - {key_of(record.trial.treatment) for record in bad})


def hold_back(contrast: Contrast, withdrawn: Set[Key]) -> Contrast:
    """No test of a side that was withdrawn; no verdict if others' faults befell one side more often than the other."""
    if withdrawn & {key_of(contrast.treatment), key_of(contrast.reference)}:
        return contrast.model_copy(update={**dict.fromkeys(_TESTED), "verdict": Verdict.WITHDRAWN})
    if contrast.verdict is not Verdict.UNDECIDED and any(warning.code == UNLIKE for warning in contrast.warnings):
        return contrast.model_copy(update={"verdict": Verdict.UNDECIDED, "reason": UNLIKE})
    return contrast
