"""The report as Markdown, and its tables as CSV."""

import csv
import io
import re
from collections.abc import Sequence

from nearmetal.report import blocks, table_values, words

_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~!&])")


def comma_separated(table: blocks.Table) -> str:
    """One header line, one line a row, numbers in full."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    columns = table_values.list_columns(table, "data")
    writer.writerow(table_values.write_value(column.title) for _, column in columns)
    writer.writerows([table_values.write_value(row[index]) for index, _ in columns] for row in table.rows)
    return out.getvalue()


def render_markdown(title: str, question: str, sections: Sequence[blocks.Section]) -> str:
    parts = [f"# {escape_markdown(title)}", escape_markdown(question)]
    for section in sections:
        parts += [f"## {escape_markdown(section.title)}", escape_markdown(section.lead)]
        parts += [_render_block(block) for block in section.blocks]
    return "\n\n".join(part for part in parts if part) + "\n"


def _render_block(block: blocks.Block) -> str:
    match block:
        case blocks.Paragraph(text):
            return escape_markdown(text)
        case blocks.Notice(text, tone=tone, items=items):
            listed = (f"> - **{escape_markdown(term)}** {escape_markdown(told)}" for term, told in items)
            return "\n".join((f"> **{tone.title()}:** {escape_markdown(text)}", *(">" for _ in items[:1]), *listed))
        case blocks.Statements(items):
            return "\n".join(map(_render_statement, items))
        case blocks.Terms(items):
            return "\n".join(f"- **{escape_markdown(term)}**: {escape_markdown(text)}" for term, text in items)
        case blocks.Source(text):
            fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
            return f"{fence}\n{words.strip_controls(text).rstrip()}\n{fence}"
        case blocks.Chart():
            pictures = "\n".join(
                f"![{escape_markdown(panel.name)}](report/{picture_name(block, panel.name)}.svg)"
                for panel in block.panels
            )
            return f"{pictures}\n\n{escape_markdown(block.caption)}"
        case blocks.Table():
            return "" if block.where == "data" else _render_table(block)


def _render_statement(item: blocks.Statement) -> str:
    """A line for each sentence, after its verdict, and one for the small print of all."""
    first = f"{item.about}: {item.text}" if item.about else item.text
    sentences = ((first, item.badge), *item.also)
    lines = [f"- **{escape_markdown(badge.text)}** {escape_markdown(text)}" for text, badge in sentences]
    return "\n".join([*lines, *([f"- ({escape_markdown(item.detail)})"] if item.detail else [])])


def picture_name(chart: blocks.Chart, panel: str) -> str:
    """A picture's file name without its ending."""
    return file_name(f"{chart.name}-{panel}" if len(chart.panels) > 1 else chart.name)


def file_name(name: str) -> str:
    """A name from a study as a file name: it cannot leave its folder, nor hide."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).lstrip(".-") or "unnamed"


def _render_table(table: blocks.Table) -> str:
    columns = table_values.list_columns(table, "page")
    lines = [
        f"**{escape_markdown(table.caption)}**\n",
        "| " + " | ".join(escape_markdown(column.title) for _, column in columns) + " |",
        "| " + " | ".join("---:" if column.numeric else "---" for _, column in columns) + " |",
    ]
    lines += [
        "| " + " | ".join(escape_markdown(table_values.show_value(row[index])) for index, _ in columns) + " |"
        for row in table.rows
    ]
    return "\n".join(lines)


def escape_markdown(text: str) -> str:
    """On one line, and with nothing that Markdown or HTML would act on."""
    return _MARKDOWN.sub(r"\\\1", " ".join(words.strip_controls(text).split()))
