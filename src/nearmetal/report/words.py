"""What things are called in front of people: treatments, responses, verdicts, contrasts."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from nearmetal.analysis.assumptions import is_dependent, is_lopsided
from nearmetal.analysis.interference import INTERFERENCE
from nearmetal.analysis.results import Analysis, Contrast, Verdict
from nearmetal.analysis.sites import do_sites_differ
from nearmetal.control_characters import strip_controls as strip_controls
from nearmetal.model import Assignment, Level, Plan, ResponseKind, Scale, Warned
from nearmetal.report import figures
from nearmetal.report.blocks import Badge, Tone
from nearmetal.store import version_1
from nearmetal.study.levels import format_level, is_same_level
from nearmetal.units import show_elapsed

FIRST = (
    "withdrawn",
    "nothing-to-compare",
    "unfinished",
    "versions-changed",
    "pretended",
    "emulated",
    "rootless",
    "contained",
    "nested",
)
"""Codes of warnings of the whole run that come before any verdict: they change what the verdicts are about."""

SAME = "the same in all blocks"
"""What there is to say of two sides that never differ: no statistic is needed."""

_COSTS = {
    "cpu_per_event": "host CPU time per event",
    "host_memory": "host memory",
    "memory_overhead": "memory beyond the guest's own",
    "ready": "time to ready",
}
_CLAUSES_OF_COSTS = {
    "cpu_per_event": "costs {ratio} × the host CPU time of {reference} for the same work",
    "host_memory": "takes {ratio} × the memory of {reference} from its host",
    "ready": "takes {ratio} × as long as {reference} to be ready",
}
"""Of the responses that every trial has, whatever its workload."""

_USUAL_CLAUSE = "has {ratio} × the {response} of {reference}"
_IN_CLAUSES = re.compile(r"\{(ratio|response|reference)\}")

REASONS = {
    "too-few-blocks": "too few blocks to tell",
    "no-blocks": "no block has a good trial of both",
    "response-missing": "no block has it on both sides",
    "not-looked-yet": "not looked at yet",
    "not-ended-yet": "the run has not ended",
    "not-positive": "a value is negative, so it has no ratio",
    "not-finite": "a value, or a difference or ratio of values, is not a finite number",
    "all-failed": "both sides failed in every block",
    "failures-unlike": "one side failed in more blocks than the other",
    "too-few-worked": "too few blocks in which both sides worked",
    "faults-not-alike": "faults of others befell one side more often than the other",
    "margin-varies": "the reference varies too much from block to block to say what the margin is",
    "censored": "a value is only known to lie beyond what was tried",
    "nothing-before": "no good trial of the run before has it",
    "nothing-after": "no good trial of the run after has it",
    "units-differ": "its unit is not the same in all trials",
    "no-margin": "the median of the reference is 0, so a margin in percent of it means nothing",
}
"""Why a contrast is undecided, by its `reason`."""


SIGNS: dict[Tone, str] = {"better": "▲", "worse": "▼", "same": "=", "no-worse": "△", "unknown": "?", "plain": " "}
"""Of what a verdict means, so that nothing is told by a colour alone."""


def name_workload(name: str) -> str:
    """A workload's name, or what has the responses of a boot that several workloads share."""
    return strip_controls(name) or "every boot"


def name_response(name: str) -> str:
    """A response's name for people, where its workload cannot be asked: of a calibration, or of manifest version 1."""
    return _COSTS.get(name) or version_1.TITLES.get(name) or strip_controls(name).replace("_", " ")


ResponseKinds = Mapping[tuple[str, str], ResponseKind]
"""What workloads said of their responses, by workload and response."""


def find_response_kinds(plan: Plan) -> ResponseKinds:
    """Of all workloads of a plan; none of a run of manifest version 1."""
    workloads = {id(workload): workload for one in plan.resolved for workload in one.workloads}
    return {(one.name, name): kind for one in workloads.values() for name, kind in one.responses.items()}


def name_level(name: str, value: Level) -> str:
    """ "qemu", "offload off", "workers 4": a factor's level as part of a name."""
    if name == "environment":
        return strip_controls(str(value))
    if isinstance(value, bool):
        return f"{strip_controls(name)} {'on' if value else 'off'}"
    return f"{strip_controls(name)} {strip_controls(format_level(value))}"


