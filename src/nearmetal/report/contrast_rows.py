"""What the rows of a table about contrasts begin with: what is compared. Pure."""

import math

from nearmetal.analysis.results import Contrast
from nearmetal.report import figures, words
from nearmetal.report.blocks import Column, Value
from nearmetal.report.reading import ReportInput

COMPARED = (
    Column("workload"),
    Column("response"),
    Column("comparison", where="page"),
    Column("treatment", where="data"),
    Column("reference", where="data"),
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


def make_end(value: float | None) -> Value:
    """An estimate or an end of an interval, for programs."""
    return figures.UNBOUNDED if value is not None and math.isinf(value) else value
