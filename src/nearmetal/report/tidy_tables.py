"""A run as tidy tables, for other programs: a row for each value that was measured, and for each block of a contrast.

A column for each factor is called as the factor is, and `factor_NAME` where that is a column's name already. What is
missing is None. Pure.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from nearmetal.model import Plan, TrialRecord
from nearmetal.study.levels import format_assignment

if TYPE_CHECKING:
    from nearmetal.report.report_input import ReportInput

Name = Literal["trials", "blocks", "contrasts"]

Cell = str | int | float | bool | None

Row = tuple[Cell, ...]


@dataclass(frozen=True)
class TidyTable:
    """Columns by name, each of one type; rows have a value for each."""

    columns: tuple[str, ...]
    groups: Sequence[tuple[Row, Sequence[Row]]]
    """Rows that begin alike: what they begin with, and what each goes on with."""

    @cached_property
    def rows(self) -> Sequence[Row]:
        return [(*before, *row) for before, rows in self.groups for row in rows]

    def to_dicts(self) -> list[dict[str, Cell]]:
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


_OF_TRIALS = (
    *("trial", "block", "attempt", "position", "repeat", "workload"),
    *("status", "reason", "blame", "cause", "response", "value", "unit", "better", "scale", "censored"),
)
_OF_BLOCKS = (
    *("workload", "response", "contrast", "primary", "block", "attempt", "treatment", "reference"),
    *("treatment_censored", "reference_censored", "unit", "better", "scale"),
)
_OF_CONTRASTS = (
    *("workload", "response", "treatment", "reference", "primary", "blocks"),
    *("treatment_failed", "reference_failed", "estimate", "low", "high", "level", "p"),
    *("verdict", "reason", "unit", "better", "scale", "warnings"),
)


def make_table(report: "ReportInput", name: Name) -> TidyTable:
    match name:
        case "trials":
            return tabulate_trials(report.manifest.plan, report.records)
        case "blocks":
            return _table_of_blocks(report)
        case "contrasts":
            return TidyTable(_OF_CONTRASTS, [((), list(_rows_of_contrasts(report)))])


def tabulate_trials(plan: Plan, records: Iterable[TrialRecord]) -> TidyTable:
    factors = list_factors(plan)
    names = _name_factors(factors, _OF_TRIALS)
    groups: list[tuple[Row, Sequence[Row]]] = []
    for record in records:
        address = record.trial
        before = (
            *(address.id, address.block, address.attempt, address.position, address.repeat, address.workload),
            *[address.treatment.get(factor) for factor in factors],
            *(record.status.value, record.reason, record.blame, record.cause),
        )
        told = [
            (response, one.value, one.unit, one.better, one.scale, one.censored)
            for response, one in record.responses.items()
        ]
        groups.append((before, told or [(None,) * 6]))
    return TidyTable((*_OF_TRIALS[:6], *names, *_OF_TRIALS[6:]), groups)


def _table_of_blocks(report: "ReportInput") -> TidyTable:
    factors = list_factors(report.manifest.plan)
    groups: list[tuple[Row, Sequence[Row]]] = []
    for one in report.analysis.contrasts:
        named = f"{format_assignment(one.treatment)} against {format_assignment(one.reference)}"
        before = (one.workload, one.response, named, one.primary)
        levels = (one.treatment.get(factor) for factor in factors)
        rows = [
            (
                *(pair.block, pair.attempt, pair.treatment, pair.reference),
                *(pair.treatment_censored, pair.reference_censored, one.unit, one.better, one.scale),
            )
            for pair in one.pairs
        ]
        groups.append(((*before, *levels), rows))
    return TidyTable((*_OF_BLOCKS[:4], *_name_factors(factors, _OF_BLOCKS), *_OF_BLOCKS[4:]), groups)


def _rows_of_contrasts(report: "ReportInput") -> Iterator[Row]:
    for one in report.analysis.contrasts:
        low, high = one.interval or (None, None)
        failed = one.failures
        yield (
            *(one.workload, one.response, format_assignment(one.treatment), format_assignment(one.reference)),
            *(one.primary, one.blocks),
            *((failed.treatment + failed.both, failed.reference + failed.both) if failed else (0, 0)),
            *(one.difference if one.ratio is None else one.ratio, low, high, one.level, one.p),
            *(one.verdict.value, one.reason, one.unit, one.better, one.scale),
            " ".join(dict.fromkeys(warning.code for warning in one.warnings)),
        )


def list_factors(plan: Plan) -> list[str]:
    """In the order of the study; those that only some treatments have, too."""
    return list(dict.fromkeys(factor for treatment in plan.treatments for factor in treatment))


def _name_factors(factors: Sequence[str], taken: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"factor_{factor}" if factor in taken else factor for factor in factors)


def find_columns(table: TidyTable) -> dict[str, list[Any]]:
    """Its values by column. Levels of a factor that are not all of one kind are texts, for a column has one type."""
    found = {name: [row[place] for row in table.rows] for place, name in enumerate(table.columns)}
    for name, values in found.items():
        kinds = {type(value) for value in values if value is not None}
        if kinds == {int, float}:
            found[name] = [None if value is None else float(value) for value in values]
        elif len(kinds) > 1:
            found[name] = [None if value is None else str(value) for value in values]
    return found
