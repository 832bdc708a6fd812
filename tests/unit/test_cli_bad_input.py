"""Bad input on the command line: exit 2, one message on stderr with a remedy, no traceback, nothing done."""

import asyncio
import errno
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from nearmetal import cli, studies
from nearmetal.commands import image as image_commands
from nearmetal.commands import run_action
from nearmetal.commands import runs as runs_commands
from nearmetal.config import Paths
from nearmetal.errors import HostCannot, Interrupted
from nearmetal.lab import image
from nearmetal.lab.image import Recipe
from nearmetal.run.preflight import refuse_occupied_folder
from nearmetal.store.run_folder import RunFolder
from nearmetal.system import system_errors
from tests import fork_server
from tests.command_line import call, called, forked
from tests.golden.make_run import FOLDER
from tests.order import mock_run
from tests.unit.study_text import GOOD
from tests.unit.test_image_store import finished

Refused = Callable[..., str]


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Refused:
    """What a command said, in this process. Exactly one message, on stderr; a traceback would be the test's."""

    def one(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", ["nearmetal", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        printed = capsys.readouterr()
        said = printed.err
        assert ended.value.code == 2, said
        assert printed.out == ""
        assert "Traceback" not in said
        assert said.count("nearmetal: ") == 1
        assert "remedy: " in said
        return said

    return one


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "good.toml").write_text(GOOD)
    (tmp_path / "bad.toml").write_text(GOOD.replace("blocks = 6", "blocks = 0"))
    (tmp_path / "broken.toml").write_text("name = [")
    (tmp_path / "binary.toml").write_bytes(os.urandom(4096) + b"\xff\xfe")
    (tmp_path / "nul.toml").write_bytes(bytes(64))
    (tmp_path / "empty.toml").write_text("")
    (tmp_path / "run").mkdir()
    (tmp_path / "no-manifest").mkdir()
    (tmp_path / "run" / "manifest.json").write_bytes(b"\xff\x00{")
    return tmp_path


@pytest.mark.parametrize("verb", ["plan", "run"])
@pytest.mark.parametrize("study", ["bad", "broken", "binary", "nul", "empty"])
def test_a_file_that_is_no_study(refused: Refused, folder: Path, verb: str, study: str) -> None:
    if verb == "run" and study != "bad":
        return
    out = ["-o", str(folder / "out")] if verb == "run" else []
    said = refused(verb, str(folder / f"{study}.toml"), *out)
    assert str(folder / f"{study}.toml") in said
    assert not (folder / "out").exists()


@pytest.mark.parametrize(
    ("study", "told"),
    [
        (".", "this is a folder"),
        ("missing.toml", "there is no such file"),
        ("/dev/null", "this is not a regular file"),
        ("quikstart", "did you mean `quickstart`?"),
    ],
)
def test_what_is_no_file(refused: Refused, folder: Path, study: str, told: str) -> None:
    assert told in refused("plan", str(folder / study) if study != "quikstart" else study)


def test_a_study_may_have_a_mark_at_its_begin(tmp_path: Path) -> None:
    text = studies.read_study_file("quickstart")
    (tmp_path / "marked.toml").write_text(text, "utf-8-sig")
    plain = called("plan", "quickstart", "--available").stdout
    assert called("plan", str(tmp_path / "marked.toml"), "--available").stdout == plain


def test_a_dash_is_the_study_that_comes_through_stdin() -> None:
    words = ("plan", "-", "--available", "--json")
    ended = fork_server.run(*words, given=mock_run.STUDY.encode(), patience=60)
    assert json.loads(ended.stdout)["plan"]["primaries"] == {"web": "throughput"}, ended.stderr
    ended = fork_server.run(*words, given=b"name = 1", patience=60)
    assert ended.returncode == 2 and b"nearmetal: /dev/stdin:1: " in ended.stderr


@pytest.mark.parametrize("given", [b"", b"\n", None])
def test_a_dash_that_nothing_comes_through_is_told_as_that(given: bytes | None) -> None:
    if given is None:
        command = [sys.executable, "-m", "nearmetal", "plan", "-"]
        ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    else:
        ended = fork_server.run("plan", "-", given=given, patience=60)
    assert ended.returncode == 2
    assert b"nothing came through it" in ended.stderr and b"plan - <study.toml" in ended.stderr


