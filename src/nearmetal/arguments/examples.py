"""What `--help` ends with: examples of each command, and what exit codes mean."""

from collections.abc import Mapping

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
    "explain": ("nearmetal explain workers", "nearmetal explain busy-host"),
    "export": ("nearmetal export quickstart-1 --table blocks -o blocks.csv",),
    "up": ("nearmetal up qemu --name mine", "nearmetal up docker"),
    "exec": ("nearmetal exec mine -- uname -a",),
}

_CODES = (
    "Exit codes: 0 done; 1 done, and some trials are not ok or something is missing; 2 bad input; 3 this host cannot; "
    "4 interrupted, go on with `nearmetal resume`; 5 a gate is not met; 125 a fault of nearmetal."
)


def write_epilogs(group: click.Group) -> None:
    """On the group and each of its commands that has examples."""
    group.epilog = _CODES
    for name, lines in EXAMPLES.items():
        listed = "\n".join(f"  {line}" for line in lines)
        codes = f"\n\n{_CODES}" if name in ("run", "resume", "compare") else ""
        group.commands[name].epilog = f"\b\nExamples:\n{listed}{codes}"
