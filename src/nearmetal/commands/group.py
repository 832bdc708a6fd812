"""The group of all commands: each is imported when it is asked for, and the help lists them by what they are about."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import click

EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "studies": ("nearmetal studies", "nearmetal studies quickstart > mine.toml"),
    "plan": ("nearmetal plan quickstart", "nearmetal plan ./mine.toml --set machine.memory=1GiB --blocks 20"),
    "run": (
        "nearmetal run quickstart --quick",
        "nearmetal run ./mine.toml --available -o runs/first",
        "nearmetal run ./mine.toml --gate --format md",
    ),
    "resume": ("nearmetal resume quickstart-1",),
    "ls": ("nearmetal ls", "nearmetal ls runs --json"),
    "show": ("nearmetal show quickstart-1",),
    "report": ("nearmetal report quickstart-1", "nearmetal report quickstart-1 --format md -o report.md"),
    "compare": ("nearmetal compare quickstart-1 quickstart-2", "nearmetal compare before after --gate"),
    "verify": ("nearmetal verify quickstart-1",),
    "query": ('nearmetal query "SELECT study, count(*) FROM runs GROUP BY study"',),
    "explain": ("nearmetal explain workers", "nearmetal explain busy-host", "nearmetal explain undecided"),
    "export": ("nearmetal export quickstart-1 --table blocks -o blocks.csv",),
    "up": ("nearmetal up qemu --name mine", "nearmetal up docker"),
    "exec": ("nearmetal exec mine -- uname -a",),
}

_CODES = (
    "Exit codes: 0 done; 1 done, and some trials are not ok or something is missing; 2 bad input; 3 this host cannot; "
    "4 interrupted, go on with `nearmetal resume`; 5 a gate is not met; 125 a fault of nearmetal."
)


class LazyGroup(click.Group):
    """Its commands stand by the titles of their sections: "NAME", or "NAME:MODULE" if another module declares it.

    Those of the section "" are hidden.
    """

    def __init__(self, *arguments: Any, sections: Mapping[str, Sequence[str]], **options: Any) -> None:
        super().__init__(*arguments, epilog=_CODES, **options)
        self.sections = {title: [one.partition(":")[0] for one in listed] for title, listed in sections.items()}
        self._modules = {
            one.partition(":")[0]: one.rpartition(":")[2] for listed in sections.values() for one in listed
        }

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self._modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in self._modules and cmd_name not in self.commands:
            declared = vars(import_module(f"nearmetal.commands.{self._modules[cmd_name]}")).values()
            command = next(one for one in declared if isinstance(one, click.Command) and one.name == cmd_name)
            command.epilog = _write_epilog(cmd_name)
            self.add_command(command)
        return self.commands.get(cmd_name)

    def load_commands(self) -> Mapping[str, click.Command]:
        context = click.Context(self)
        return {name: command for name in self._modules if (command := self.get_command(context, name))}

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        commands = self.load_commands()
        widest = max(map(len, commands))
        for title, names in self.sections.items():
            if title:
                with formatter.section(title):
                    rows = [(name.ljust(widest), commands[name].get_short_help_str(80)) for name in names]
                    formatter.write_dl(rows)


def _write_epilog(name: str) -> str | None:
    """Of a command that has examples."""
    if name not in EXAMPLES:
        return None
    listed = "\n".join(f"  {line}" for line in EXAMPLES[name])
    codes = f"\n\n{_CODES}" if name in ("run", "resume", "compare") else ""
    return f"\b\nExamples:\n{listed}{codes}"
