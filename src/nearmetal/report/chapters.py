"""The chapters of a report, each by its plugin. Where one breaks a notice stands in its place; the rest is whole.

So it is with a chart that cannot be drawn.
"""

import math
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from nearmetal import plugins
from nearmetal.control_characters import strip_controls
from nearmetal.errors import NearmetalError, ToolFailed, message_of
from nearmetal.progress_messages import Say
from nearmetal.report import figures, formats
from nearmetal.report.blocks import Block, Chart, Notice, Paragraph, Section, Source, Table
from nearmetal.report.drawing import INSTALL_ENGINE
from nearmetal.report.report_input import ReportInput, SectionPlugin

_TRUST = "validity"
"""The chapter whose warnings are about what the report is made of."""
_NAMED = 5

DATA_TABLES = ("trials.csv", "blocks.csv")
"""Files of a report that no section makes."""

_OF_CELLS = ("responses", "cost")
"""Chapters of what was measured. They need no analysis and have most pictures, which are drawn while it is made."""


def make_sections(
    report: ReportInput,
    say: Say | None = None,
    take: Callable[[Section], None] | None = None,
    begin_others: Callable[[], None] | None = None,
) -> list[Section]:
    """The chapters of a report, in order. `take` is given each as soon as it is there, in any order; `begin_others` is
    called before those of what is concluded from the run, once it is analysed.

    A plugin may be anybody's, and raise anything. `say` is told of one that does; where nobody listens, it goes on
    raising, so that a chapter of ours that breaks cannot pass unseen in a test.
    """
    found: list[tuple[float, str, Section]] = []
    written = dict.fromkeys(DATA_TABLES, "the report itself")

    def make(name: str) -> None:
        place, section = _make_section(name, report, say, written)
        if section is not None:
            if take is not None:
                take(section)
            found.append((place, name, section))

    # Ours come first, so that a file that two write is missed by the section of a package.
    names = sorted(plugins.list_names("sections"), key=lambda name: plugins.package_of("sections", name) is not None)
    for name in names:
        if name in _OF_CELLS:
            make(name)
    _ = report.analysis  # what it raises is no section's
    if begin_others is not None:
        begin_others()
    for name in names:
        if name not in _OF_CELLS:
            make(name)
    ordered = [section for _, _, section in sorted(found, key=lambda one: one[:2])]
    return _warn_of_unread(ordered, report.unread, say)


def _make_section(
    name: str, report: ReportInput, say: Say | None, written: dict[str, str]
) -> tuple[float, Section | None]:
    """Its place in the report, and the chapter. `written` says which section writes a file, and is added to."""
    place, title = math.inf, name  # until its plugin has told
    try:
        plugin: SectionPlugin = plugins.load("sections", name)
        place, title = float(plugin.order), str(plugin.title)
        section = plugin.render(report)
        if not isinstance(section, Section | None):
            raise TypeError(f"render gave no Section, but {type(section).__name__}")
        if section is not None:
            written |= _name_files(name, section, written)
    except Exception as error:
        if say is None:
            raise
        say(f"the section {name!r} broke, and the report is without it: {message_of(error)}")
        # What is missing, and its trace, for whoever wrote the plugin.
        told = error.what if isinstance(error, NearmetalError) else f"{name} raised {message_of(error)}"
        section = Section(
            name,
            title,
            "This section is missing: the plugin that makes it broke.",
            (
                Notice(told, "warning"),
                Source("".join(traceback.format_exception(error))),
            ),
        )
    return place, section


def _name_files(name: str, section: Section, written: Mapping[str, str]) -> dict[str, str]:
    """The files that a section writes. ValueError if another section writes one of them."""
    found: dict[str, str] = {}
    for block in section.blocks:
        if isinstance(block, Table) and block.where != "page":
            files = [f"{formats.file_name(block.name)}.csv"]
        elif isinstance(block, Chart):
            files = [f"{formats.picture_name(block, panel.name)}.svg" for panel in block.panels]
        else:
            continue
        for file in files:
            if owner := written.get(file):
                raise ValueError(f"the {block.kind} {block.name!r} would write {file}, which {owner} writes already")
            found[file] = f"the section {name!r}"
    return found


def _warn_of_unread(sections: Sequence[Section], unread: Mapping[str, str], say: Say | None) -> list[Section]:
    """The chapters, with a notice in that of what can be trusted, or the first, if files of trials were asked for in
    vain by any of them."""
    if not unread or not sections:
        return list(sections)
    named = [f"{strip_controls(path)}: {why}" for path, why in sorted(unread.items())[:_NAMED]]
    more = len(unread) - len(named)
    count = figures.format_count(len(unread), "file of a trial is", "files of trials are")
    them = "it" if len(unread) == 1 else "them"
    listed = "; ".join([*named, *([f"and {more} more"] if more else [])])
    text = f"{count} not as recorded, and nothing here is made of {them}. {listed}"
    if say is not None:
        say(text)
    place = next((index for index, section in enumerate(sections) if section.name == _TRUST), 0)
    told = replace(sections[place], blocks=(Notice(text, "warning"), *sections[place].blocks))
    return [*sections[:place], told, *sections[place + 1 :]]


def without_charts(sections: Sequence[Section], why: Mapping[str, str], say: Say | None) -> list[Section]:
    """The chapters, with a notice instead of each chart in `why`. `say` is told of each; without it, ToolFailed."""
    for name, reason in why.items():
        text = f"the chart {name!r} cannot be drawn, and the report is without it: {reason}"
        if say is None:
            raise ToolFailed(text, "report")
        say(text)
    return [
        replace(section, blocks=tuple(_replace_chart(block, why) for block in section.blocks)) for section in sections
    ]


def describe_charts(sections: Sequence[Section], say: Say | None = None) -> list[Section]:
    """The chapters with the description of each chart in its place, for hosts without an engine that draws.

    `say` is told how to get pictures; so is the reader, above the first chart.
    """
    is_told = False
    described: list[Section] = []
    for section in sections:
        blocks: list[Block] = []
        for block in section.blocks:
            if not isinstance(block, Chart):
                blocks.append(block)
                continue
            if not is_told:
                blocks.append(
                    Notice(f"This page has no pictures, and describes each instead. For them: {INSTALL_ENGINE}")
                )
                is_told = True
            blocks.append(Paragraph(f"{block.caption.rstrip('.')}. {block.description}"))
        described.append(replace(section, blocks=tuple(blocks)))
    if is_told and say is not None:
        say(f"the report describes its pictures instead of showing them; for pictures: {INSTALL_ENGINE}")
    return described


def _replace_chart(block: Block, why: Mapping[str, str]) -> Block:
    if not isinstance(block, Chart) or block.name not in why:
        return block
    return Notice(f"The chart {block.name} is missing, for it cannot be drawn: {why[block.name]}", "warning")
