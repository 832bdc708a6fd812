"""A group of commands whose help lists them by what they are about."""

from collections.abc import Mapping, Sequence
from typing import Any

import click


class SectionedGroup(click.Group):
    """Sections by title, each of the names of commands; hidden commands stand in none."""

    def __init__(self, *arguments: Any, sections: Mapping[str, Sequence[str]], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.sections = sections

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        widest = max(map(len, self.commands))
        for title, names in self.sections.items():
            with formatter.section(title):
                rows = [(name.ljust(widest), self.commands[name].get_short_help_str(80)) for name in names]
                formatter.write_dl(rows)
