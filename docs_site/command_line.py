"""The command line as pages, from the commands themselves: one of the docs, and a man page for each command.

python -m docs_site.command_line               write docs/reference/command-line.md
python -m docs_site.command_line man FOLDER    write FOLDER/nearmetal.1, FOLDER/nearmetal-run.1, …
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from nearmetal import __version__
from nearmetal.cli import cli
from nearmetal.commands.group import EXAMPLES, LazyGroup

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "command-line.md"

CODES = (
    (0, "done"),
    (1, "done, but not all of it: some trials are invalid, failed or lost; something could not be isolated"),
    (2, "the input is wrong"),
    (3, "this host cannot; `nearmetal doctor` says why"),
    (4, "interrupted, resumable"),
    (5, "a `--gate` was not met"),
    (125, "nearmetal's own failure: of `exec`, `ssh` and `isolate exec`, which else pass on the command's own status"),
)
"""Exit codes for people."""

_HEAD = """# Command line

`nearmetal COMMAND --help` prints the same text, and so does a man page: `man nearmetal-run`.

`--json` prints one document as the last line of standard output; everything for people goes to standard error.
[json.md](../json.md) has the documents.

In a terminal, `eval "$(nearmetal completion bash)"` lets the shell complete commands, studies, runs and machines.
`nearmetal completion --help` has zsh and fish.

## Exit codes
"""


def list_commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    """The command and those below it, by their whole names. Hidden ones are for no people."""
    if not command.hidden:
        if isinstance(command, LazyGroup):
            command.load_commands()
        yield name, command
        if isinstance(command, click.Group):
            for part, below in command.commands.items():
                yield from list_commands(below, f"{name} {part}")


def render_page() -> str:
    """The page of docs/. The same commands give the same text."""
    parts = [_HEAD, "| code | meaning |\n| --- | --- |"]
    parts += [f"| {code} | {meaning} |" for code, meaning in CODES]
    assert isinstance(cli, LazyGroup)
    commands = cli.load_commands()
    for title, names in cli.sections.items():
        if not title:
            continue
        parts.append(f"\n## {title}")
        for name in names:
            parts += [_render_command(*one) for one in list_commands(commands[name], f"nearmetal {name}")]
    return "\n".join(parts) + "\n"


def _render_command(name: str, command: click.Command) -> str:
    parts = [f"\n### {name}\n", f"```text\n{_usage(name, command)}\n```", *_paragraphs(command)]
    if rows := list(_options(name, command)):
        parts += ["| option | meaning |\n| --- | --- |\n" + "\n".join(_row(option, text) for option, text in rows)]
    if examples := EXAMPLES.get(name.removeprefix("nearmetal ")):
        parts.append("```sh\n" + "\n".join(examples) + "\n```")
    return "\n\n".join(part.strip("\n") for part in parts).join(("\n", ""))


def _row(option: str, text: str) -> str:
    cells = (cell.replace("|", "\\|") for cell in (f"`{option}`", _in_markdown(text)))
    return f"| {' | '.join(cells)} |"


def _in_markdown(text: str) -> str:
    """Capitals in angle brackets, and stars, are themselves."""
    return re.sub(r"([<*])", r"\\\1", text)


def _usage(name: str, command: click.Command) -> str:
    with click.Context(command, info_name=name) as context:
        return " ".join([name, *command.collect_usage_pieces(context)])


def _paragraphs(command: click.Command) -> list[str]:
    text = re.sub(r"\n[ \t]+", "\n", (command.help or "").strip())
    return [_in_markdown(" ".join(part.split())) for part in re.split(r"\n\s*\n", text.replace("\b", ""))]


def _options(name: str, command: click.Command) -> Iterator[tuple[str, str]]:
    with click.Context(command, info_name=name) as context:
        for parameter in command.get_params(context):
            record = parameter.get_help_record(context)
            if isinstance(parameter, click.Option) and record and "--help" not in record[0]:
                yield record[0], " ".join(record[1].split())


def render_man(name: str, command: click.Command) -> str:
    """A man page, as man(7) has its macros."""
    page = name.replace(" ", "-")
    parts = [f'.TH "{page.upper()}" "1" "" "nearmetal {__version__}" "User Commands"']
    parts += [".SH NAME", f"{_in_roff(page)} \\- {_in_roff(command.get_short_help_str(200))}"]
    parts += [".SH SYNOPSIS", _in_roff(_usage(name, command))]
    parts += [".SH DESCRIPTION", "\n.PP\n".join(_in_roff(part) for part in _paragraphs(command))]
    parts += [".SH OPTIONS"] if list(_options(name, command)) else []
    for option, text in _options(name, command):
        parts += [".TP", f"\\fB{_in_roff(option)}\\fR", _in_roff(text)]
    if isinstance(command, click.Group):
        parts.append(".SH COMMANDS")
        for part, below in sorted(command.commands.items()):
            if not below.hidden:
                parts += [".TP", f"\\fB{_in_roff(f'{page}-{part}')}\\fR(1)", _in_roff(below.get_short_help_str(200))]
    if examples := EXAMPLES.get(name.removeprefix("nearmetal ")):
        parts += [".SH EXAMPLES", ".nf", *map(_in_roff, examples), ".fi"]
    parts.append(".SH EXIT STATUS")
    for code, meaning in CODES:
        parts += [".TP", str(code), _in_roff(meaning.replace("`", ""))]
    return "\n".join(parts) + "\n"


def _in_roff(text: str) -> str:
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    return f"\\&{text}" if text.startswith(".") else text


def write_man(folder: Path) -> None:
    """A page for each command into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, command in list_commands(cli, "nearmetal"):
        (folder / f"{name.replace(' ', '-')}.1").write_text(render_man(name, command), "utf-8")


if __name__ == "__main__":
    match sys.argv[1:]:
        case []:
            PAGE.write_text(render_page(), "utf-8")
        case ["man", folder]:
            write_man(Path(folder))
        case _:
            sys.exit(__doc__)
