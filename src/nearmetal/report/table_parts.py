"""What tables are put together from: columns, what a row is about, and figures that may be missing. Pure."""

import math
from typing import Literal

from nearmetal.analysis import single_arm
from nearmetal.analysis.results import Cell, Contrast
from nearmetal.model import Assignment
from nearmetal.report import figures, words
from nearmetal.report.blocks import Column, Quantity, Value
from nearmetal.report.report_input import ReportInput


def make_columns(
    *titles: str, numeric: bool = False, where: Literal["both", "page", "data"] = "both"
) -> tuple[Column, ...]:
    """Columns that differ in their titles alone."""
    return tuple(Column(title, numeric, where) for title in titles)


COMPARED = (
    *make_columns("workload", "response"),
    Column("comparison", where="page"),
    *make_columns("treatment", "reference", where="data"),
)


def list_compared(contrast: Contrast, report: ReportInput) -> tuple[Value, ...]:
    """The cells of `COMPARED`: people read both sides in one, programs in two."""
    return (
        words.name_workload(contrast.workload),
        report.labels.name_response(contrast.workload, contrast.response),
        report.labels.name_versus(contrast),
        report.labels.name_treatment(contrast.treatment),
        report.labels.name_treatment(contrast.reference),
    )


def list_arm(workload: str, treatment: Assignment, report: ReportInput) -> tuple[str, str]:
    """What one treatment did under one workload begins with these two names."""
    return words.name_workload(workload), report.labels.name_treatment(treatment)


def make_end(value: float | None) -> Value:
    """An estimate or an end of an interval, for programs."""
    return figures.UNBOUNDED if value is not None and math.isinf(value) else value


def list_ends(estimate: float | None, interval: tuple[float, float] | None) -> tuple[Value, ...]:
    """An estimate and both ends of its interval, for programs."""
    low, high = interval or (None, None)
    return make_end(estimate), make_end(low), make_end(high)


def make_quantity(value: float | None, unit: str) -> Quantity | None:
    """None of what is not known."""
    return None if value is None else Quantity(value, unit)


def list_centre(cell: Cell, report: ReportInput) -> tuple[Quantity | None, ...]:
    """The centre of a treatment's blocks, and both ends of its interval."""
    found = single_arm.estimate_centre(cell, report.manifest.study.design.alpha)
    return tuple(make_quantity(value, cell.unit) for value in (found.estimate, *(found.interval or (None, None))))
