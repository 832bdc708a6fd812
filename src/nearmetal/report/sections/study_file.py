"""The study file, letter by letter."""

from nearmetal.report import words
from nearmetal.report.blocks import Section, Source
from nearmetal.report.reading import ReportInput


class StudyFile:
    name = "study-file"
    title = "The study file"
    order = 80

    def render(self, report: ReportInput) -> Section:
        lead = "What was asked, as it was written. It is all that is needed to run the study elsewhere."
        return Section(self.name, self.title, lead, (Source(words.strip_controls(report.manifest.source)),))


plugin = StudyFile()
