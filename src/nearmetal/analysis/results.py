"""What an analysis concludes, as data: the same objects feed the report, the terminal and `--json`."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import Field
from pydantic.dataclasses import dataclass

from nearmetal.analysis.censoring import Bound
from nearmetal.model import ONLY_KNOWN, Better, Document, Frozen, Level, Number, Scale, TrialCounts, Warned


class Verdict(StrEnum):
    EQUIVALENT = "equivalent"
    """The whole interval lies within the margin."""
    DIFFERENT = "different"
    """The interval excludes the reference."""
    NOT_WORSE = "not-worse"
    """The interval stays on the better side of the margin's worse end, and is neither of the above."""
    UNDECIDED = "undecided"
    """None of these: the data do not say."""
    WITHDRAWN = "withdrawn"
    """One side failed so often that it was measured no more: there is no test of it."""


@dataclass(frozen=True, slots=True, config=ONLY_KNOWN)
class Pair:
    """A block in which both arms worked: their responses, repeats averaged on the response's scale.

    Where of one only a bound is known, `treatment_censored` or `reference_censored` says which: at most that ("left"),
    at least that ("right"), or neither, as of repeats of both kinds ("both").
    """

    block: int
    attempt: int
    treatment: Number
    reference: Number
    treatment_censored: Bound | None = None
    reference_censored: Bound | None = None


class Failures(Frozen):
    """In how many of a contrast's blocks a side failed: the treatment alone, the reference alone, or both.

    `p` is of the exact McNemar test that both fail alike (two-sided), for description alone: the verdict has failures
    as worst ranks already. It is 1 where no block tells them apart.
    """

    blocks: int
    treatment: int
    reference: int
    both: int
    p: float


class WorkedContrast(Frozen):
    """A contrast among the boots that worked on both sides, told beside it and never judged."""

    blocks: int
    estimate: Number
    """On the contrast's own scale: a ratio, or a difference in its unit."""
    interval: tuple[Number, Number] | None


class LastLook(Frozen):
    """What a contrast that a look decided says of all blocks, at the last look that was taken; it decides nothing.

    `interval` is that look's own, so that it holds at all looks together.
    """

    look: int
    blocks: int
    estimate: Number
    """On the contrast's own scale: a ratio, or a difference in its unit."""
    interval: tuple[Number, Number] | None


class Means(Frozen):
    """What a contrast's typical boot leaves out, of the blocks in which both sides worked; never judged.

    `interval` is a jackknife's over blocks with Student's t, at the contrast's level or its look's; None with too few.
    """

    blocks: int
    ratio: Number
    """The treatment's arithmetic mean by the reference's."""
    interval: tuple[Number, Number] | None
    worse: int
    """How many of the treatment's boots are worse than the reference's worst. About one is what chance gives."""
    spread: Number | None
    """The treatment's coefficient of variation by the reference's; None if the reference does not vary."""


class SiteEstimate(Frozen):
    """What the blocks of one site say of a contrast."""

    site: str
    blocks: int
    estimate: Number
    """On the contrast's own scale: a ratio, or a difference in its unit."""


class OfSites(Frozen):
    """What several sites together say of a contrast, at its level or its look's. `interval` is None if they cannot."""

    estimate: Number
    """On the contrast's own scale."""
    interval: tuple[Number, Number] | None


class SiteAgreement(Frozen):
    """Of a contrast whose blocks were measured on several sites: told beside the verdict, which is that of all blocks.

    `p` is that differences are alike on all sites with three blocks or more; None if fewer than two sites have so many.
    It takes sites to be equally noisy. `stratified` takes the site as a fixed effect: how far these sites lie apart is
    no part of its scatter. It is None if a site has fewer than three blocks, or a value is a failure or a bound.
    `in_general` is about hosts in general. Its unit is the site, however many blocks it has.
    """

    each: tuple[SiteEstimate, ...]
    p: float | None
    stratified: OfSites | None
    in_general: OfSites


