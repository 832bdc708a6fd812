"""What else differs between the environments: the rivals to every explanation."""

from nearmetal.analysis.results import FairnessRow
from nearmetal.levels import format_assignment
from nearmetal.report import words
from nearmetal.report.blocks import Block, Column, Paragraph, Section, Table, Value
from nearmetal.report.reading import ReportInput

_SIDE_BY_SIDE = 6
"""With more machines than this, a row says which of them share each value instead of repeating it in columns."""

_LONG = 30
"""Characters."""


class Fairness:
    name = "fairness"
    title = "What else is not the same"
    order = 50

    def render(self, report: ReportInput) -> Section | None:
        rows = report.analysis.fairness
        if not report.manifest.fairness and not rows:
            return None
        same = "; ".join(words.plain(row.fact) for row in rows if row.is_the_same)
        blocks: tuple[Block, ...] = (Paragraph(f"Identical everywhere: {same}."),) if same else ()
        different = tuple(row for row in rows if not row.is_the_same)
        if not different:
            lead = "Every fact that the machines told of themselves is the same everywhere."
            return Section(self.name, self.title, lead, blocks)
        lead = (
            "Facts that the machines told of themselves and that differ, besides what is under study. Each could be "
            "part of the reason for a difference above. What is not in this list is not known to differ."
        )
        return Section(self.name, self.title, lead, (*blocks, _table(different, report)))


def _table(rows: tuple[FairnessRow, ...], report: ReportInput) -> Table:
    plain = {label: words.plain(label) for row in rows for label in row.values}
    named = plain | {
        format_assignment(treatment): report.labels.treatment(treatment)
        for treatment in report.manifest.plan.treatments
    }
    labels = list(plain)
    if len(labels) <= _SIDE_BY_SIDE:
        columns = (Column("group"), Column("fact"), *(Column(named[label]) for label in labels))
        body: tuple[tuple[Value, ...], ...] = tuple(
            (row.group, row.fact, *(_told(row, label, labels[0], named[labels[0]]) for label in labels)) for row in rows
        )
        return Table("fairness", "Fairness diff", columns, body)
    columns = (Column("group"), Column("fact"), Column("value"), Column("where"))
    body = tuple(
        (row.group, row.fact, value, "; ".join(named[label] for label in labels if row.values.get(label) == value))
        for row in rows
        for value in dict.fromkeys(row.values.values())
    )
    return Table("fairness", "Fairness diff", columns, body, folded=len(body) > 60)


def _told(row: FairnessRow, label: str, first: str, first_name: str) -> str:
    """A value; a long one that stands in the first column already is not repeated."""
    value = row.values.get(label, "not told")
    if label != first and value == row.values.get(first) and len(value) > _LONG:
        return f"as {first_name}"
    return value


plugin = Fairness()
