"""What the page's script knows of a run: the factors that a reader can filter by, and which treatments a name means."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nearmetal.report import words
from nearmetal.report.client_lines import label_without_clients
from nearmetal.report.report_input import ReportInput
from nearmetal.study.levels import format_level


@dataclass(frozen=True)
class FilteredFactor:
    """A factor with more than one level in the run, and its levels as the page writes them."""

    name: str
    levels: tuple[str, ...]


@dataclass(frozen=True)
class PageFilter:
    """`treatments` has for each treatment the place of its level in each of `factors`, None where it has none.

    `names` says which treatments a mark is about that begins with a name: one of them, or all of an environment.
    """

    factors: Sequence[FilteredFactor]
    treatments: Sequence[Sequence[int | None]]
    names: Mapping[str, Sequence[int]]
    blocks: int

    @property
    def told(self) -> Mapping[str, object]:
        """What the script reads, as JSON."""
        return {"treatments": self.treatments, "names": self.names}


def make_filter(report: ReportInput) -> PageFilter:
    treatments = report.manifest.plan.treatments
    every = (
        FilteredFactor(name, tuple(dict.fromkeys(format_level(one[name]) for one in treatments if name in one)))
        for name in report.labels.telling
    )
    factors = [factor for factor in every if len(factor.levels) > 1]
    names: dict[str, dict[int, None]] = defaultdict(dict)
    for place, treatment in enumerate(treatments):
        for name in (
            report.labels.name_treatment(treatment),
            label_without_clients(treatment, report),
            str(treatment.get("environment", "")),
        ):
            names[words.strip_controls(name)][place] = None
    return PageFilter(
        factors,
        [
            [factor.levels.index(format_level(one[factor.name])) if factor.name in one else None for factor in factors]
            for one in treatments
        ],
        {name: list(places) for name, places in names.items() if name},
        max((record.trial.block + 1 for record in report.records), default=0),
    )
