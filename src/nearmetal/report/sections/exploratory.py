"""Everything else that was compared: labelled as what it is, a source of questions and no answer."""

from nearmetal.report.blocks import Section
from nearmetal.report.reading import ReportInput
from nearmetal.report.sections.verdicts import contrast_table

_LEAD = (
    "Responses the study did not name beforehand. With this many comparisons some look different by chance alone: take "
    "them as hints for the next study, not as findings."
)


class Exploratory:
    name = "exploratory"
    title = "Exploratory comparisons"
    order = 40

    def render(self, report: ReportInput) -> Section | None:
        contrasts = [contrast for contrast in report.analysis.contrasts if not contrast.primary]
        if not contrasts:
            return None
        table = contrast_table("exploratory", "Exploratory, not verdicts", contrasts, report, folded=len(contrasts) > 30)
        return Section(self.name, self.title, _LEAD, (table,))


plugin = Exploratory()