@dataclass(frozen=True)
class Labels:
    """Names treatments by the factors with several levels in the run, and responses as their workloads do."""

    telling: tuple[str, ...]
    kinds: ResponseKinds = field(default_factory=dict)

    @classmethod
    def of_plan(cls, plan: Plan) -> "Labels":
        return cls.from_treatments(plan.treatments, find_response_kinds(plan))

    @classmethod
    def from_treatments(cls, treatments: Iterable[Assignment], kinds: ResponseKinds | None = None) -> "Labels":
        listed = list(treatments)
        names = dict.fromkeys(name for treatment in listed for name in treatment)
        # By type as well: 1 is another level than true.
        levels = {name: {(type(one.get(name)), one.get(name)) for one in listed} for name in names}
        telling = [name for name in names if name == "environment" or len(levels[name]) > 1]
        return cls(tuple(sorted(telling, key=lambda name: name != "environment")), kinds or {})

    def name_response(self, workload: str, name: str) -> str:
        """A response's name for people."""
        kind = self.kinds.get((workload, name))
        if kind is None:
            return name_response(name)
        return strip_controls(kind.title) or strip_controls(name).replace("_", " ")

    def name_clause(self, workload: str, name: str) -> str:
        """How a sentence compares two treatments by a response."""
        kind = self.kinds.get((workload, name))
        if kind is None:
            return _CLAUSES_OF_COSTS.get(name) or version_1.CLAUSES.get(name) or _USUAL_CLAUSE
        return strip_controls(kind.clause) or _USUAL_CLAUSE

    def name_treatment(self, treatment: Assignment) -> str:
        return self._name_levels(treatment, self.telling) or "the treatment"

    def _name_levels(self, treatment: Assignment, names: Iterable[str]) -> str:
        return ", ".join(name_level(name, treatment[name]) for name in names if name in treatment)

    def name_sides(self, contrast: Contrast) -> tuple[str, str, str]:
        """A contrast as (what the treatment is, what the reference is, what both share; "" when nothing telling)."""
        mine, theirs = contrast.treatment, contrast.reference
        common = self._find_common(mine, theirs)
        apart = [name for name in self.telling if name not in common]
        return (
            self._name_levels(mine, apart) or self.name_treatment(mine),
            self._name_levels(theirs, apart) or self.name_treatment(theirs),
            self._name_levels(mine, common),
        )

    def name_common(self, mine: Assignment, theirs: Assignment) -> str:
        """ "workers 4": what both sides share of the levels that tell treatments apart; "" if nothing."""
        return self._name_levels(mine, self._find_common(mine, theirs))

    def _find_common(self, mine: Assignment, theirs: Assignment) -> list[str]:
        return [
            name for name in self.telling if name in mine and name in theirs and is_same_level(mine[name], theirs[name])
        ]

    def name_versus(self, contrast: Contrast) -> str:
        """ "docker vs host (workers 4)"."""
        treatment, reference, shared = self.name_sides(contrast)
        return f"{treatment} vs {reference}" + (f" ({shared})" if shared else "")


def format_estimate(contrast: Contrast) -> str:
    """The estimate and its interval: "0.97 × (0.95 to 0.99)", "+0.2 points (+0.1 to +0.3)", "no estimate"."""
    value = contrast.ratio if contrast.ratio is not None else contrast.difference
    return format_size(value, contrast.interval, contrast.scale, contrast.unit, contrast.equivalence or ())


def format_margin(contrast: Contrast) -> str | None:
    """ "2 %", "±0.4 ms": within what it is equivalent; None where a margin means nothing."""
    if contrast.equivalence is None:
        return None
    most = contrast.equivalence[1]
    if contrast.scale == "ratio":
        return figures.format_percent(most - 1)
    return f"±{figures.format_difference(most, None, contrast.unit).removeprefix('+')}"


def write_sentence(contrast: Contrast, labels: Labels) -> str:
    """A contrast in plain words, without its verdict: "docker carries 0.97 × the requests of host (0.95 to 0.99)"."""
    treatment, reference, shared = labels.name_sides(contrast)
    where = f" ({shared})" if shared else ""
    return f"{treatment}{where} {clause_of(contrast, reference, labels)}"


