"""The command line: its commands, and how each ends. What they take and do is in `nearmetal.commands`."""

import contextlib
import os
import sys
import threading
from typing import NoReturn

import click

from nearmetal import __version__
from nearmetal.commands.group import LazyGroup
from nearmetal.control_characters import strip_controls
from nearmetal.errors import ExitCode, LeftAtOnce, NearmetalError
from nearmetal.system import pipes, search_path

_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


def main() -> None:
    """The command line. Errors of ours become one message and their exit code; a traceback is a fault of nearmetal."""
    try:
        pipes.wait_on_full_pipes()
        search_path.widen_path()
        if os.geteuid() != 0 and sys.argv[1:2] and sys.argv[1] in _OF_ROOT:
            from nearmetal.system import user_namespace

            user_namespace.enter()
        status = _carried_out()
    except Exception as error:
        if _is_of_interruption(error):
            status = _tell_interrupted()
        else:
            sys.excepthook(type(error), error, error.__traceback__)
            status = ExitCode.OWN_FAILURE
    except KeyboardInterrupt:
        status = _tell_interrupted()
    if status == ExitCode.INTERRUPTED and any(not thread.daemon for thread in threading.enumerate()[1:]):
        _end_process(status)  # Python would wait for what goes on in them
    sys.exit(int(status or 0))


def _carried_out() -> int | None:
    """The exit code of what was asked for."""
    defect: EOFError | None = None
    try:
        status: int | None = cli.main(prog_name="nearmetal", standalone_mode=False)
    except click.exceptions.Abort as error:
        if isinstance(error.__cause__, LeftAtOnce):
            _leave_at_once()
        if isinstance(error.__cause__, EOFError):
            # click takes every one for Ctrl-D at a question, of which there are none here. Raised in here it would be
            # the context of its own consequence, and whoever follows those would go round in circles.
            defect = error.__cause__
        else:
            status = _tell_interrupted()
    except click.ClickException as error:
        from nearmetal.console import usage_errors

        if usage_errors.is_help(error):
            error.show()
        else:
            _print_complaint(str(usage_errors.make_refusal(error)))
        status = ExitCode.BAD_INPUT
    except NearmetalError as error:
        _print_complaint(str(error))
        status = error.exit_code
    except OSError as error:
        from nearmetal.system import system_errors

        _print_complaint(system_errors.in_full(error, of_run=sys.argv[1:2] in (["run"], ["resume"])))
        status = ExitCode.HOST_CANNOT
    if defect:
        raise defect
    return status


def _is_of_interruption(error: BaseException | None) -> bool:
    """Whether Ctrl-C stands behind it. While a class is made, as on import, Python makes another error of that."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _tell_interrupted() -> ExitCode:
    click.echo("nearmetal: interrupted", err=True)
    return ExitCode.INTERRUPTED


def _leave_at_once() -> NoReturn:
    """As one who is killed: an end in good order would wait for what is still under way. Ledgers know all of it."""
    with contextlib.suppress(OSError):
        click.echo("nearmetal: left at once; what is not put right yet: nearmetal clean", err=True)
    _end_process(ExitCode.INTERRUPTED)


def _end_process(status: int) -> NoReturn:
    """Wait for nothing."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)


def _print_complaint(text: str) -> None:
    """On stderr; folded between words where that is a terminal. What machines said is in it, and steers none."""
    text = f"nearmetal: {strip_controls(text)}"
    if sys.stderr.isatty():
        from nearmetal.console.printing import fold_text

        text = fold_text(text)
    click.echo(text, err=True)


_OF_ROOT = (
    *("plan", "run", "resume", "demo", "calibrate", "image", "doctor", "clean"),
    *("up", "exec", "ssh", "cp", "down"),
)
"""Commands that make machines, see them or remove them: an ordinary user is root in a namespace meanwhile."""

_SECTIONS = {
    "Studies": ("studies", "plan:studies", "run:studies", "resume:studies", "demo", "worker:fleet"),
    "Runs": ("ls:runs", "show:runs", "report:runs", "compare", "verify:runs", "dashboard"),
    "Data": ("query", "export", "bundle", "trace"),
    "Machines": ("up:by_hand", "exec:by_hand", "ssh:by_hand", "cp:by_hand", "down:by_hand", "image"),
    "This host": ("doctor", "calibrate", "isolate", "clean"),
    "Tools": ("explain", "load:trace", "completion"),
    "": ("block:fleet",),
}
"""Commands by section, each with its module of `nearmetal.commands` if that has another name. People see no ""."""


@click.group(cls=LazyGroup, sections=_SECTIONS, context_settings=_CONTEXT)
@click.version_option(__version__)
def cli() -> None:
    """What does this way of virtualizing cost me, for this workload, and can I trust the answer?

    Start with `nearmetal doctor`, then `nearmetal run quickstart`.
    """
