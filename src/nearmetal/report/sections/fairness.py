"""What else differs between the environments: the rivals to every explanation."""

from collections.abc import Sequence
from dataclasses import replace

from nearmetal.analysis.confounders import CONFOUNDERS
from nearmetal.analysis.results import FairnessRow
from nearmetal.report import words
from nearmetal.report.blocks import Block, Column, Paragraph, Table, Value
from nearmetal.report.report_input import BuiltInSection, Contents, ReportInput
from nearmetal.study.levels import format_assignment

_SIDE_BY_SIDE = 6
"""With more machines than this, a row says which of them share each value instead of repeating it in columns."""

_LONG = 30
"""Characters."""

_OPEN = 8
"""Facts that stand open; the others are a click away."""

_PROCESSOR = ("model", "virtualization.hypervisor")
"""Facts of group `cpu`: which processor a machine sees, and what emulates or shares it."""

_WEIGHTY = ("clock", "kernel", "offloads", "network", "sysctls", "memory")
"""Groups whose facts move responses more often than those of other groups."""


def _render(report: ReportInput) -> Contents | None:
    rows = report.analysis.fairness
    if not report.manifest.fairness and not rows:
        return None
    same = "; ".join(words.strip_controls(row.fact) for row in rows if row.is_the_same)
    blocks: tuple[Block, ...] = (Paragraph(f"Identical everywhere: {same}."),) if same else ()
    different = tuple(row for row in rows if not row.is_the_same)
    if not different:
        lead = "No fact that the machines report of themselves differs."
        return lead, blocks
    lead = (
        "Facts that the machines report of themselves and that differ, besides the factors. Each could be part of the "
        "reason for a difference above. Those that are known to move a compared response stand first. Any other fact "
        "is not known to differ."
    )
    ranked = sorted(different, key=lambda row: _rank_row(row, report))
    return lead, (*blocks, *_make_tables(ranked, report))


def _rank_row(row: FairnessRow, report: ReportInput) -> tuple[int, int]:
    """What confounds a comparison first, then processors, then what may confound others, then the rest by its group.

    Of many facts that confound as one, such as mitigations, each is less than a processor. What only some tell is last:
    a kernel that does not know a vulnerability lists no mitigation of it.
    """
    client = "client: " if row.fact.startswith("client: ") else ""
    fact = row.fact.removeprefix(client)
    if row.group == "cpu" and fact in _PROCESSOR:
        return 1, _PROCESSOR.index(fact)
    alike = (one for one in CONFOUNDERS if one.group == row.group)
    known = next(
        (one for one in alike if one.fact == fact or (one.fact[-1:] == "." and fact.startswith(one.fact))), None
    )
    named = {name for contrast in report.analysis.contrasts for name in contrast.confounded_by}
    weight = _WEIGHTY.index(row.group) if row.group in _WEIGHTY else len(_WEIGHTY)
    if known is None or len(set(row.values.values())) == 1:
        return 4, weight
    if f"{client}{known.name}" not in named:
        return 3, weight
    return 2 if known.fact.endswith(".") else 0, weight


def _make_tables(rows: Sequence[FairnessRow], report: ReportInput) -> list[Table]:
    """All of them for programs; for people the first, and the rest folded."""
    whole = _make_table("fairness", "Fairness diff", rows, rows, report)
    if len(rows) <= _OPEN + 2:
        return [whole]
    first, rest = rows[:_OPEN], rows[_OPEN:]
    return [
        replace(whole, where="data"),
        replace(_make_table("fairness-first", f"The {_OPEN} that matter most", first, rows, report), where="page"),
        replace(_make_table("fairness-rest", "The rest of the fairness diff", rest, rows, report, True), where="page"),
    ]


def _make_table(
    name: str,
    caption: str,
    rows: Sequence[FairnessRow],
    every: Sequence[FairnessRow],
    report: ReportInput,
    is_folded: bool = False,
) -> Table:
    """Rows with a column for each machine that any of `every` tells of."""
    plain = {label: words.strip_controls(label) for row in every for label in row.values}
    named = plain | {
        format_assignment(treatment): report.labels.name_treatment(treatment)
        for treatment in report.manifest.plan.treatments
    }
    labels = list(plain)
    if len(labels) <= _SIDE_BY_SIDE:
        columns = (Column("group"), Column("fact"), *(Column(named[label]) for label in labels))
        body: tuple[tuple[Value, ...], ...] = tuple(
            (row.group, row.fact, *(_show_value(row, label, labels[0], named[labels[0]]) for label in labels))
            for row in rows
        )
        return Table(name, caption, columns, body, is_folded)
    columns = (Column("group"), Column("fact"), Column("value"), Column("where"))
    body = tuple(
        (row.group, row.fact, value, "; ".join(named[label] for label in labels if row.values.get(label) == value))
        for row in rows
        for value in dict.fromkeys(row.values.values())
    )
    return Table(name, caption, columns, body, is_folded or len(body) > 60)


def _show_value(row: FairnessRow, label: str, first: str, first_name: str) -> str:
    """A value; a long one that stands in the first column already is not repeated."""
    value = row.values.get(label, "not reported")
    if label != first and value == row.values.get(first) and len(value) > _LONG:
        return f"as {first_name}"
    return value


plugin = BuiltInSection("fairness", "Differences besides the factors", 50, _render)
