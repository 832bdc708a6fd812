"""Whether the run's answers were right, where these are known beforehand, and how small a difference it can see."""

from collections.abc import Iterable, Sequence

from nearmetal.analysis.calibrate import BLOCKS, calibrate, has_injected
from nearmetal.report import figures, words
from nearmetal.report.blocks import Badge, Block, Column, Paragraph, Quantity, Table, Value
from nearmetal.report.report_input import BuiltInSection, Contents, ReportInput
from nearmetal.report.table_parts import make_columns, make_quantity
from nearmetal.store.calibration_document import AAComparison, Calibration, InjectedDifference, Noise

_CAPTION = (
    "What is known beforehand, and what was found. What is alike is called different where its interval excludes that "
    "there is no difference, also within the study's margin"
)
_LEADS = {
    "sound": "Nothing that is alike was called different, and every difference of known size lies in its interval.",
    "unsound": "Something that is alike was called different, or a difference of known size lies outside its interval. "
    "Of sound machines one in twenty has such a run.",
}
_SMALLEST = (
    "Below stands how small a difference studies of so many blocks tell from none in 80 % of cases, with one "
    "comparison at 5 %, if boots vary as here: whether the verdict is then that it is different depends on the study's "
    "margin. Spread: how much boots vary that are alike. Known to: by what factor a row may be off, at 95 %."
)


def _render(report: ReportInput) -> Contents | None:
    if not has_injected(report.manifest, report.analysis):
        return None
    found = calibrate(report.manifest, report.records, report.analysis, report.manifest.run)
    if found is None:
        return None
    columns = (
        *make_columns("workload", "response"),
        *make_columns("comparison", "found", where="page"),
        *make_columns("treatment", "reference", where="data"),
        *make_columns("estimate", "from", "to", numeric=True, where="data"),
        *make_columns("truth", "answer"),
    )
    rows = tuple(_make_row(one, report) for one in found.compared)
    blocks: list[Block] = [Table("calibration", _CAPTION, columns, rows)]
    if ratios := [noise for noise in found.noise if noise.scale == "ratio" and noise.finds]:
        blocks += [Paragraph(_SMALLEST), _make_smallest(ratios, report)]
    return _write_lead(found), blocks


def _write_lead(found: Calibration) -> str:
    if {one.reason for one in found.untold} == {"too-few-blocks"}:
        return "Too few blocks to tell whether the answers were right."
    if found.verdict != "unknown":
        return _LEADS[found.verdict]
    if found.untold:
        text = describe_untold(found)
        return text[0].upper() + text[1:]
    return "No fault was seen, and this run would not have seen one: no difference of known size was told from none."


def describe_untold(found: Calibration) -> str:
    """ "of 2 of 6 comparisons nothing can be told: a value is not a number." """
    reasons = figures.join_listing(dict.fromkeys(words.explain_reason(one.reason or "") for one in found.untold))
    total = figures.format_count(len(found.compared), "comparison")
    return f"of {len(found.untold)} of {total} nothing can be told: {reasons}."


def _make_row(one: AAComparison | InjectedDifference, report: ReportInput) -> tuple[Value, ...]:
    ends = (one.estimate, *(one.interval or (None, None)))
    return (
        words.name_workload(one.workload),
        report.labels.name_response(one.workload, one.response),
        f"{words.name_difference(one.treatment, one.reference)} vs "
        f"{words.name_difference(one.reference, one.treatment)}",
        words.format_size(one.estimate, one.interval, one.scale, one.unit),
        report.labels.name_treatment(one.treatment),
        report.labels.name_treatment(one.reference),
        *(end if one.scale == "ratio" else make_quantity(end, one.unit) for end in ends),
        words.known_truth(one.truth, one.scale, one.unit) if isinstance(one, InjectedDifference) else "alike",
        _make_answer(one),
    )


def _make_answer(one: AAComparison | InjectedDifference) -> Badge:
    if one.is_right is None:
        return Badge(words.explain_reason(one.reason or ""), "unknown")
    if isinstance(one, AAComparison):
        return Badge("not called different", "same") if one.is_right else Badge("called different", "worse")
    return Badge("in the interval", "same") if one.is_right else Badge("outside the interval", "worse")


def _make_smallest(noises: Sequence[Noise], report: ReportInput) -> Table:
    columns = (
        *make_columns("workload", "response"),
        *(Column(f"{blocks} blocks", numeric=True) for blocks in BLOCKS),
        *make_columns("known to", "spread", numeric=True),
    )
    rows = tuple(tuple(_make_cells(noise, report)) for noise in noises)
    return Table("calibration-smallest", "The smallest difference that is found", columns, rows, folded=True)


def _make_cells(noise: Noise, report: ReportInput) -> Iterable[Value]:
    yield words.name_workload(noise.workload)
    yield report.labels.name_response(noise.workload, noise.response)
    found = {one.blocks: Quantity(one.smallest, "share") for one in noise.finds}
    yield from (found.get(blocks) for blocks in BLOCKS)
    yield noise.doubt
    yield Quantity(noise.spread, "share")


plugin = BuiltInSection("calibration", "Were the answers right?", 15, _render)