def clause_of(contrast: Contrast, reference: str, labels: Labels) -> str:
    """ "carries 0.97 × the requests of host (0.95 to 0.99)": a contrast without its treatment."""
    name = labels.name_response(contrast.workload, contrast.response)
    if contrast.scale == "difference" and contrast.difference is not None:
        change = figures.format_difference(contrast.difference, contrast.interval, contrast.unit)
        if math.isinf(contrast.difference):
            _, bracket, ends = change.partition(" (")
            return f"has no typical difference from {reference} in {name}{bracket}{ends}"
        return f"differs from {reference} in {name} by {change}"
    if contrast.ratio is None:
        return f"cannot be compared with {reference} in {name}"
    bounds = contrast.equivalence or ()
    ends = f" ({figures.format_interval(contrast.ratio, contrast.interval, bounds)})" if contrast.interval else ""
    if contrast.ratio == 0 or math.isinf(contrast.ratio):
        return f"has no typical ratio to {reference} in {name}{ends}"
    ratio = figures.format_ratio(contrast.ratio, contrast.interval, bounds)
    filled = {"ratio": ratio, "response": name, "reference": reference}
    clause = _IN_CLAUSES.sub(lambda found: filled[found[1]], labels.name_clause(contrast.workload, contrast.response))
    return f"{clause}{ends}"


def name_difference(side: Assignment, other: Assignment) -> str:
    """ "again", "amount 2100": by what a treatment is another than the one it is compared with."""
    return ", ".join(name_level(name, one) for name, one in side.items() if not is_same_level(one, other[name]))


def format_size(
    value: float | None,
    interval: tuple[float, float] | None,
    scale: Scale,
    unit: str,
    bounds: Sequence[float] = (),
) -> str:
    """As `estimate` has it: "0.97 × (0.95 to 0.99)", "+0.2 ms (+0.1 to +0.3)", "no estimate"."""
    if value is None:
        return "no estimate"
    if scale == "difference":
        return figures.format_difference(value, interval, unit)
    text = f"{figures.format_ratio(value, interval, bounds)} ×".replace(f"{figures.UNBOUNDED} ×", figures.UNBOUNDED)
    return text if interval is None else f"{text} ({figures.format_interval(value, interval, bounds)})"


def known_truth(truth: tuple[float, float], scale: Scale, unit: str) -> str:
    """ "1.05 ×", "+1 ms, give or take 50 µs": the size of a difference that was injected."""
    about = (truth[1] - truth[0]) / 2
    middle = sum(truth) / 2
    size = f"{middle:.4g} ×" if scale == "ratio" else figures.format_difference(middle, None, unit)
    return size + (f", give or take {figures.format_quantity(about, unit)}" if about else "")


_TONES: Mapping[Verdict, Tone] = {
    Verdict.EQUIVALENT: "same",
    Verdict.NOT_WORSE: "no-worse",
    Verdict.WITHDRAWN: "worse",
    Verdict.UNDECIDED: "unknown",
}


def choose_tone(contrast: Contrast) -> Tone:
    """What a verdict means: better and worse only where the data say that there is a difference."""
    if contrast.verdict is not Verdict.DIFFERENT:
        return _TONES[contrast.verdict]
    more = (contrast.ratio or 0.0) > 1 if contrast.scale == "ratio" else (contrast.difference or 0.0) > 0
    return "better" if more == (contrast.better == "higher") else "worse"


def is_same(contrast: Contrast) -> bool:
    """Whether both sides have one value in each block, and not but the same bound."""
    if contrast.failures or not contrast.pairs:
        return False
    return all(
        pair.treatment == pair.reference and not (pair.treatment_censored or pair.reference_censored)
        for pair in contrast.pairs
    )


