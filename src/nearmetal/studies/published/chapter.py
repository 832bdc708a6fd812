"""What the source of a built-in study printed: its figures as they stand there, what we assume, what is odd."""

from collections.abc import Iterable, Mapping

from nearmetal.model import Level
from nearmetal.report import figures, words
from nearmetal.report.blocks import Block, Column, Table, Terms, Value
from nearmetal.report.report_input import Contents, ReportInput
from nearmetal.report.table_parts import make_columns
from nearmetal.studies.published.figures import PublishedStudy, PublishedTable
from nearmetal.studies.published.study_chapter import StudyChapter

_LEAD = (
    "The published study that this one replicates, in its own figures. They were measured on other machines at another "
    "time, so only what is relative can be held against what was measured here."
)


def _render(_: ReportInput, found: PublishedStudy) -> Contents:
    blocks: list[Block] = [Terms(tuple(_list_terms(found)))]
    blocks += [_make_table(table, found) for table in found.tables]
    if found.statements:
        columns = (
            *make_columns("what", "of"),
            Column("printed", numeric=True),
            *make_columns("unit", "kind", "remark"),
        )
        rows = tuple(
            (
                words.strip_controls(statement.what),
                ", ".join(_name_level(name, level) for name, level in statement.at.items()) or "all",
                f"{statement.low:g}" if statement.low == statement.high else f"{statement.low:g} to {statement.high:g}",
                statement.unit,
                statement.kind,
                statement.remark or None,
            )
            for statement in found.statements
        )
        blocks.append(Table("published-text", "Figures in its text", columns, rows, folded=True))
    return _LEAD, blocks


def _list_terms(found: PublishedStudy) -> Iterable[tuple[str, str]]:
    source = found.source
    told = [f"{', '.join(source.authors)}: {source.title}", source.institution, source.date, source.reference]
    yield "Source", ", ".join(part for part in told if part) + "."
    named = {"It found": found.conclusions, "We assume": found.assumptions, "Odd in it": found.oddities}
    yield from ((name, " ".join(sentences)) for name, sentences in named.items() if sentences)


def _make_table(table: PublishedTable, found: PublishedStudy) -> Table:
    """One row a figure; several values of a cell stand in one column, as printed."""
    levels = list(dict.fromkeys(name for figure in table.figures for name in figure.at))
    columns = (
        *(Column(name) for name in levels),
        Column("printed", numeric=True),
        Column("unit"),
        Column("mean in SI", numeric=True, where="data"),
        Column("SI unit", where="data"),
    )
    rows: list[tuple[Value, ...]] = []
    for figure in table.figures:
        unit, in_si = figure.unit or table.unit, found.convert_to_si(table, figure)
        at = (_show_level(figure.at, name) for name in levels)
        # "883 ± 0", "936.9, 936.87, …".
        text = ", ".join(f"{value:g}" if value.is_integer() else repr(value) for value in figure.values)
        printed = text if figure.spread is None else f"{text} ± {figure.spread:g}"
        rows.append((*at, printed, unit, sum(in_si) / len(in_si), found.units[unit].si))
    number = f"Table {table.number}: " if table.number else ""
    return Table(f"published-{table.name}", f"{number}{table.title}", columns, tuple(rows), folded=True)


def _show_level(at: Mapping[str, Level], name: str) -> Value:
    level = at.get(name)
    return ("on" if level else "off") if isinstance(level, bool) else level


def _name_level(name: str, level: Level) -> str:
    """ "bare metal", "1 client", "4 clients"; what is counted has its plural for a name."""
    if name == "environment":
        return str(level)
    return figures.format_count(level, name.removesuffix("s"), name) if isinstance(level, int) else f"{level} {name}"


plugin = StudyChapter("published", "As published", 45, _render, folder=None)
