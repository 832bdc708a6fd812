"""What each site of a fleet says of the primary contrasts, whether sites agree, and what hosts in general say."""

from collections.abc import Iterator

from nearmetal.analysis.results import Contrast, OfSites, SiteEstimate
from nearmetal.report import words
from nearmetal.report.blocks import Column, Quantity, Section, Table, Value
from nearmetal.report.reading import ReportInput
from nearmetal.report.table_parts import COMPARED, list_compared, list_ends, make_columns

_LEAD = (
    "Blocks were measured on several sites, and a verdict is that of all blocks. These sites together: the site is a "
    "fixed effect, so that how far sites lie apart is no part of the scatter. Hosts in general: the unit is the site. "
    "Whether sites agree is tested by ranks of the differences (Kruskal and Wallis), among sites with three blocks or "
    "more."
)
TOGETHER = "these sites together"
IN_GENERAL = "hosts in general"


class SitesSection:
    name = "sites"
    title = "Do the sites agree?"
    order = 12

    def render(self, report: ReportInput) -> Section | None:
        compared = [one for one in report.analysis.contrasts if one.primary and one.sites is not None]
        if not compared:
            return None
        columns = (
            *COMPARED,
            Column("site"),
            Column("blocks", numeric=True),
            Column("estimate", where="page"),
            *make_columns("value", "low", "high", numeric=True, where="data"),
            Column("p that sites agree", numeric=True),
        )
        rows = tuple(row for contrast in compared for row in _make_rows(contrast, report))
        return Section(self.name, self.title, _LEAD, (Table("sites", "What each site says", columns, rows),))


def _make_rows(contrast: Contrast, report: ReportInput) -> Iterator[tuple[Value, ...]]:
    assert contrast.sites is not None
    p = contrast.sites.p
    for one in contrast.sites.each:
        yield _make_row(contrast, words.strip_controls(one.site), one.blocks, one, None, report)
    if contrast.sites.stratified is not None:
        yield _make_row(contrast, TOGETHER, contrast.blocks, contrast.sites.stratified, None, report)
    agreement = None if p is None else Quantity(p, "p")
    yield _make_row(contrast, IN_GENERAL, None, contrast.sites.in_general, agreement, report)


def _make_row(
    contrast: Contrast,
    site: str,
    blocks: int | None,
    one: SiteEstimate | OfSites,
    agreement: Value,
    report: ReportInput,
) -> tuple[Value, ...]:
    interval = one.interval if isinstance(one, OfSites) else None
    return (
        *list_compared(contrast, report),
        site,
        blocks,
        words.format_size(one.estimate, interval, contrast.scale, contrast.unit),
        *list_ends(one.estimate, interval),
        agreement,
    )


plugin = SitesSection()
