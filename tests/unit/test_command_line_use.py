"""How the command line is used: short names of runs, examples, exit codes."""

import shlex
from pathlib import Path

import pytest

from nearmetal import cli
from nearmetal.commands.group import EXAMPLES
from nearmetal.config import Paths
from nearmetal.errors import ExitCode
from nearmetal.store import runs
from tests import plausible_run
from tests.command_line import called

pytestmark = pytest.mark.usefixtures("one_picture")


@pytest.mark.parametrize("command", sorted(EXAMPLES))
def test_examples_in_the_help_are_such_as_the_command_takes(command: str) -> None:
    told = called(command, "--help").stdout
    for example in EXAMPLES[command]:
        assert example in told
        program, name, *words = shlex.split(example.partition(" > ")[0])
        assert (program, name) == ("nearmetal", command)
        cli.cli.load_commands()[command].make_context(command, list(words))


def test_the_help_tells_exit_codes() -> None:
    for words in ((), ("run",)):
        told = " ".join(called(*words, "--help").stdout.split("Exit codes:")[1].split())
        assert all(f"{int(code)} " in told for code in ExitCode), told


def test_a_run_is_named_by_its_folders_name(tmp_path: Path) -> None:
    made = plausible_run.make(tmp_path / "elsewhere" / "quickstart-1", blocks=6, faults=False)
    home = {"NEARMETAL_HOME": str(tmp_path / "home")}
    assert called("show", "quickstart-1", environment=home, cwd=tmp_path).returncode == 2
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("NEARMETAL_HOME", home["NEARMETAL_HOME"])
        runs.remember_run(made.path, Paths.default().state)
    by_folder = called("show", str(made.path), environment=home)
    for words in (("show", "quickstart-1"), ("export", "quickstart-1"), ("report", "quickstart-1", "--format", "md")):
        assert called(*words, environment=home, cwd=tmp_path).returncode == 0
    assert called("show", "quickstart-1", environment=home, cwd=tmp_path).stdout == by_folder.stdout
    twin = plausible_run.make(tmp_path / "again" / "quickstart-1", blocks=6, faults=False)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("NEARMETAL_HOME", home["NEARMETAL_HOME"])
        runs.remember_run(twin.path, Paths.default().state)
    refused = called("show", "quickstart-1", environment=home, cwd=tmp_path)
    assert refused.returncode == 2 and "2 runs have this name" in refused.stderr and str(twin.path) in refused.stderr
