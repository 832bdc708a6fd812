"""The answer to a study's question: each treatment in a few sentences, with absolute values and everyday words. Pure.

"The VM (qemu) serves 3,400 requests a second where the host serves 29,400: 0.12 × as many (0.05 to 0.17)."
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from nearmetal.analysis.results import Contrast, Verdict
from nearmetal.model import Assignment, Plan
from nearmetal.report import figures, words
from nearmetal.report.words import Labels

_NOUNS = {"metal": "host", "container": "container", "guest": "VM"}
"""Families of machines to what people call them, if a plan has one environment of the family."""


class _Verb(NamedTuple):
    """How a response is said: "serves", "3,400 requests a second", "0.12 × as many"."""

    verb: str
    amount: str
    less: str
    more: str


_FEWER, _LESS, _SHORTER = ("fewer", "more"), ("less", "more"), ("shorter", "longer")

_VERBS: Mapping[tuple[str, str], _Verb] = {
    ("throughput", "1/s"): _Verb("serves", "{} requests a second", *_FEWER),
    ("transactions", ""): _Verb("completes", "{} transactions", *_FEWER),
    ("saturation", "1/s"): _Verb("keeps up with", "{} requests a second", *_FEWER),
    ("events", "1/s"): _Verb("does", "{} events a second", *_FEWER),
    ("throughput", "bit/s"): _Verb("moves", "{}", *_LESS),
    ("bandwidth", "bit/s"): _Verb("moves", "{}", *_LESS),
    ("transfer", "B"): _Verb("moves", "{}", *_LESS),
    ("read", "B/s"): _Verb("reads", "{}", *_LESS),
    ("written", "B/s"): _Verb("writes", "{}", *_LESS),
    ("elapsed", "s"): _Verb("takes", "{}", *_SHORTER),
    ("cpu_per_event", "s"): _Verb("costs", "{} of the host's CPU time for each event", *_LESS),
    ("host_memory", "B"): _Verb("takes", "{} of the host's memory", *_LESS),
    ("ready", "s"): _Verb("takes", "{} to be ready", *_SHORTER),
}
"""Of the responses that studies compare most; any other has its title: "has a median latency of 2.1 ms"."""


@dataclass(frozen=True)
class ContrastSentence:
    """A contrast in a sentence of its own."""

    contrast: Contrast
    text: str


Answer = Sequence[ContrastSentence]
"""What is said of one treatment against its reference, a sentence for each contrast."""


def find_shared_reason(contrasts: Sequence[Contrast]) -> str:
    """Why all of them are undecided: "too few blocks to tell; at least 10 are needed"; "" if it is not the same."""
    reasons = {_explain_fully(one) if one.verdict is Verdict.UNDECIDED else "" for one in contrasts}
    return next(iter(reasons)) if len(reasons) == 1 else ""


def _explain_fully(contrast: Contrast) -> str:
    """Why it is undecided, and what would decide it."""
    return "; ".join(filter(None, (words.explain_undecided(contrast), *words.list_degrees(contrast))))


def answer_contrasts(contrasts: Sequence[Contrast], plan: Plan, labels: Labels, shared: str = "") -> list[Answer]:
    """Contrasts by treatment and reference, in the order in which each pair is first met.

    A reason that is `shared` by all is left out of the sentences.
    """
    groups: dict[tuple[str, ...], list[Contrast]] = {}
    for contrast in contrasts:
        groups.setdefault(labels.name_sides(contrast), []).append(contrast)
    has_many = len({contrast.workload for contrast in contrasts if contrast.workload}) > 1
    namer = _Namer(plan, labels)
    return [list(_write_sentences(group, namer, labels, has_many, shared)) for group in groups.values()]


class _Namer:
    """Calls a machine "the VM (qemu)" where the plan has one environment of its family, else by its label."""

    def __init__(self, plan: Plan, labels: Labels) -> None:
        kinds = {one.environment.level: one.environment.description.family for one in plan.resolved}
        families = list(kinds.values())
        self._nouns = {
            words.strip_controls(level): _NOUNS[family]
            for level, family in kinds.items()
            if family in _NOUNS and families.count(family) == 1
        }
        self._labels = labels

    def name_sides(self, contrast: Contrast) -> tuple[str, str]:
        """ "the VM (qemu)" and "the host"; what both share stands in the brackets of the first."""
        treatment, reference, shared = self._labels.name_sides(contrast)
        more = [shared] if shared else []
        mine = self._name_side(contrast.treatment, treatment, more)
        return mine, self._name_side(contrast.reference, reference, None)

    def _name_side(self, side: Assignment, label: str, more: list[str] | None) -> str:
        noun = self._nouns.get(label) if words.strip_controls(str(side.get("environment", ""))) == label else None
        if noun is None:
            return f"{label} ({', '.join(more)})" if more else label
        brackets = [] if more is None else [*([label] if label != noun else []), *more]
        return f"the {noun}" + (f" ({', '.join(brackets)})" if brackets else "")


def _write_sentences(
    group: Sequence[Contrast], namer: _Namer, labels: Labels, has_many: bool, shared: str
) -> Iterator[ContrastSentence]:
    workload: str | None = None
    for place, contrast in enumerate(group):
        treatment, reference = namer.name_sides(contrast)
        subject = "it" if place else treatment
        is_new = has_many and contrast.workload != workload
        workload = contrast.workload
        where = f"in the workload {words.strip_controls(workload)}, " if is_new and workload else ""
        text = f"{where}{subject} {_write_clause(contrast, reference, labels, shared)}."
        if where or text.startswith(("the ", "it ")):
            text = text[0].upper() + text[1:]
        yield ContrastSentence(contrast, text)


def _write_clause(contrast: Contrast, reference: str, labels: Labels, shared: str) -> str:
    if contrast.verdict is Verdict.WITHDRAWN:
        return f"was given up after failures, and is not compared with {reference}"
    said = _describe_values(contrast, reference, labels)
    if contrast.verdict is Verdict.UNDECIDED:
        # Of too few blocks nobody may say that two could not be told apart: nothing was judged.
        state = "is not judged against" if contrast.interval is None else "could not be told from"
        return f"{state} {reference}{_describe_undecided(contrast, said, labels, shared)}"
    if said is None or contrast.ratio is None or not _is_plain(contrast):
        return words.clause_of(contrast, reference, labels)
    about = words.format_estimate(contrast)
    margin = words.format_margin(contrast)
    if contrast.verdict is Verdict.EQUIVALENT:
        return f"{said}: the same within {margin}, {about}"
    if contrast.verdict is Verdict.NOT_WORSE:
        return f"{said}: not worse by more than {margin}, {about}"
    change = _describe_change(contrast, verb := _choose_verb(contrast, labels))
    return f"{said}: {change}{_correct_for_looks(contrast, verb)}"


def _correct_for_looks(contrast: Contrast, verb: _Verb) -> str:
    """ ", or 2.3 % more corrected for the looks": an early look finds what happens to look large."""
    if contrast.adjusted is None:
        return ""
    seen, corrected = (  # with the decimals that the interval deserves, and without it
        _describe_change(contrast.model_copy(update={"ratio": ratio}), verb).partition(" (")[0]
        for ratio in (contrast.ratio, contrast.adjusted)
    )
    return "" if corrected == seen else f", or {corrected} corrected for the looks"


def _describe_undecided(contrast: Contrast, said: str | None, labels: Labels, shared: str) -> str:
    """What is known of it all the same, and what would decide it."""
    known = f" in {labels.name_response(contrast.workload, contrast.response)}" if said is None else f": it {said}"
    if contrast.interval is not None:
        known += f" ({words.format_estimate(contrast).replace(' (', ', ', 1).removesuffix(')')})"
    why = _explain_fully(contrast)
    return f"{known}; {why}" if why not in ("", shared) else known


def _is_plain(contrast: Contrast) -> bool:
    ends = (contrast.ratio or 0.0, *(contrast.interval or ()))
    return all(end > 0 and math.isfinite(end) for end in ends)


def _describe_values(contrast: Contrast, reference: str, labels: Labels) -> str | None:
    """ "serves 3,400 requests a second where the host serves 29,400": medians over the blocks that the contrast rests
    on; None where one is a bound."""
    medians = find_medians(contrast)
    if medians is None:
        return None
    mine, theirs = medians
    verb = _choose_verb(contrast, labels)
    if contrast.unit in ("1/s", "") and "{} " in verb.amount:
        mine, theirs = mine.removesuffix("/s"), theirs.removesuffix("/s")
    if not verb.verb:
        return f"has {verb.amount.format(mine)} where {reference} has {theirs}"
    return f"{verb.verb} {verb.amount.format(mine)} where {reference} {verb.verb} {theirs}"


def find_medians(contrast: Contrast) -> tuple[str, str] | None:
    """Both sides' medians over its blocks, as people read them; None if there are none, or one is but a bound."""
    pairs = contrast.pairs
    if not pairs or any(pair.treatment_censored or pair.reference_censored for pair in pairs):
        return None
    sides = [pair.treatment for pair in pairs], [pair.reference for pair in pairs]
    if not all(math.isfinite(value) for side in sides for value in side):
        return None
    mine, theirs = (figures.format_quantity(figures.as_known(side), contrast.unit) for side in sides)
    return mine, theirs


