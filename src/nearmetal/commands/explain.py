"""`nearmetal explain WORD`: what the manual says of a key of a study, a warning, a cause or a response."""

import click

from nearmetal.console.manual import ManualEntry, read_entries
from nearmetal.console.printing import folded_for_stdout
from nearmetal.errors import BadInput
from nearmetal.plain import strip_controls
from nearmetal.study.text import did_you_mean

_SHOWN = 200


def explain_word(word: str) -> None:
    """Print each row of the manual that is about it. BadInput if there is none."""
    entries = read_entries()
    last = word.rpartition(".")[2]
    found = [one for one in entries if word in one.words] or [one for one in entries if last in one.words]
    if not found:
        known = {name for one in entries for name in one.words}
        if not known:
            raise BadInput("the manual is not there", "explain", "read docs/ of nearmetal's source")
        remedy = did_you_mean(word, sorted(known), "name a key, a warning or a cause, such as").split(", ")[:6]
        raise BadInput(f"the manual has no {word[:_SHOWN]!r}", "explain", ", ".join(remedy))
    for place, one in enumerate(found):
        click.echo(("\n" if place else "") + strip_controls(_describe_entry(one)))


def _describe_entry(entry: ManualEntry) -> str:
    lines = [f"{', '.join(entry.words)}  ({entry.heading}: docs/{entry.page})"]
    lines += [f"  {f'{column}: ' if column else ''}{cell}" for column, cell in entry.about]
    return folded_for_stdout("\n".join(lines))