def badge_verdict(contrast: Contrast) -> Badge:
    """ "different, worse", "equivalent", "undecided".

    A colour only for what the study asked beforehand. A margin around 0 means nothing, so that errors of which there
    were none would be undecided.
    """
    if not contrast.primary and contrast.verdict is Verdict.UNDECIDED and is_same(contrast):
        return Badge(SAME)
    meaning = choose_tone(contrast)
    suffix = f", {meaning}" if contrast.verdict is Verdict.DIFFERENT and meaning != "unknown" else ""
    return Badge(f"{contrast.verdict}{suffix}".replace("-", " "), meaning if contrast.primary else "plain")


def list_conditions(contrast: Contrast) -> list[str]:
    """ "if blocks are independent": the assumptions without which a difference would not be found."""
    conditions = (
        (is_dependent(contrast), "if blocks are independent"),
        (is_lopsided(contrast), "if blocks are symmetric"),
    )
    return [text for is_needed, text in conditions if is_needed]


def name_standing(contrast: Contrast) -> str:
    """Whether a study asked for it beforehand: "primary", with its conditions, or else "exploratory"."""
    return ", ".join(["primary" if contrast.primary else "exploratory", *list_conditions(contrast)])


def asked_at(alpha: float) -> str:
    """What a caption says of a table that has both kinds of comparisons."""
    return (
        f"intervals of primary comparisons share the {figures.format_percent(alpha)} of the study, "
        f"exploratory ones are each at {figures.format_percent(1 - alpha)} and are hints, not findings"
    )


def describe_own_interval(alpha: float) -> str:
    """What a caption calls the interval of one treatment by itself: "95 % interval for the time of this run alone".

    It takes blocks to be independent, which they are not if the host wanders: comparisons within blocks do not need it.
    """
    return f"{figures.format_percent(1 - alpha)} interval for the time of this run alone"


def explain_undecided(contrast: Contrast) -> str:
    """Why a contrast is undecided, or ""."""
    return f"{explain_reason(contrast.reason)}{_of_ramp(contrast)}" if contrast.reason else ""


def _of_ramp(contrast: Contrast) -> str:
    """What to change of a ramp that ended too early, or of which the first rate was too much; "" where it is none."""
    if contrast.response != "saturation" or contrast.reason != "censored":
        return ""
    bounds = {bound for pair in contrast.pairs for bound in (pair.treatment_censored, pair.reference_censored)}
    gave_out = any(warning.code == "generator-gave-out" for warning in contrast.warnings)
    higher = "raise `threads`" if gave_out else "raise `to`"
    ends = [text for text, bound in (("lower `from`", "left"), (higher, "right")) if {bound, "both"} & bounds]
    return f"; {' and '.join(ends)} of the ramp" if ends else ""


def explain_reason(code: str) -> str:
    """A contrast's `reason` for people."""
    return REASONS.get(code, strip_controls(code))


def list_first(analysis: Analysis) -> tuple[Warned, ...]:
    """What the whole run is warned of before any verdict."""
    return tuple(warning for warning in analysis.warnings if _comes_first(warning))


def list_later(analysis: Analysis) -> tuple[Warned, ...]:
    """What else it is warned of."""
    return tuple(warning for warning in analysis.warnings if not _comes_first(warning))


def _comes_first(warning: Warned) -> bool:
    return warning.code in FIRST or warning.code in INTERFERENCE


def list_warned(contrast: Contrast, analysis: Analysis) -> tuple[Warned, ...]:
    """What a contrast is warned of beside the reason for which it is undecided, and what is told of the whole run."""
    told = {contrast.reason, *(warning.code for warning in list_first(analysis))}
    return tuple(warning for warning in contrast.warnings if warning.code not in told)


def small_print(contrast: Contrast) -> str:
    """How sure, and on what: "98.75 % interval, p = 0.008, 8 blocks"."""
    parts = []
    if contrast.interval is not None:
        parts.append(f"{figures.format_percent(1 - contrast.level)} interval")
    # Of several looks, p of one says less than it seems to.
    if contrast.p is not None and contrast.look is None:
        parts.append(figures.format_probability(contrast.p))
    parts.append(figures.format_count(contrast.blocks, "block") + (f" (look {contrast.look})" if contrast.look else ""))
    if contrast.verdict is Verdict.UNDECIDED and contrast.reason:
        parts.append(explain_undecided(contrast))
    return ", ".join([*parts, *list_conditions(contrast), *list_degrees(contrast)])