class ContrastResult(Frozen):
    """A treatment against its reference, for one response of one workload.

    `ratio` (scale ratio) or `difference` (scale difference, in `unit`) is the pseudomedian over blocks; the other is
    None. `interval` and `p` are at `level`: alpha / m for primary contrasts, or that of Holm's step if only that finds
    the difference; alpha for exploratory ones. Both are None when there are too few blocks to tell, or when the scale
    does not apply; `reason` then says why.
    Of a sequential design `look` counts the looks from 1 on: the one that decided this contrast, or else the last.
    `interval` then holds at all looks together, and `naive` is what it would be had there been this look alone; p is
    of this look alone, and held against the look's own level, `look_level`, not against `level`. `adjusted` is the
    estimate corrected for the looks, since an early one finds what happens to look large; None before the end, and if
    the interval is unbounded. `last_look` is there if blocks went on after the look that decided. `is_futile` says
    of an open contrast that the looks left will hardly decide it.
    `equivalence` is the margin on the contrast's own scale: [1 / (1 + margin), 1 + margin] for a ratio, margin times
    the median of the reference either side of 0 for a difference, and None where that median is 0. `workload` is ""
    for what belongs to a boot that several workloads share.
    A failed boot has the worst rank. So the estimate or an end of the interval may be unbounded: infinite (null in
    JSON), or 0 of a ratio. `k` is how many of so many blocks may disagree, should they be the least of all, before a
    verdict is out of reach. `needs` is how many blocks an undecided contrast would take, should it go on as it is.
    `p_dependent`, of primary contrasts, is p if blocks resembled the one before as much as they allow; held against
    the level that p is held against. `p_lopsided`, likewise, is p of a test that does not take differences to be
    symmetric. `confounded_by` names what else differs between both sides and is known to move
    this response. `sites` is there if a fleet measured the blocks of a primary contrast on several.
    """

    workload: str
    response: str
    unit: str
    scale: Scale
    better: Better
    primary: bool
    treatment: Mapping[str, Level]
    reference: Mapping[str, Level]
    blocks: int
    look: int | None = None
    look_level: float | None = None
    level: float
    ratio: Number | None = None
    difference: Number | None = None
    interval: tuple[Number, Number] | None = None
    naive: tuple[Number, Number] | None = None
    adjusted: Number | None = None
    last_look: LastLook | None = None
    is_futile: bool = False
    equivalence: tuple[Number, Number] | None = None
    p: float | None = None
    p_dependent: float | None = None
    p_lopsided: float | None = None
    verdict: Verdict
    beyond_margin: bool = False
    """Of a difference: the whole interval lies outside the margin."""
    needs: int | None = None
    needs_seconds: float | None = None
    """How long so many blocks take, at this run's pace."""
    k: int | None = None
    failures: Failures | None = None
    """None where no boot of either side failed."""
    worked: WorkedContrast | None = None
    """None where no boot of either side failed, or none worked on both."""
    means: Means | None = None
    """None on the difference scale, and where a value is no more than a bound."""
    sites: SiteAgreement | None = None
    confounded_by: tuple[str, ...] = ()
    reason: str | None = None
    warnings: tuple[Warned, ...] = ()

    @property
    def tested_at(self) -> float:
        """The level that p is held against."""
        return self.level if self.look_level is None else self.look_level

    def with_warnings(self, *warnings: Warned) -> Self:
        """With these after its own."""
        return self.model_copy(update={"warnings": (*self.warnings, *warnings)}) if warnings else self


class Contrast(ContrastResult):
    """With what each block contributed."""

    pairs: tuple[Pair, ...] = ()


class Cell(Frozen):
    """All values of one response for one treatment and workload, one per block, with what a table shows of them.

    `stddev` is the sample's (n - 1), 0 for a single value. `workload` is "" as in a contrast. `censored` says for each
    value whether it is a bound and which, as in a pair, and None where it was measured. The numbers below take bounds
    for values: they are bounds themselves, if anything, as soon as one of the values is.
    """

    workload: str
    response: str
    unit: str
    better: Better
    scale: Scale
    treatment: Mapping[str, Level]
    values: tuple[Number, ...]
    censored: tuple[Bound | None, ...]
    blocks: tuple[int, ...]
    mean: Number
    stddev: Number
    minimum: Number
    maximum: Number
    median: Number
    failed: int = 0
    """In how many more blocks this treatment failed, so that there is no value."""


IDENTICAL = "identical"
"""What is told of programs that are the same everywhere."""


class FairnessRow(Frozen):
    """One fact that is not the same everywhere: what could make treatments unlike besides what is under study."""

    group: str
    fact: str
    values: Mapping[str, str]
    """Label of the treatment (or environment) to the fact as text; absent where it was not told."""

    @property
    def is_the_same(self) -> bool:
        """Whether it is none, after all: how many of the programs under test are identical is told too."""
        return set(self.values.values()) == {IDENTICAL}


class Analysis(Document):
    """Everything that is concluded from one run: `analysis.v1`."""

    schema_: Annotated[Literal["analysis.v1"], Field(alias="schema")] = "analysis.v1"
    trials: TrialCounts
    contrasts: tuple[Contrast, ...]
    cells: tuple[Cell, ...]
    fairness: tuple[FairnessRow, ...] = ()
    warnings: tuple[Warned, ...] = ()
    """About the run as a whole: interrupted, withdrawn treatments, blocks repeated."""
