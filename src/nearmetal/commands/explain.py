"""What the manual says of a word that people meet: a key of a study, a warning, a response, a verdict."""

import difflib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

from nearmetal.control_characters import strip_controls
from nearmetal.errors import BadInput

if TYPE_CHECKING:
    from nearmetal.console.manual import ManualEntry

_SHOWN = 200
_COMPARED = 100
"""Characters of an unknown word that are looked at."""
_OFFERED = 4


@click.command(short_help="Explain a key, a warning, a verdict, a word of reports.")
@click.argument("word", nargs=-1, required=True)
def explain(word: tuple[str, ...]) -> None:
    """Explain a key of a study, a warning, a response, a verdict, a status, or a word of reports.

    As the manual has it: nearmetal explain workers, nearmetal explain busy-host, nearmetal explain undecided.
    """
    from nearmetal.console.manual import find_entries, lead_to_pages, read_entries
    from nearmetal.console.printing import folded_for_stdout

    entries = read_entries()
    asked = " ".join(word)
    found, unknown = find_entries(entries, asked), asked
    if not found:
        found, unknown = _find_each(entries, asked)
    if not found:
        if not entries:
            raise BadInput("the manual is not there", "explain", "read docs/ of nearmetal's source")
        known = (name for one in entries for name in one.words)
        raise BadInput(f"the manual has no {unknown[:_SHOWN]!r}", "explain", _suggest_words(unknown, known))
    for place, one in enumerate(found):
        lines = [f"{', '.join(one.words)}  ({one.heading}: docs/{one.page})"]
        lines += [f"  {f'{column}: ' if column else ''}{cell}" for column, cell in one.about]
        click.echo(("\n" if place else "") + strip_controls(folded_for_stdout(lead_to_pages("\n".join(lines)))))


def _find_each(entries: Sequence["ManualEntry"], asked: str) -> tuple[list["ManualEntry"], str]:
    """Of several words, as a verdict ("different, worse") or a list of warnings is printed; and what is unknown of
    them, for which the list is empty."""
    from nearmetal.console.manual import find_entries

    found = {part: find_entries(entries, part) for part in asked.replace(",", " ").split()}
    if all(found.values()):
        return list(dict.fromkeys(one for part in found.values() for one in part)), ""
    unknown = [part for part, entry in found.items() if not entry]
    return [], asked if len(unknown) == len(found) else " ".join(unknown)


def _suggest_words(asked: str, known: Iterable[str]) -> str:
    """The words that it may have been meant for: with it as a part, then those that are spelt alike."""
    from nearmetal.console.manual import fold_word

    spelt = {fold_word(name): name for name in sorted(known)}
    meant = fold_word(asked[:_COMPARED])
    parts = [name for name in spelt if meant in name.split("-")]
    near = list(dict.fromkeys([*parts, *difflib.get_close_matches(meant, spelt, _OFFERED, 0.7)]))[:_OFFERED]
    if near:
        return f"did you mean {' or '.join(f'`{spelt[name]}`' for name in near)}?"
    return "name a key, a warning, a response or a verdict, such as margin, busy-host, throughput or undecided"
