"""The study file, letter by letter."""

from nearmetal.report import words
from nearmetal.report.blocks import Source
from nearmetal.report.report_input import BuiltInSection, Contents, ReportInput


def _render(report: ReportInput) -> Contents:
    lead = "What was asked, as it was written. It is all that is needed to run the study elsewhere."
    return lead, (Source(words.strip_controls(report.manifest.source)),)


plugin = BuiltInSection("study-file", "The study file", 80, _render)