def test_a_report_goes_to_no_place_without_a_name(refused: Refused) -> None:
    assert "the path is empty" in refused("report", str(FOLDER), "--format", "md", "-o", "")


def test_a_study_without_a_question_has_a_name_and_no_spaces_after_it(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(mock_run.STUDY)
    assert called("plan", str(tmp_path / "study.toml")).stdout.splitlines()[0] == "order"


@pytest.mark.parametrize(("option", "key"), [("--seed", "design.seed"), ("--blocks", "design . blocks")])
def test_what_two_options_would_set_is_refused(refused: Refused, option: str, key: str) -> None:
    said = refused("plan", "quickstart", option, "7", "--set", f"{key}=8")
    assert f"{option} 7 and --set {key}=8" in said


def test_an_image_that_is_not_there_is_told_with_those_that_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEARMETAL_HOME", str(tmp_path / "other"))
    finished(Paths.default().cache, Recipe(name="mine"))
    for verb in ("box", "rm"):
        ended = called("image", verb, "nosuch")
        assert (ended.returncode, "images here: mine" in ended.stderr) == (2, True)


def test_a_folder_that_is_no_run_is_told_as_that_also_where_it_is_named_twice(refused: Refused, folder: Path) -> None:
    assert "this is not a run's folder" in refused("compare", str(folder), str(folder))


def test_a_home_that_cannot_be_is_told_by_its_variable(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(mock_run.STUDY)
    ended = called("run", str(tmp_path / "study.toml"), environment={"NEARMETAL_HOME": "/proc/nope"})
    assert ended.returncode == 3
    assert "remedy: NEARMETAL_HOME is /proc/nope, which is no folder" in ended.stderr


def test_a_users_home_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/nonexistent")
    refused = PermissionError(errno.EACCES, "Permission denied", "/nonexistent/.local")
    assert system_errors.find_remedy(refused).startswith("HOME is /nonexistent, which is no folder")


def test_a_built_in_study_is_printed_as_it_is(refused: Refused) -> None:
    assert called("studies", "quickstart").stdout == studies.read_study_file("quickstart")
    assert "leave it out: nearmetal studies quickstart" in refused("studies", "quickstart", "--json")
    assert "did you mean `quickstart`?" in refused("studies", "quikstart")


def test_a_name_that_is_too_long_for_a_file(refused: Refused) -> None:
    refused("plan", "x" * 5000)


@pytest.mark.parametrize(
    "override",
    ["nonsense", "=", "machine.vcpus=0", "machine.nothing=1", "a.b.c=1", "environments.metal.runtime=runsc"],
)
def test_what_cannot_be_set(refused: Refused, folder: Path, override: str) -> None:
    assert "--set" in refused("plan", str(folder / "good.toml"), "--set", override)


@pytest.mark.parametrize("verb", ["report", "show", "resume"])
@pytest.mark.parametrize("run", ["missing", "no-manifest", "good.toml", "run"])
def test_a_folder_that_is_no_run(refused: Refused, folder: Path, verb: str, run: str) -> None:
    assert str(folder / run) in refused(verb, str(folder / run))


@pytest.mark.parametrize(
    "words", [["plan"], ["plan", "quickstart", "--blocks", "0"], ["nothing"], ["report", "x", "--format", "doc"]]
)
def test_arguments_that_are_none(words: list[str]) -> None:
    """In a process of its own: with what a person sees."""
    ended = fork_server.run(*words, patience=120)
    assert ended.returncode == 2
    assert b"Traceback" not in ended.stderr
    assert b"\n  remedy: " in ended.stderr


def test_quick_where_there_is_none(refused: Refused, folder: Path) -> None:
    (folder / "whole.toml").write_text(GOOD.replace("[quick.design]\nblocks = 2", ""))
    assert "no [quick] table" in refused("plan", str(folder / "whole.toml"), "--quick")


def test_a_terminal_is_told_in_lines_that_fit(folder: Path) -> None:
    """And whoever reads a pipe, in one line for each thing."""
    near, far = os.openpty()
    command = [sys.executable, "-m", "nearmetal", "plan", str(folder / "bad.toml")]
    try:
        with open(near, "rb", closefd=False) as terminal:
            ended = subprocess.run(command, stderr=far, env={**os.environ, "COLUMNS": "40"}, timeout=60)
            os.close(far)
            lines = iter(terminal.readline, b"")
            told = [next(lines).decode().rstrip()]
            while "remedy" not in told[-1]:
                told.append(next(lines).decode().rstrip())
    finally:
        os.close(near)
    assert ended.returncode == 2
    words = forked("plan", str(folder / "bad.toml")).stderr.split()
    assert " ".join(told).split() == words[: len(" ".join(told).split())]
    assert all(len(line) <= 40 or " " not in line.strip() for line in told) and len(told) > 2
    assert all(line.startswith("  ") for line in told[1:])


@pytest.mark.parametrize(
    ("number", "user", "remedy"),
    [
        (errno.EACCES, 1000, "give this user access to it, or run nearmetal as root"),
        (errno.EPERM, 0, "name a place that can be written to"),
        (errno.EROFS, 1000, "name a place that can be written to"),
        (errno.ENOTDIR, 0, "move what lies there out of the way: a folder belongs there"),
        (errno.ENOSPC, 0, "free some space, then give the command again"),
    ],
)
def test_what_the_system_refuses_has_a_remedy_that_helps(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: int, user: int, remedy: str
) -> None:
    assert said_by_the_system(monkeypatch, capsys, "studies", number, user).startswith(
        f"nearmetal: /there: {os.strerror(number)}\n  remedy: {remedy}"
    )


@pytest.mark.parametrize("command", ["run", "resume"])
def test_a_run_that_finds_no_room_can_be_resumed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert "`nearmetal resume` goes on with it" in said_by_the_system(monkeypatch, capsys, command, errno.ENOSPC, 0)


def said_by_the_system(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str, number: int, user: int
) -> str:
    """What is said when the system refuses a command."""

    def fail(**_: object) -> None:
        raise OSError(number, os.strerror(number), "/there")

    monkeypatch.setattr(sys, "argv", ["nearmetal", command])
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(cli.cli, "main", fail)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 3
    return capsys.readouterr().err


def test_a_report_that_finds_no_room_is_asked_for_again_once_there_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("nearmetal.report.write.write", fail)
    with pytest.raises(HostCannot, match="the report cannot be written there: No space left") as told:
        call(runs_commands.report, run=FOLDER, form="html", output=None, as_json=False)
    assert told.value.remedy == f"free some space, then: nearmetal report {FOLDER}"


@pytest.mark.parametrize(
    "place", ["/proc/x", "/proc/x/y", "/tmp/" + "x" * 300, "/dev/null/x"], ids=["proc", "deep", "long", "file"]
)
def test_where_no_folder_can_be_made_another_is_to_be_named(tmp_path: Path, place: str) -> None:
    study = tmp_path / "s.toml"
    study.write_text(GOOD)
    ended = called("run", str(study), "-o", place, environment={"NEARMETAL_HOME": str(tmp_path / "home")})
    assert ended.returncode == 2, ended.stderr
    assert f"nearmetal: {place}: " in ended.stderr
    assert "remedy: name a" in ended.stderr


def test_a_folder_that_was_tried_for_a_run_that_is_refused_is_not_left(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    refuse_occupied_folder(tmp_path / "runs" / "a" / "b")
    assert list((tmp_path / "runs").iterdir()) == []


@pytest.mark.parametrize("inside", ["b", "artifacts/b"])
def test_no_run_is_put_into_the_folder_of_another(tmp_path: Path, inside: str) -> None:
    """A manifest.json alone is anybody's."""
    (tmp_path / "manifest.json").touch()
    run = tmp_path / "a"
    run.mkdir()
    for name in ("manifest.json", "journal.jsonl"):
        (run / name).touch()
    study = tmp_path / "s.toml"
    study.write_text(GOOD)
    refuse_occupied_folder(tmp_path / "b")
    ended = called("run", str(study), "-o", f"a/{inside}", cwd=tmp_path)
    assert ended.returncode == 2, ended.stderr
    told = f"a/{inside}: this lies in the folder of another run\n  remedy: name one outside of {run} by -o"
    assert told in ended.stderr


def test_a_report_that_finds_no_room_leaves_what_was_there(tmp_path: Path) -> None:
    place = tmp_path / "reports"
    place.mkdir()
    there = place / "there.csv"
    there.write_text("before")
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limit[1]))
    try:
        for file in (there, place / "new.csv"):
            with pytest.raises(OSError, match="File too large") as told:
                call(runs_commands.report, run=FOLDER, form="csv", output=file, as_json=False)
            assert told.value.filename == str(file)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert list(place.iterdir()) == [there]
    assert there.read_text() == "before"


def test_a_report_that_cannot_be_written_names_its_file() -> None:
    with pytest.raises(OSError, match="No space left") as told:
        call(runs_commands.report, run=FOLDER, form="csv", output=Path("/dev/full"), as_json=False)
    assert told.value.filename == "/dev/full"


def test_what_a_machine_says_steers_no_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def said_by_it(*args: object, **more: object) -> None:
        raise HostCannot("it says: \x1b]0;other\x07\x1b[2J\u202e", "far")

    monkeypatch.setattr(cli.cli, "main", said_by_it)
    with pytest.raises(SystemExit):
        cli.main()
    told = capsys.readouterr().err
    assert "it says: " in told
    assert not any(mark in told for mark in ("\x1b", "\x07", "\u202e"))


def test_who_interrupts_is_told_that_it_was_heard(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def abort(**_: object) -> None:
        raise click.exceptions.Abort

    monkeypatch.setattr(cli.cli, "main", abort)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 4
    assert capsys.readouterr().err == "nearmetal: interrupted\n"

    assert run_action._conclude_run(RunFolder(tmp_path / "none"), False, "", "json") == 4
    told = capsys.readouterr()
    assert told.out == "" and "before anything was measured" in told.err


def test_an_end_of_a_file_is_no_interruption(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """click takes one for Ctrl-D, and nobody is asked anything here."""

    def ends(**_: object) -> None:
        raise EOFError("a defect")

    monkeypatch.setattr(runs_commands.show, "callback", ends)
    monkeypatch.setattr(sys, "argv", ["nearmetal", "show", str(FOLDER)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    told = capsys.readouterr().err
    assert ended.value.code == 125 and "EOFError: a defect" in told and "interrupted" not in told


def test_a_build_that_is_told_to_end_tidies_up(monkeypatch: pytest.MonkeyPatch) -> None:
    tidied = []

    async def build(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        try:
            await asyncio.sleep(60)
        finally:
            tidied.append(True)

    monkeypatch.setattr(image, "build", build)
    with pytest.raises(Interrupted, match="nothing is left of it"):
        call(image_commands.image_build, source=None, packages=(), files=(), name="lab", as_json=False)
    assert tidied == [True]


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("--from", "own.tar"), "has no name by which studies ask for it"),
        (
            ("--from", "own.tar", "--name", "mine", "--package", "fio"),
            "--package adds Debian's packages to the lab image",
        ),
        (("--from", "./none.tar", "--name", "mine"), "there is no such file"),
        (("--from", "our/api:3", "--name", "mine"), "this is no file, and no engine of this host has it"),
    ],
)
def test_an_image_that_cannot_be_built_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, argv: tuple[str, ...], said: str
) -> None:
    for variable in ("DOCKER_HOST", "CONTAINER_HOST"):
        monkeypatch.setenv(variable, f"unix://{tmp_path}/none.sock")
    result = called("image", "build", *argv)
    assert result.returncode == 2 and said in result.stderr
    assert "remedy" in result.stderr


@pytest.mark.parametrize("number", ["9" * 400, "9" * 400 + "x"])
def test_a_number_of_very_many_digits_is_told_as_it_was_typed(refused: Refused, folder: Path, number: str) -> None:
    said = refused("plan", str(folder / "good.toml"), "--blocks", number)
    assert "--blocks" in said and "--set" not in said and "from 1 on" in said
    assert said.count("'") % 2 == 0
