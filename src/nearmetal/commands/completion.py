"""Completion of what is typed: the shell's script, and the studies and runs that it offers."""

from collections import Counter
from collections.abc import Iterable

import click
from click.shell_completion import CompletionItem, get_completion_class

_VARIABLE = "_NEARMETAL_COMPLETE"
"""By which a shell asks what may follow; click derives it from the program's name."""


@click.command(short_help="Print what makes a shell complete commands.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print what makes a shell complete commands, studies, runs and machines.

    bash: eval "$(nearmetal completion bash)" in ~/.bashrc. zsh: the same in ~/.zshrc. fish: nearmetal completion fish
    >~/.config/fish/completions/nearmetal.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(context.find_root().command, {}, "nearmetal", _VARIABLE).source())


def complete_study(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Built-in studies by name; others are files."""
    from nearmetal import studies

    found = complete_names(begun, studies.list_names())
    return found if found and "/" not in begun else [*found, CompletionItem(begun, type="file")]


def complete_run(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Runs that this host knows; others are folders."""
    from nearmetal.config import Paths
    from nearmetal.store import runs

    paths = Paths.default()
    known = runs.list_known(paths.runs, paths.state)
    names = Counter(place.name for place in known)
    is_name = "/" not in begun
    found = complete_names(begun, (place.name if is_name and names[place.name] == 1 else str(place) for place in known))
    return [*found, CompletionItem(begun, type="dir")]


def complete_names(begun: str, names: Iterable[str]) -> list[CompletionItem]:
    """Those that what was typed may become."""
    return [CompletionItem(name) for name in names if name.startswith(begun)]
