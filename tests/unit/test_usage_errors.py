"""Arguments that the command line does not take: what, where and the remedy, as for everything else that is wrong."""

import re
import sys

import click
import pytest

from nearmetal import cli
from nearmetal.console import usage_errors


def refused(words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    monkeypatch.setattr(sys, "argv", ["nearmetal", *words.split()])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    printed = capsys.readouterr()
    assert (ended.value.code, printed.out) == (2, "")
    return printed.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("dashboard --port abc", "dashboard --port: 'abc' is not a whole number from 0 to 65535"),
        ("dashboard --port", "--port takes a value\n  remedy: write --port VALUE"),
        ("run x --blocks 0", "run --blocks: 0 is not a whole number from 1 on\n  remedy: write a whole number from 1"),
        (
            "plan x --seed 1.5",
            "plan --seed: '1.5' is not a whole number\n  remedy: write a whole number; `nearmetal plan",
        ),
        ("isolate prove --seconds 99", "isolate prove --seconds: 99.0 is not a number from 0.1 to 60"),
        ("isolate prove --seconds nan", "isolate prove --seconds: 'nan' is not a number from 0.1 to 60"),
        ("isolate prove --seconds inf", "isolate prove --seconds: inf is not a number from 0.1 to 60"),
        ("isolate prove --seconds x", "isolate prove --seconds: 'x' is not a number from 0.1 to 60"),
        ("report x --format htm", "report --format: 'htm' is none of its values\n  remedy: did you mean `html`?"),
        ("report x --format pdf", "report --format: 'pdf' is none of its values\n  remedy: choose one of: html, md"),
        ("compare a b --margin 3x", "compare --margin: '3x' is not a percentage\n  remedy: write it like '2%'"),
        ("compare a b --margin 200%", "compare --margin: '200%' is not above 0 and at most 100%\n  remedy: write it"),
        ("compare a", "compare: AFTER is missing\n  remedy: write `nearmetal compare BEFORE AFTER`, or "),
        ("exec one --", "exec: COMMAND is missing\n  remedy: write: nearmetal exec [OPTIONS] NAME COMMAND"),
        ("completion csh", "completion SHELL: 'csh' is none of its values\n  remedy: choose one of: bash, zsh, fish"),
        ("worker foo", "worker: 'foo' is no address of a scheduler\n  remedy: name that of a `dask scheduler`"),
        ("worker local:4", "worker: 'local:4' is no address of a scheduler\n  remedy: name that of a `dask scheduler`"),
        ("compare a b --margin=-2%", "compare --margin: '-2%' must not be negative\n  remedy: write a percentage like"),
        ("trace", "trace: PCAP is missing\n  remedy: write: nearmetal trace [OPTIONS] PCAP..."),
        ("run a b", "run: 'b' is more than it takes\n  remedy: write: nearmetal run [OPTIONS] STUDY"),
        ("plan x --quick=3", "--quick takes no value\n  remedy: write it alone: --quick"),
        ("dashboard --prt 3", "dashboard: there is no option --prt\n  remedy: did you mean `--port`?"),
        ("ls -q", "ls: there is no option -q\n  remedy: choose one of: --json, --help"),
        ("--frob", "there is no option --frob\n  remedy: choose one of: --version, --help"),
        ("runn", "there is no command 'runn'\n  remedy: did you mean `run`?"),
        ("blokc", "there is no command 'blokc'\n  remedy: choose one of: bundle, calibrate, "),
        ("image bild", "image: there is no command 'bild'\n  remedy: did you mean `build`?"),
    ],
)
def test_what_is_wrong_is_told_with_where_and_a_remedy(
    words: str, told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(words, monkeypatch, capsys)
    assert said.startswith(f"nearmetal: {told}"), said
    assert re.fullmatch(r"nearmetal: .+\n  remedy: .+\n", said), said


def test_what_was_typed_is_not_told_again_at_any_length(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (f"dashboard --port {'x' * 5000}", "y" * 5000, f"run a {'z' * 5000}", f"--{'f' * 5000}"):
        assert len(refused(words, monkeypatch, capsys)) < 800


def test_a_group_without_a_command_shows_its_help(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused("isolate", monkeypatch, capsys).startswith("Usage: nearmetal isolate [OPTIONS] COMMAND")


def test_an_error_of_no_known_kind_is_told_as_it_is() -> None:
    told = str(usage_errors.make_refusal(click.UsageError("This is odd.")))
    assert told == "This is odd\n  remedy: `nearmetal --help` lists what there is"
    assert "no space" in str(usage_errors.make_refusal(click.FileError("x", "no space")))