def _choose_verb(contrast: Contrast, labels: Labels) -> _Verb:
    known = _VERBS.get((contrast.response, contrast.unit))
    if known is not None:
        return known
    title = labels.name_response(contrast.workload, contrast.response)
    article = "an" if title[:1].lower() in "aeiou" else "a"
    return _Verb("", f"{article} {title} of {{}}", *(_SHORTER if contrast.unit == "s" else _LESS))


_SHARE_OF = 2.0
"""Up to this ratio, and down to its inverse, a difference is given in percent."""


def _describe_change(contrast: Contrast, verb: _Verb) -> str:
    """ "0.12 × as many (0.05 to 0.17)", "2.6 % more (1.9 to 3.4 %)"."""
    ratio, interval = contrast.ratio or 1.0, contrast.interval
    low, high = interval or (ratio, ratio)
    if min(ratio, low) >= 1 / _SHARE_OF and max(ratio, high) <= _SHARE_OF and not low <= 1 <= high:
        # Fewer by a share of the reference, not of the treatment.
        shares = [abs(end - 1) for end in (ratio, *(interval or ()))]
        value, *ends = _format_percents(shares[0], sorted(shares[1:]))
        word = verb.more if ratio > 1 else verb.less
        return f"{value} % {word}" + (f" ({' to '.join(ends)} %)" if ends else "")
    brackets = "" if interval is None else f" ({figures.format_interval(ratio, interval)})"
    return f"{figures.format_ratio(ratio, interval)} × {_AS[verb.less]}{brackets}"


_AS = {"fewer": "as many", "less": "as much", "shorter": "as long"}
"""By the word for less, how a ratio is read: "0.12 × as many"."""


def _format_percents(share: float, ends: Sequence[float]) -> list[str]:
    """Shares as percents, with as many decimals as their width deserves and as none of them is 0 with."""
    numbers = [100 * number for number in (share, *ends)]
    width = max(numbers) - min(numbers) or max(numbers) / 10
    decimals = min(6, max(0, -math.floor(math.log10(width / 2)))) if width else 0
    while decimals < 6 and any(number and not round(number, decimals) for number in numbers):
        decimals += 1
    return [f"{number:.{decimals}f}" for number in numbers]


def describe_values(contrast: Contrast) -> str:
    """ "3,400/s against 29,400/s"; "" where there is none."""
    medians = find_medians(contrast)
    return " against ".join(medians) if medians else ""
