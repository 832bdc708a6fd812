"""The report's section `hashing`: for each treatment, the fastest and the slowest trial of the workload `sha`."""

from nearmetal.model import TrialStatus
from nearmetal.report.api import Column, Quantity, ReportInput, Section, SectionPlugin, Table


class Hashing:
    name = "hashing"
    title = "Hashing"
    order = 45

    def render(self, report: ReportInput) -> Section | None:
        rows = []
        for treatment in report.manifest.plan.treatments:
            speeds = [
                record.responses["hashed"].value
                for record in report.records
                if record.trial.treatment == treatment
                and record.status is TrialStatus.OK
                and "hashed" in record.responses
            ]
            if speeds:
                label = report.labels.name_treatment(treatment)
                rows.append((label, Quantity(max(speeds), "B/s"), Quantity(min(speeds), "B/s")))
        if not rows:
            return None
        columns = (Column("treatment"), Column("fastest", numeric=True), Column("slowest", numeric=True))
        table = Table("hashing", "Bytes hashed in a second", columns, tuple(rows))
        return Section(self.name, self.title, "How far apart the trials of one treatment lie.", (table,))


plugin: SectionPlugin = Hashing()
