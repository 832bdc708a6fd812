"""Blocks of one contrast on several sites: what these sites say, whether they agree, what hosts in general say. Pure.

docs/validity.md has what each of these means. *The sites as a fixed effect*: each site has a variance of its own, and
Student's t the degrees of freedom of F. E. Satterthwaite ("An approximate distribution of estimates of variance
components", Biometrics Bulletin 2, 1946), rounded down. *Agreement* takes sites to be equally noisy. *Hosts in general*
are another population than these sites' blocks: their unit is the site, which gives one number, its pseudomedian.
"""

import math
from collections.abc import Iterator, Sequence
from statistics import NormalDist

import numpy as np

from nearmetal.analysis import portable_math
from nearmetal.analysis.differences import Differences
from nearmetal.analysis.responses import Pairs
from nearmetal.analysis.results import Contrast, OfSites, SiteAgreement, SiteEstimate
from nearmetal.analysis.signed_rank import Floats, enough, signed_rank
from nearmetal.analysis.student_t import find_student_quantile
from nearmetal.analysis.verdict_rules import find_least_blocks
from nearmetal.model import Scale, Warned

FEWEST = 3
"""Blocks of a site below which it is not told apart from others."""
ALARM = 0.05
"""p of agreement, from which down sites are said to differ."""
_SHUFFLES = 4_999
_FEW = 200
"""Blocks up to which p is from permutations; beyond, chi-squared serves as well."""


def list_sites(pairs: Pairs) -> tuple[str, ...]:
    """The site of each block. No attempt spans sites, so that one side tells."""
    return tuple(one.records[0].site for one, _ in pairs)


def compare_sites(
    differences: Differences, places: Sequence[str], scale: Scale, level: float, resolution: float
) -> SiteAgreement | None:
    """What sites say of a contrast, on its own scale; None of one site, and before a look.

    `places` names the site of each difference.
    """
    names = sorted(set(places))
    if len(names) < 2 or not level:
        return None
    where = np.array(places)
    each = {name: differences.told[where == name] for name in names}
    centres = {name: signed_rank(told, level, resolution).estimate for name, told in each.items()}
    general = signed_rank(np.array(list(centres.values())), level, resolution)
    return SiteAgreement(
        each=tuple(
            SiteEstimate(site=name, blocks=len(told), estimate=_on_scale(centres[name], scale))
            for name, told in each.items()
        ),
        p=find_agreement_p([told for told in each.values() if len(told) >= FEWEST], resolution),
        stratified=None if differences.are_bounded else _stratify(list(each.values()), scale, level),
        in_general=_tell(general.estimate, None if differences.are_bounded else general.interval, scale),
    )


def _stratify(groups: Sequence[Floats], scale: Scale, level: float) -> OfSites | None:
    can_be_told_apart = all(len(group) >= FEWEST and np.isfinite(group).all() for group in groups)
    return _tell(*stratify(groups, level), scale) if can_be_told_apart else None


def stratify(groups: Sequence[Floats], level: float) -> tuple[float, tuple[float, float]]:
    """The mean of differences by sites, two at least on each, with its interval of confidence 1 - level."""
    number = sum(map(len, groups))
    estimate = sum(float(group.sum()) for group in groups) / number
    errors = [len(group) * float(group.var(ddof=1)) / number**2 for group in groups]
    if not (squared := sum(errors)):
        return estimate, (estimate, estimate)
    parts = sum(error**2 / (len(group) - 1) for error, group in zip(errors, groups, strict=True))
    freedom = math.floor(squared**2 / parts * (1 + 1e-9)) if parts else 1
    half = find_student_quantile(1 - level / 2, max(freedom, 1)) * math.sqrt(squared)
    return estimate, (estimate - half, estimate + half)


def _tell(estimate: float, ends: tuple[float, float] | None, scale: Scale) -> OfSites:
    interval = None if ends is None else (_on_scale(ends[0], scale), _on_scale(ends[1], scale))
    return OfSites(estimate=_on_scale(estimate, scale), interval=interval)


def _on_scale(value: float, scale: Scale) -> float:
    if scale == "difference":
        return value
    return portable_math.exp(value)


def find_agreement_p(groups: Sequence[Floats], resolution: float) -> float | None:
    """p that differences come from one distribution on all sites; None of fewer than two sites.

    Differences closer than `resolution` are one value. Infinite ones are tied among themselves.
    """
    if len(groups) < 2:
        return None
    with np.errstate(over="ignore"):
        values = np.round(np.concatenate(groups) / resolution)
    sizes = np.array([len(group) for group in groups])
    ordered = np.sort(values)
    ranks = (np.searchsorted(ordered, values, side="left") + np.searchsorted(ordered, values, side="right") + 1) / 2
    centred = ranks - ranks.mean()
    if not centred.any():
        return 1.0
    starts = np.append(0, np.cumsum(sizes)[:-1])

    def weigh(rows: Floats) -> Floats:
        return np.asarray((np.add.reduceat(rows, starts, axis=1) ** 2 / sizes).sum(axis=1))

    seen = float(weigh(centred[None, :])[0])
    if len(values) > _FEW:
        return _tail_of_chi_squared(seen / float(centred.var(ddof=1)), len(groups) - 1)
    generator = np.random.default_rng(sizes.tolist())
    shuffled = generator.permuted(np.tile(centred, (_SHUFFLES, 1)), axis=1)
    return (1 + int((weigh(shuffled) >= seen * (1 - 1e-9)).sum())) / (_SHUFFLES + 1)


def _tail_of_chi_squared(value: float, freedom: int) -> float:
    """By the cube root of Wilson and Hilferty (PNAS 17, 1931), right to about 0.001."""
    share = 2 / (9 * freedom)
    return NormalDist().cdf((1 - share - (value / freedom) ** (1 / 3)) / math.sqrt(share))


def do_sites_differ(contrast: Contrast) -> bool:
    return contrast.sites is not None and contrast.sites.p is not None and contrast.sites.p <= ALARM


def warn_of_sites(contrast: Contrast) -> Iterator[Warned]:
    """If its sites differ, and if they are too few to tell of hosts in general."""
    if contrast.sites is None:
        return
    if do_sites_differ(contrast):
        text = "sites differ in it: the verdict is about these sites together, and need not hold on each"
        yield Warned(code="sites-differ", text=text)
    number = len(contrast.sites.each)
    if not enough(number, contrast.tested_at):
        text = (
            f"measured on {number} sites: the verdict is about these; for hosts in general the unit is the site, and "
            f"{find_least_blocks(contrast.tested_at)} are the fewest"
        )
        yield Warned(code="too-few-sites", text=text)