def list_degrees(contrast: Contrast) -> list[str]:
    """ "beyond the margin", "about 24 blocks would decide it": how much a primary verdict says, or what it lacks."""
    if not contrast.primary or contrast.verdict is Verdict.WITHDRAWN:
        return []
    if contrast.beyond_margin:
        return ["beyond the margin"]
    told = ["the blocks left would hardly decide it"] if contrast.is_futile else []
    if contrast.needs is None:
        return told
    if contrast.interval is None:
        return [*told, f"at least {contrast.needs:,} are needed"]
    took = f", some {show_elapsed(contrast.needs_seconds)}," if contrast.needs_seconds else ""
    return [*told, f"about {contrast.needs:,} blocks{took} would decide it"]


def list_looks(contrast: Contrast) -> list[str]:
    """ "decided at look 1", "1.02 × corrected for the looks", "1.01 × (1 to 1.03) in all 40 blocks": what an early
    verdict leaves out."""
    is_decided = contrast.look is not None and contrast.verdict is not Verdict.UNDECIDED
    told = [f"decided at look {contrast.look}"] if is_decided else []
    size_seen, size_adjusted = (
        format_size(value, None, contrast.scale, contrast.unit)
        for value in (contrast.difference if contrast.ratio is None else contrast.ratio, contrast.adjusted)
    )
    if contrast.adjusted is not None and size_adjusted != size_seen:
        told.append(f"{size_adjusted} corrected for the looks")
    last = contrast.last_look
    if last is not None:
        size_at_last = format_size(last.estimate, last.interval, contrast.scale, contrast.unit)
        told.append(f"{size_at_last} in all {figures.format_count(last.blocks, 'block')}")
    return told


def list_sites(contrast: Contrast) -> list[str]:
    """ "sites differ (4 sites, p = 0.003)", "sites are not seen to differ (4 sites, p = 0.4)": whether sites agree."""
    if contrast.sites is None:
        return []
    number = figures.format_count(len(contrast.sites.each), "site")
    if contrast.sites.p is None:
        return [f"too few blocks a site to tell whether sites differ ({number})"]
    seen = "sites differ" if do_sites_differ(contrast) else "sites are not seen to differ"
    return [f"{seen} ({number}, {figures.format_probability(contrast.sites.p)})"]


def list_failures(contrast: Contrast, labels: Labels) -> list[str]:
    """ "docker failed in 10 of 30 blocks and host in none", and what is told of those in which both worked."""
    found = contrast.failures
    if found is None:
        return []
    treatment, reference, _ = labels.name_sides(contrast)
    of = figures.format_count(found.blocks, "block")
    mine, others = (
        f"{number + found.both:,}" if number + found.both else "none" for number in (found.treatment, found.reference)
    )
    told = [f"{treatment} failed in {mine} of {of} and {reference} in {others}"]
    if contrast.worked:
        worked = contrast.worked
        size_of_those = format_size(worked.estimate, worked.interval, contrast.scale, contrast.unit)
        told.append(f"{size_of_those} in the {figures.format_count(worked.blocks, 'block')} in which both worked")
    return told


def list_means(contrast: Contrast, labels: Labels) -> list[str]:
    """ "mean of boots 0.95 × (0.9 to 1), 2 of 12 boots worse than the worst of host, noise 8.3 ×"."""
    found = contrast.means
    if found is None or not contrast.primary:
        return []
    _, reference, _ = labels.name_sides(contrast)
    mean = f"mean of boots {format_size(found.ratio, found.interval, 'ratio', '')}"
    worse = (
        f"{found.worse or 'none'} of {figures.format_count(found.blocks, 'boot')} worse than the worst of {reference}"
    )
    noise = f", noise {figures.format_ratio(found.spread)} ×" if found.spread else ""
    return [f"{mean}, {worse}{noise}"]


def failure_counts(contrast: Contrast) -> str | None:
    """ "10 : 0": in how many blocks the treatment failed, and the reference."""
    found = contrast.failures
    return f"{found.treatment + found.both} : {found.reference + found.both}" if found else None


def name_direction(better: str) -> str:
    return f"{better} is better"
