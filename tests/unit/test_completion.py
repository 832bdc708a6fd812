"""What a shell offers to complete, and how the help lists commands."""

import re
import subprocess
from pathlib import Path

import pytest

from nearmetal.cli import cli
from tests.command_line import called

GOLDEN = Path(__file__).parents[1] / "golden" / "run"


def offered(*words: str) -> set[str]:
    """As bash asks: the last word has begun."""
    asked = {
        "_NEARMETAL_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(("nearmetal", *words)),
        "COMP_CWORD": str(len(words)),
    }
    ended = called(environment=asked)
    return {line.partition(",")[2] for line in ended.stdout.splitlines() if line}


def test_commands_options_and_studies_are_offered() -> None:
    assert {"report", "resume"} <= offered("re")
    assert offered("run", "qui") == {"quickstart"}
    assert "--seed" in offered("plan", "--se")
    assert offered("blo") == set(), "which is for no people"


def test_runs_that_are_known_are_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEARMETAL_HOME", str(tmp_path))
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "one").symlink_to(GOLDEN)
    assert str(tmp_path / "runs" / "one") in offered("report", str(tmp_path))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_is_printed_for_each_shell(shell: str) -> None:
    assert "_NEARMETAL_COMPLETE" in called("completion", shell).stdout


def test_bash_takes_it() -> None:
    script = called("completion", "bash").stdout
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def test_the_help_lists_each_command_once() -> None:
    listed = re.findall(r"^  ([a-z]+)  ", called("--help").stdout.partition("\nStudies:")[2], re.MULTILINE)
    assert sorted(listed) == sorted(name for name, command in cli.load_commands().items() if not command.hidden)
