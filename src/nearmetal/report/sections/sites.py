"""What each site of a fleet says of the primary contrasts, whether sites agree, and what hosts in general say."""

from collections.abc import Iterator

from nearmetal.analysis.results import Contrast, OfSites, SiteEstimate
from nearmetal.report import words
from nearmetal.report.blocks import Column, Table, Value
from nearmetal.report.report_input import BuiltInSection, Contents, ReportInput
from nearmetal.report.table_parts import COMPARED, list_compared, list_ends, make_columns, make_quantity

_LEAD = (
    "Blocks were measured on several sites, and a verdict is that of all blocks. These sites together: the site is a "
    "fixed effect, so that how far sites lie apart is no part of the scatter. Hosts in general: the unit is the site. "
    "Whether sites agree is tested by ranks of the differences (Kruskal and Wallis), among sites with three blocks or "
    "more."
)
TOGETHER = "these sites together"
IN_GENERAL = "hosts in general"


def _render(report: ReportInput) -> Contents | None:
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
    return _LEAD, (Table("sites", "Each site by itself", columns, rows),)


def _make_rows(contrast: Contrast, report: ReportInput) -> Iterator[tuple[Value, ...]]:
    found = contrast.sites
    assert found is not None
    told: list[tuple[str, int | None, SiteEstimate | OfSites, Value]] = [
        (words.strip_controls(one.site), one.blocks, one, None) for one in found.each
    ]
    if found.stratified is not None:
        told.append((TOGETHER, contrast.blocks, found.stratified, None))
    told.append((IN_GENERAL, None, found.in_general, make_quantity(found.p, "p")))
    for site, blocks, one, agreement in told:
        interval = one.interval if isinstance(one, OfSites) else None
        size = words.format_size(one.estimate, interval, contrast.scale, contrast.unit)
        yield *list_compared(contrast, report), site, blocks, size, *list_ends(one.estimate, interval), agreement


plugin = BuiltInSection("sites", "Do the sites agree?", 12, _render)
