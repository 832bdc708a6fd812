"""A chapter that stands in reports of the built-in studies of one folder, beside what was published of them."""

from collections.abc import Callable
from dataclasses import dataclass

from nearmetal import studies
from nearmetal.report.blocks import Section
from nearmetal.report.report_input import Contents, ReportInput
from nearmetal.studies.published.figures import PublishedStudy, find_published


@dataclass(frozen=True)
class StudyChapter:
    """A `SectionPlugin` that is given what was published, too."""

    name: str
    title: str
    order: int
    tell: Callable[[ReportInput, PublishedStudy], Contents | None]
    folder: str | None
    """Of its studies, below `nearmetal/studies/`; None where it is a chapter of every study that has such a folder."""

    def render(self, report: ReportInput) -> Section | None:
        """The chapter; None of other studies, and where the run has nothing to say about it."""
        study = report.manifest.study.name
        published = find_published(study)
        if published is None or self.folder not in (None, studies.find_folder(study)):
            return None
        found = self.tell(report, published)
        return None if found is None else Section(self.name, self.title, found[0], tuple(found[1]))
