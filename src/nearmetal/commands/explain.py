"""What the manual says of a key of a study, a warning, a cause or a response."""

import click

from nearmetal.errors import BadInput
from nearmetal.plain import strip_controls

_SHOWN = 200


@click.command()
@click.argument("word")
def explain(word: str) -> None:
    """Explain a key of a study, a warning or a cause.

    As the manual has it: nearmetal explain workers, nearmetal explain busy-host.
    """
    from nearmetal.console.manual import read_entries
    from nearmetal.console.printing import folded_for_stdout
    from nearmetal.study.text import did_you_mean

    entries = read_entries()
    last = word.rpartition(".")[2]
    found = next(
        filter(None, ([one for one in entries if asked in one.words] for asked in (word, word.lower(), last))), []
    )
    if not found:
        known = {name for one in entries for name in one.words}
        if not known:
            raise BadInput("the manual is not there", "explain", "read docs/ of nearmetal's source")
        remedy = did_you_mean(word, sorted(known), "name a key, a warning or a cause, such as").split(", ")[:6]
        raise BadInput(f"the manual has no {word[:_SHOWN]!r}", "explain", ", ".join(remedy))
    for place, one in enumerate(found):
        lines = [f"{', '.join(one.words)}  ({one.heading}: docs/{one.page})"]
        lines += [f"  {f'{column}: ' if column else ''}{cell}" for column, cell in one.about]
        click.echo(("\n" if place else "") + strip_controls(folded_for_stdout("\n".join(lines))))
