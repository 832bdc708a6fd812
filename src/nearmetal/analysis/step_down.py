"""Holm's steps: what a study of fixed blocks finds of its other primary contrasts once some of them differ. Pure.

S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6, 1979.
docs/validity.md says what holds of the contrasts that only a step finds, and that `equivalent` stays as it was.
"""

from collections.abc import Mapping, Sequence

from nearmetal.analysis.contrasts import MatchedContrast, retest
from nearmetal.analysis.faults import UNLIKE
from nearmetal.analysis.results import Contrast, Verdict

_OF_ITS_TEST = (
    *("level", "interval", "equivalence", "p", "p_dependent", "p_lopsided"),
    *("verdict", "reason", "beyond_margin", "needs", "k", "worked", "sites", "means"),
)
"""What another level changes of a contrast."""


def step_down(
    contrasts: Sequence[Contrast], matched: Sequence[MatchedContrast], number: int, alpha: float, margin: float
) -> tuple[Contrast, ...]:
    """The contrasts with what Holm's steps find, each made of what is `matched` in its place.

    `number` is how many primary ones were planned; of some there may be no test.
    """
    found = list(contrasts)
    tested = {place: one.p for place, one in enumerate(contrasts) if one.primary and one.p is not None and _stands(one)}
    for place, level in find_steps(tested, number, alpha).items():
        if tested[place] > contrasts[place].level:
            again = retest(matched[place], level, margin)
            if again.verdict is Verdict.DIFFERENT:
                update = {name: getattr(again, name) for name in _OF_ITS_TEST}
                found[place] = contrasts[place].model_copy(update=update)
    return tuple(found)


def find_steps(tested: Mapping[int, float], number: int, alpha: float) -> dict[int, float]:
    """Which of `number` hypotheses are rejected, by their p, and the level of the step that does it."""
    levels: dict[int, float] = {}
    for place in sorted(tested, key=tested.__getitem__):
        level = alpha / (number - len(levels))
        if tested[place] > level:
            break
        levels[place] = level
    return levels


def _stands(contrast: Contrast) -> bool:
    """Whether the run bears out what its blocks say."""
    return contrast.verdict is not Verdict.WITHDRAWN and contrast.reason != UNLIKE
