"""Arguments that the command line does not take, told as our other errors are: what, where and the remedy."""

import re
from collections.abc import Iterable

import click

from nearmetal.errors import BadInput
from nearmetal.spelling import did_you_mean
from nearmetal.study.key_paths import cut_text

_SHOWN = 200
"""Characters of what was typed that are told again."""


_FEW = 3
"""So many values are listed, rather than one guessed."""


def is_help(error: click.ClickException) -> bool:
    """Whether nothing was asked for, for which a group of commands shows its help."""
    return type(error).__name__ == "NoArgsIsHelpError"  # older versions of the library show it themselves


def make_refusal(error: click.ClickException) -> BadInput:
    """The parser's error in our words; what it says of a kind that is not known here is kept."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    command = context.command_path if context else "nearmetal"
    where = command.removeprefix("nearmetal").strip()
    match error:
        case click.MissingParameter():
            return BadInput(f"{_name_parameter(error.param)} is missing", where, _show_usage(context))
        case click.BadParameter():
            return _refuse_value(error, f"{where} {_name_parameter(error.param)}".strip(), command)
        case click.NoSuchOption():
            options = _list_options(context)
            return BadInput(
                f"there is no option {_shorten_text(error.option_name)}",
                where,
                _suggest_like(error.option_name, options),
            )
        case click.BadOptionUsage():
            name = error.option_name
            if "requires" not in error.message:
                return BadInput(f"{name} takes no value", where, f"write it alone: {name}")
            return BadInput(f"{name} takes a value", where, f"write {name} VALUE; --help says what it may be")
    if (found := re.match(r"No such command '(.*?)'\.", error.message, re.DOTALL)) and context:
        return BadInput(
            f"there is no command {_shorten_text(found[1])!r}", where, _suggest_like(found[1], _list_commands(context))
        )
    if found := re.search(r"unexpected extra arguments? \((.*)\)", error.message, re.DOTALL):
        return BadInput(f"{_shorten_text(found[1])!r} is more than it takes", where, _show_usage(context))
    return BadInput(error.message.strip().rstrip("."), where, _show_usage(context))


def _refuse_value(error: click.BadParameter, where: str, command: str) -> BadInput:
    """Of a value that an option or argument cannot have: what it is not, by the parameter's type."""
    help_ = f"`{command} --help` says more"
    kind = error.param.type if error.param else None
    given = _shorten_text(re.split(r" is not | cannot ", error.message)[0])
    if isinstance(kind, click.Choice):
        choices = [str(choice) for choice in kind.choices]
        word = given.strip("'") if len(choices) > _FEW else ""
        return BadInput(f"{given} is none of its values", where, did_you_mean(word, choices, "choose one of"))
    if number := _describe_number(kind):
        return BadInput(f"{given} is not {number}", where, f"write {number}; {help_}")
    if isinstance(kind, click.Path):
        return BadInput(error.message[:1].lower() + error.message[1:].rstrip("."), where, "name one that you may read")
    what, _, remedy = error.message.partition("; ")
    return BadInput(what.rstrip("."), where, remedy or help_)


def _describe_number(kind: object) -> str:
    """ "a whole number from 0 to 65535"; "" of what is none."""
    if not isinstance(kind, click.types.IntParamType | click.types.FloatParamType):
        return ""
    number = "a whole number" if isinstance(kind, click.types.IntParamType) else "a number"
    low, high = getattr(kind, "min", None), getattr(kind, "max", None)
    if low is not None and high is not None:
        return f"{number} from {low:g} to {high:g}"
    return number if low is None else f"{number} from {low:g} on"


def _name_parameter(parameter: click.Parameter | None) -> str:
    """Its longest name, as it is typed; an argument's in capitals, as the usage has it."""
    if parameter is None:
        return "an argument"
    if isinstance(parameter, click.Argument):
        return (parameter.metavar or parameter.name or "").removesuffix("...").upper()
    return max(parameter.opts, key=len)


def _list_options(context: click.Context | None) -> Iterable[str]:
    parameters = context.command.get_params(context) if context else []
    return [name for one in parameters for name in one.opts if name.startswith("--")]


def _list_commands(context: click.Context) -> Iterable[str]:
    """Those that are there for people."""
    group = context.command
    if isinstance(group, click.Group):
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            if command is not None and not command.hidden:
                yield name


def _suggest_like(word: str, choices: Iterable[str]) -> str:
    return did_you_mean(word, choices, "choose one of")


def _show_usage(context: click.Context | None) -> str:
    if context is None:
        return "`nearmetal --help` lists what there is"
    words = " ".join([context.command_path, *context.command.collect_usage_pieces(context)])
    return f"write: {words}"


def _shorten_text(text: str) -> str:
    return cut_text(text, _SHOWN)
