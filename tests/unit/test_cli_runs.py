"""What the command line says of plans, runs and images: figures a person wants, exit codes a script relies on."""

import copy
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nearmetal import studies
from nearmetal.commands.by_hand import own_failures_apart
from nearmetal.commands.clean import clean
from nearmetal.commands.doctor import doctor as doctor_command
from nearmetal.commands.plan_output import say_missing
from nearmetal.config import Paths
from nearmetal.console.printing import console_for
from nearmetal.errors import HostCannot
from nearmetal.lab import doctor
from nearmetal.lab.changes.ledger import held, ledgers_folder
from nearmetal.lab.process_locks import try_lock
from nearmetal.model import COSTS, OF_THE_BOOT, Finding
from nearmetal.planning import noise_evidence
from nearmetal.planning import plan as planning
from nearmetal.store.checksum import without_checksum
from nearmetal.store.journal import render_line
from nearmetal.store.journal_lock import hold_journal
from nearmetal.store.run_folder import RunFolder
from tests import journals, one_picture
from tests.command_line import call, called, forked, started
from tests.golden.make_run import FOLDER
from tests.order import mock_run
from tests.unit.test_image_store import finished

pytestmark = pytest.mark.usefixtures("one_picture")


def test_too_few_blocks_for_any_verdict_are_told_before_anything_is_measured(study: Path, tmp_path: Path) -> None:
    said = called("run", str(study), "-o", str(tmp_path / "few")).stdout.splitlines()
    told = "with 2 blocks every verdict is undecided: that takes at least 6"
    assert said.index(told) < next(place for place, line in enumerate(said) if line.startswith("block 1/2"))


def test_a_study_that_compares_nothing_is_told_so_before_anything_is_measured(study: Path, tmp_path: Path) -> None:
    alone = ("--set", 'factors.environment=["base"]', "-o", str(tmp_path / "lone"))
    said = called("run", str(study), "--available", *alone).stdout.splitlines()
    told = "nothing is compared: there is no treatment beside its reference"
    assert said.index(told) < next(place for place, line in enumerate(said) if line.startswith("block 1/2"))


def test_a_study_of_which_nothing_is_left_to_compare_is_refused(study: Path, tmp_path: Path) -> None:
    study.write_text(LACKING)
    told = "nothing is left to compare without what cannot run here"
    planned = called("plan", str(study), "--available")
    assert planned.returncode == 3 and f"{told}: `run` refuses this" in planned.stdout
    document = called("plan", str(study), "--available", "--json")
    assert document.returncode == 3
    assert {"code": "nothing-to-compare", "text": told} in json.loads(document.stdout)["warnings"]
    ran = called("run", str(study), "--available", "-o", str(tmp_path / "lone"))
    assert ran.returncode == 3 and not (tmp_path / "lone").exists()
    assert " ".join(ran.stderr.split()).endswith(
        f"{told}: mock thing: as the study asked: environment=slow remedy: remove `missing`; "
        "or leave these levels out of the study, to measure the rest alone"
    )


def test_a_quiet_run_prints_its_result_alone(study: Path, tmp_path: Path) -> None:
    ended = called("run", str(study), "-q", "-o", str(tmp_path / "run"))
    assert ended.returncode == 0 and not ended.stderr
    assert "block 1/" not in ended.stdout and "report: " in ended.stdout


def test_a_plan_takes_as_long_as_the_last_run_of_the_same_took(study: Path, tmp_path: Path) -> None:
    before = called("plan", str(study)).stdout
    assert ", as the run of " not in before
    assert called("run", str(study), "-o", str(tmp_path / "run")).returncode == 0
    manifest = RunFolder.open(tmp_path / "run").read_manifest()
    assert ", as the run of " in called("plan", str(study)).stdout
    pace = noise_evidence.find_pace(manifest.study, manifest.plan)
    assert pace is not None and 0 < pace.seconds < 5 and pace.created == manifest.created
    fewer = planning.make_plan(manifest.study, [manifest.plan.treatments[0]])
    assert noise_evidence.find_pace(manifest.study, fewer) is None


def test_each_run_draws_an_order_of_its_own_unless_a_seed_is_named(study: Path, tmp_path: Path) -> None:
    study.write_text(study.read_text().replace("seed = 1\n", ""))
    assert "each run draws an order of its own" in called("plan", str(study)).stdout
    assert json.loads(called("plan", str(study), "--json").stdout)["plan"]["seed"] is None
    drawn = []
    for name in ("one", "other"):
        assert called("run", str(study), "-o", str(tmp_path / name)).returncode == 0
        manifest = RunFolder.open(tmp_path / name).read_manifest()
        assert manifest.plan.seed == manifest.study.design.seed is not None
        assert f"--set design.seed={manifest.plan.seed}" in (tmp_path / name / "report.html").read_text()
        drawn.append(manifest.plan.seed)
    assert drawn[0] != drawn[1]
    named = called("run", str(study), "--seed", str(drawn[0]), "-o", str(tmp_path / "again"))
    assert named.returncode == 0
    assert (
        RunFolder.open(tmp_path / "again").read_manifest().plan == RunFolder.open(tmp_path / "one").read_manifest().plan
    )


@pytest.mark.parametrize(
    "cost",
    [pytest.param(cost, marks=() if cost in ("ready", "memory_overhead") else pytest.mark.long) for cost in COSTS],
)
def test_what_it_costs_can_be_what_a_verdict_is_about(study: Path, tmp_path: Path, cost: str) -> None:
    study.write_text(study.read_text().replace('kind = "http"', f'kind = "http"\nprimary = "{cost}"'))
    run = tmp_path / "run"
    assert called("run", str(study), "-o", str(run), "--json").returncode == 0
    contrasts = json.loads(called("report", str(run), "--format", "json").stdout)["contrasts"]
    blocks = 0 if cost == "memory_overhead" else 2  # a pretended machine has no guest
    assert [(one["response"], one["blocks"]) for one in contrasts if one["primary"]] == [(cost, blocks)]
    shared = called("plan", str(study), "--set", "design.share_boot=true")
    assert shared.returncode == (2 if cost in OF_THE_BOOT else 0)
    assert ("is of a boot, and of no workload" in shared.stderr) == (cost in OF_THE_BOOT)


def test_a_terminal_that_says_it_has_no_columns_is_written_to() -> None:
    shown = called("show", str(FOLDER), environment={"COLUMNS": "0"})
    assert shown.returncode == 0 and shown.stdout.strip()


def test_lines_are_whole_and_not_padded_where_nobody_says_how_wide_a_pipe_is(study: Path) -> None:
    listed = called("studies", environment={"COLUMNS": ""}).stdout.splitlines()
    assert [line.split(maxsplit=1)[0] for line in listed[1:]] == list(studies.list_names())
    assert all(line == line.rstrip() for line in listed)
    question = "Is it? " * 40
    study.write_text(f'question = "{question}"\n' + study.read_text())
    plan = called("plan", str(study), environment={"COLUMNS": ""}).stdout.splitlines()
    assert question.strip() in plan[0]
    thing = "thing that has a long name " * 5
    study.write_text(WITH_THIRD.replace("thing", thing.strip()))
    run = called("run", str(study), "--available", environment={"COLUMNS": ""}).stdout.splitlines()
    assert f"left out: mock {thing.strip()}: as the study asked" in run


def test_verdicts_are_whole_and_not_padded_there_either() -> None:
    """As they are where there is room for all."""
    known = called("show", str(FOLDER), environment={"COLUMNS": "5000"}).stdout.splitlines()
    told = called("show", str(FOLDER), environment={"COLUMNS": ""}).stdout.splitlines()
    assert told == known == [line.rstrip() for line in known] and max(map(len, told)) > 80


@pytest.fixture
def study(tmp_path: Path) -> Path:
    file = tmp_path / "study.toml"
    file.write_text(mock_run.STUDY)
    return file


def test_a_runs_end_tells_how_many_trials_in_what_time_and_ls_finds_it_anywhere(study: Path, tmp_path: Path) -> None:
    folder = tmp_path / "somewhere" / "else"
    ended = started("run", str(study), "-o", str(folder), program=one_picture.COMMAND)
    assert ended.returncode == 0, ended.stderr
    assert re.search(r"^4 trials ok in \d+ s$", ended.stdout, re.MULTILINE), ended.stdout
    again = forked("resume", str(folder))
    assert again.returncode == 0
    assert again.stdout.startswith("nothing is left to do"), again.stdout
    journal = folder / "journal.jsonl"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:-8]))
    went_on = called("resume", str(folder))
    assert re.search(r"^4 trials ok; going on took \d+ s$", went_on.stdout, re.MULTILINE), went_on.stdout
    assert "4 trials ok" in forked("show", str(folder)).stdout

    known = forked("ls", cwd=tmp_path)
    assert f"{folder}  order  " in known.stdout
    assert called("ls", cwd=tmp_path, environment={"COLUMNS": "20"}).stdout == known.stdout
    assert json.loads(called("ls", "--json", cwd=tmp_path).stdout)["runs"][0]["trials"] == 4
    (folder / "manifest.json").write_text("{")
    damaged = called("ls", cwd=tmp_path)
    assert damaged.returncode == 0
    assert f"cannot be read: {folder}: manifest.json: " in damaged.stdout
    shutil.rmtree(folder)
    assert "no runs in " in called("ls", cwd=tmp_path).stdout
    assert called("ls", str(folder)).returncode == 2


@pytest.mark.parametrize(
    ("fault", "status", "said"),
    [
        ("", 0, []),
        pytest.param('label = "s"\nfault = "attach"', 1, [], marks=pytest.mark.long),
        ('label = "s"\nfault = "attach"\nfault_on = [1, 2, 3]', 1, ["Withdrawn", "NothingToCompare"]),
    ],
)
def test_a_run_that_lacks_its_end_alone_asks_for_no_machine(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, status: int, said: list[str]
) -> None:
    study.write_text(study.read_text().replace("speed = 0.5", fault).replace("blocks = 2", "blocks = 4"))
    folder = tmp_path / "run"
    assert called("run", str(study), "-o", str(folder)).returncode == status
    journal = folder / "journal.jsonl"
    *kept, end = journal.read_bytes().splitlines(keepends=True)
    assert b"RunEnded" in end
    assert all(f'"event":"{event}"'.encode() in b"".join(kept) for event in said)
    journal.write_bytes(b"".join(kept))

    async def gone(*_: object) -> None:
        raise HostCannot("no engine answers")

    monkeypatch.setattr("nearmetal.environments.mock.Mock.prepare", gone)
    monkeypatch.setattr("nearmetal.run.study_execution.collect_versions", gone)
    ended = called("resume", str(folder))
    assert ended.returncode == status, ended.stderr
    assert called("resume", str(folder)).stdout.startswith("nothing is left to do")
    last = max(place for place, line in enumerate(kept) if line.startswith(b'{"schema":"record.v'))
    journal.write_bytes(b"".join(kept[:last]))
    assert called("resume", str(folder)).returncode == 3


@pytest.mark.parametrize(
    "asked",
    [
        '[factors.isolation]\nlevels = ["none", "user"]\n[machine]',
        pytest.param(
            '[factors.x]\nlevels = ["none", "user"]\nsets = "machine.isolation"\n[machine]', marks=pytest.mark.long
        ),
        pytest.param('[machine]\nisolation = "user"', marks=pytest.mark.long),
    ],
)
def test_a_run_goes_on_only_with_the_packages_that_its_factors_are_of(study: Path, tmp_path: Path, asked: str) -> None:
    study.write_text(f"{study.read_text()}\n{asked}\nvcpus = 2\n")
    folder = RunFolder(tmp_path / "run")
    assert called("run", str(study), "-o", str(folder.path)).returncode == 0
    # As nothing is called that is installed.
    journals.rewrite_manifest(folder.path, lambda text: text.replace('"key":"isolation"', '"key":"theirs"'))
    assert "broke" not in called("report", str(folder.path)).stderr
    *kept, _ = folder.journal.read_bytes().splitlines(keepends=True)
    last = max(place for place, line in enumerate(kept) if line.startswith(b'{"schema":"record.v'))
    folder.journal.write_bytes(b"".join(kept[:last]))
    ended = called("resume", str(folder.path))
    assert ended.returncode == 2
    assert "'theirs'" in ended.stderr and "remedy: install the package" in ended.stderr
    folder.journal.write_bytes(b"".join(kept))
    assert called("resume", str(folder.path)).returncode == 0, "nothing is measured any more"


@pytest.mark.parametrize(("kind", "of"), [("http", "a workload"), ("mock", "an environment")])
def test_a_run_goes_on_only_with_the_packages_that_it_is_made_of(
    study: Path, tmp_path: Path, kind: str, of: str
) -> None:
    folder = RunFolder(tmp_path / "run")
    assert called("run", str(study), "-o", str(folder.path)).returncode == 0
    # As nothing is called.
    journals.rewrite_manifest(folder.path, lambda text: re.sub(f'"kind": ?"{kind}"', '"kind":"theirs"', text))
    *kept, _ = folder.journal.read_bytes().splitlines(keepends=True)
    folder.journal.write_bytes(b"".join(kept[:-6]))
    ended = called("resume", str(folder.path))
    assert ended.returncode == 2
    assert f"nothing provides 'theirs' any more, {of} of this run" in ended.stderr, ended.stderr
    assert "remedy: install the package" in ended.stderr
    if kind == "http":
        folder.journal.write_bytes(b"".join(kept))
        assert called("resume", str(folder.path)).returncode == 0, "nothing is measured any more"


def test_a_run_whose_new_ledger_a_clean_looks_into_begins_another(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[int] = []

    def taken_at_first(descriptor: int) -> bool:
        looked.append(descriptor)
        return len(looked) > 1 and try_lock(descriptor)

    monkeypatch.setattr("nearmetal.lab.changes.ledger.try_lock", taken_at_first)
    ended = called("run", str(study), "-o", str(tmp_path / "run"))
    assert ended.returncode == 0, ended.stderr
    assert len(looked) > 1


@pytest.mark.parametrize("columns", [40, *(pytest.param(columns, marks=pytest.mark.long) for columns in (60, 30))])
def test_a_list_fits_a_narrow_terminal_and_a_folder_is_copied_whole(columns: int, tmp_path: Path) -> None:
    folder = shutil.copytree(FOLDER, tmp_path / "runs" / ("long-" * 12))
    damaged = shutil.copytree(FOLDER, tmp_path / "runs" / ("bad-" * 12))
    (damaged / "manifest.json").write_text("{")
    ours, theirs = os.openpty()
    listed = subprocess.run(
        [sys.executable, "-m", "nearmetal", "ls", str(folder.parent)],
        stdout=theirs,
        timeout=120,
        env={**os.environ, "COLUMNS": str(columns), "LINES": "24", "TERM": "dumb"},
    )
    os.close(theirs)
    lines = os.read(ours, 65536).decode().splitlines()
    os.close(ours)
    assert listed.returncode == 0
    assert [line for line in lines if len(line) > columns] == [str(folder), str(damaged)]
    told = " ".join(" ".join(lines).split())
    assert all(f" {word}" in told for word in ("golden", "ended", "16")), told
    assert "cannot be read: manifest.json: the run's manifest cannot be read: it is not JSON" in told


def test_a_run_whose_words_nobody_reads_goes_on_to_its_report(study: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    words = [*one_picture.COMMAND, "run", str(study), "-o", str(folder)]
    reader, writer = os.pipe()
    os.close(reader)
    with subprocess.Popen(words, stdout=writer, stderr=writer) as running:
        os.close(writer)
        assert running.wait(120) == 0
    assert (folder / "report.html").exists()


def test_no_run_is_put_where_something_else_lies(study: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "thesis.tex").write_text("\\begin{document}")
    for output, what in ((folder, "holds something else"), (folder / "thesis.tex", "is not a folder")):
        refused = called("run", str(study), "-o", str(output))
        assert refused.returncode == 2
        assert what in refused.stderr
    assert [path.name for path in folder.iterdir()] == ["thesis.tex"]


def test_the_page_is_written_and_its_path_printed_and_other_formats_are_printed_alone(tmp_path: Path) -> None:
    run = Path(shutil.copytree(FOLDER, tmp_path / "run"))
    before = sorted(run.iterdir())
    assert called("report", str(run), "--format", "md").stdout.startswith("# golden")
    assert called("report", str(run), "-o", str(tmp_path / "page.html")).stdout == ""
    assert sorted(run.iterdir()) == before
    for words in ([], ["--format", "html"]):
        (run / "report.html").unlink(missing_ok=True)
        assert called("report", str(run), *words).stdout == f"{run / 'report.html'}\n"
        assert (run / "report.html").read_bytes() == (tmp_path / "page.html").read_bytes()


def test_a_report_for_a_folder_that_is_not_there_is_refused(study: Path, tmp_path: Path) -> None:
    assert called("run", str(study), "-o", str(tmp_path / "run")).returncode == 0
    refused = called("report", str(tmp_path / "run"), "--format", "md", "-o", str(tmp_path / "nowhere" / "report.md"))
    assert refused.returncode == 2
    assert "nothing can be written there" in refused.stderr


def test_a_terminal_that_cannot_write_everything_loses_no_words_and_a_report_no_bytes(
    study: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    assert called("run", str(study), "-o", str(run)).returncode == 0
    page = (run / "report.html").read_bytes()
    as_ascii = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    shown = started("show", str(run), environment=as_ascii)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "\\xd7" in shown.stdout
    assert started("report", str(run), environment=as_ascii, program=one_picture.COMMAND).returncode == 0
    assert (run / "report.html").read_bytes() == page


def test_a_name_that_is_nearly_a_study_is_told_the_study() -> None:
    assert "did you mean `quickstart`?" in called("plan", "quikstart").stderr


@pytest.mark.parametrize("file", ["journal.jsonl", "manifest.json", "artifacts/any", "link"])
def test_a_report_does_not_take_the_place_of_what_was_measured(file: str, tmp_path: Path) -> None:
    run = Path(shutil.copytree(FOLDER, tmp_path / "run"))
    (tmp_path / "link").symlink_to(run / "journal.jsonl")
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    output = tmp_path / "link" if file == "link" else run / file
    for form in ("html", "json"):
        done = called("report", str(run), "--format", form, "-o", str(output))
        assert (done.returncode, "this is what was measured, and would be lost" in done.stderr) == (2, True)
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(("place", "told"), [("gone/x.html", "its folder is not there"), (".", "this is a folder")])
def test_a_place_where_no_report_can_be_is_told_before_one_is_made(place: str, told: str, tmp_path: Path) -> None:
    """Of a run that cannot even be read."""
    run = Path(shutil.copytree(FOLDER, tmp_path / "run"))
    (run / "journal.jsonl").write_text("rubbish\n" * 2)
    done = called("report", str(run), "-o", str(tmp_path / place))
    assert (done.returncode, told in done.stderr) == (2, True)


@pytest.mark.parametrize("place", ["gone/", "file/"])
def test_a_place_that_is_named_as_a_folder_is_no_file(place: str, tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    (here / "file").write_text("as before")
    done = called("report", str(FOLDER), "--format", "csv", "-o", f"{here}/{place}")
    assert (done.returncode, "there is no such folder" in done.stderr) == (2, True)
    assert "this is a folder" in called("report", str(FOLDER), "--format", "csv", "-o", f"{here}/").stderr
    assert [(one.name, one.read_text()) for one in here.iterdir()] == [("file", "as before")]


def test_a_report_for_a_dash_is_printed(tmp_path: Path) -> None:
    done = called("report", str(FOLDER), "--format", "md", "-o", "-", cwd=tmp_path)
    assert done.stdout == called("report", str(FOLDER), "--format", "md").stdout
    assert not list(tmp_path.glob("-"))


WITH_THIRD = (
    mock_run.STUDY.replace("speed = 0.5", 'missing = "thing"')
    .replace('["base", "slow"]', '["base", "slow", "third"]')
    .replace("[environments.base]", '[environments.third]\nkind = "mock"\n[environments.base]')
)
LACKING = mock_run.STUDY.replace("speed = 0.5", 'missing = "thing"')


def test_a_plan_that_run_would_refuse_is_told_by_the_exit_code(study: Path) -> None:
    whole = forked("plan", str(study))
    assert whole.returncode == 0
    assert re.search(r"^the whole takes about \d+ s$", whole.stdout, re.MULTILINE), whole.stdout

    study.write_text(LACKING)
    refused = called("plan", str(study))
    assert refused.returncode == 3
    assert "cannot run here: mock thing: as the study asked\n    environment=slow\n" in refused.stdout
    assert "remedy: remove `missing`" in refused.stdout
    refused = called("run", str(study))
    assert refused.returncode == 3
    assert "mock thing: as the study asked: environment=slow" in " ".join(refused.stderr.split())

    study.write_text(WITH_THIRD)
    left_out = called("plan", str(study), "--available", "--json")
    assert left_out.returncode == 0
    assert [one["treatment"] for one in json.loads(left_out.stdout)["missing"]] == [{"environment": "slow"}]

    study.write_text(
        LACKING.replace('[environments.base]\nkind = "mock"', '[environments.base]\nkind = "mock"\nmissing = "x"')
    )
    nothing = called("plan", str(study), "--available")
    assert nothing.returncode == 3
    assert "nothing is left" in nothing.stdout
    nothing = called("run", str(study), "--available")
    assert nothing.returncode == 3
    assert "nothing else is left to run" in nothing.stderr and "--available" not in nothing.stderr


def test_of_two_images_of_a_name_the_current_one_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from nearmetal.lab.image import Recipe

    monkeypatch.setenv("NEARMETAL_HOME", str(tmp_path / "other"))
    cache = tmp_path / "other" / "cache"
    assert "no image is built" in forked("image", "ls").stdout
    for number, recipe in enumerate((Recipe(), Recipe(packages=("curl",)))):
        os.utime(finished(cache, recipe, f"{number}" * 64) / "manifest.json", (1e9 + number, 1e9 + number))
    lines = [line.split() for line in called("image", "ls").stdout.splitlines()]
    assert [line[:3] for line in lines[1:3]] == [["lab", "1" * 12, "current"], ["lab", "0" * 12, "old"]]
    assert lines[1][3].startswith("2001-09-")
    assert lines[1][6] == "KiB"
    told = json.loads(called("image", "ls", "--json").stdout)["images"]
    assert [(one["current"], one["bytes"] > 0) for one in told] == [(True, True), (False, True)]
    assert called("image", "rm", "0" * 12).stdout == f"removed lab {'0' * 12}\n"
    assert " old " not in called("image", "ls").stdout


WITHOUT_ENGINE = """
name = "lacking"
reference = { environment = "here" }
[environments.here]
kind = "docker"
engine = "unix:///nowhere/docker.sock"
[factors]
environment = ["here", "host"]
[[workloads]]
name = "web"
kind = "http"
server = "lighttpd"
duration = "1s"
primary = "throughput"
[design]
blocks = 2
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes machines, and is told of nothing else before")
def test_what_is_lacking_is_told_before_an_image_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEARMETAL_HOME", str(tmp_path / "fresh"))
    study = tmp_path / "study.toml"
    study.write_text(WITHOUT_ENGINE)
    ended = called("run", str(study), "-o", str(tmp_path / "run"))
    assert (ended.returncode, ended.stdout) == (3, ""), ended.stderr
    assert "no Docker engine answers" in ended.stderr
    assert not (tmp_path / "fresh" / "cache" / "images").exists()


def test_pretended_machines_have_pretended_clients_and_need_no_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEARMETAL_HOME", str(tmp_path / "fresh"))
    study = tmp_path / "study.toml"
    study.write_text(mock_run.STUDY.replace('[clients]\nenvironment = "mock"\n', ""))
    ended = called("run", str(study), "-o", str(tmp_path / "run"))
    assert ended.returncode == 0, ended.stderr
    assert "4 trials ok" in ended.stdout
    assert not (tmp_path / "fresh" / "cache").exists()


def test_a_picture_is_not_written_into_a_terminal(study: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert called("run", str(study), "-o", str(run)).returncode == 0
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "nearmetal", "report", str(run), "--format", "png", "-o", "-"]
    refused = subprocess.run(command, stdout=theirs, stderr=subprocess.PIPE, text=True, timeout=120)
    os.close(theirs)
    os.close(ours)
    assert refused.returncode == 2
    assert "remedy: name a file by -o" in refused.stderr


def test_clean_speaks_for_the_user_it_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NEARMETAL_HOME", str(tmp_path))
    for user, told in ((0, "nothing of ours is left\n"), (1000, "nothing of this user's is left\n")):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        assert call(clean, lab=None, as_json=False) == 0
        assert capsys.readouterr().out == told


def test_clean_counts_those_whose_things_it_leaves(capsys: pytest.CaptureFixture[str]) -> None:
    with held(ledgers_folder() / "one.jsonl"):
        assert call(clean, lab=None, as_json=False) == 0
        assert capsys.readouterr().out == "what 1 running process of nearmetal made is not touched\n"
        with held(ledgers_folder() / "other.jsonl"):
            assert call(clean, lab=None, as_json=False) == 0
            assert capsys.readouterr().out == "what 2 running processes of nearmetal made is not touched\n"


@pytest.mark.parametrize("command", ["doctor", "plan", "exec"])
def test_what_a_host_lacks_is_told_without_what_steers_a_terminal(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = "it says \x1b]0;other\x07\x1b[2J"
    lacking = Finding(what=f"a tool: {bad}", ok=False, detail=bad, remedy=bad)

    async def examined(environments: object) -> doctor.Diagnosis:
        return doctor.Diagnosis.of([lacking])

    def refuses() -> int:
        raise HostCannot(bad)

    monkeypatch.setattr(doctor, "examine", examined)
    if command == "doctor":
        call(doctor_command, environments=(), fix=False, lab=None, as_json=False)
    elif command == "plan":
        say_missing([({"environment": bad}, lacking)], "not here", console_for(False))
    else:
        own_failures_apart(refuses)
    told = capsys.readouterr()
    assert "it says " in told.out + told.err
    assert not any(mark in told.out + told.err for mark in ("\x1b", "\x07"))


def test_the_plan_of_a_run_that_may_stop_early(study: Path) -> None:
    told = " ".join(called("plan", str(study), "--set", "design.blocks={ min = 8, max = 40 }").stdout.split())
    assert "2 treatments x 1 workload x at most 40 blocks = 80 trials" in told
    assert "at alpha 0.05; looked at after 8, 12, 16, 24, 32 and 40 blocks, until all are decided" in told
    late = " ".join(called("plan", str(study), "--set", "design.blocks={ min = 4, max = 12 }").stdout.split())
    assert "looked at after 8 and 12 blocks (not after 4, with which nothing can be decided at that alpha)" in late
    few = " ".join(called("plan", str(study), "--set", "design.blocks={ min = 3, max = 4 }").stdout.split())
    assert "that takes at least 6 blocks, and with 4 every verdict is undecided" in few


def test_a_plan_tells_which_workload_is_measured_at_levels_that_it_does_not_use(study: Path) -> None:
    study.write_text(
        study.read_text().replace("[factors]", "[factors]\nevents = [1000, 2000]")
        + '\n[[workloads]]\nname = "primes"\nkind = "sysbench"\ntest = "cpu"\nevents = "{events}"\n'
    )
    told = json.loads(called("plan", str(study), "--json").stdout)
    assert told["unused"] == [{"workload": "web", "factor": "events", "levels": 2}]
    said = " ".join(called("plan", str(study)).stdout.split())
    assert "web does not use events, and is measured at each of its 2 levels all the same" in said
    assert "primes does not use" not in said


def test_a_plan_tells_of_a_factor_whose_levels_are_not_compared(study: Path) -> None:
    whole = " ".join(called("plan", str(study)).stdout.split())
    assert "1 primary contrast, at alpha 0.05; " in whole
    assert "not compared with each other" not in whole
    study.write_text(study.read_text().replace("[factors]", "[factors]\nusage = [false, true]"))
    said = " ".join(called("plan", str(study)).stdout.split())
    assert "`reference` does not name usage: its 2 levels are not compared with each other" in said
    assert "2 primary contrasts, each at alpha 0.025; " in said


def test_a_list_tells_what_was_planned_what_was_repeated_and_what_came_to_nothing(study: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert called("run", str(study), "-o", str(run)).returncode == 0
    journal = run / "journal.jsonl"
    measured = [json.loads(without_checksum(line)) for line in journal.read_bytes().splitlines()]
    trials = [line for line in measured if line["schema"].startswith("record.")]
    again = copy.deepcopy(trials[:2])
    for record in again:
        record["trial"] |= {"attempt": 1, "id": f"again-{record['trial']['id']}"}
    again[0]["status"] = "failed"
    *others, end = measured

    def listed(*lines: dict[str, Any]) -> str:
        journal.write_bytes(b"".join(map(render_line, lines)))
        return called("ls", str(run)).stdout

    assert "  ended  4 and 2 again, 1 not ok\n" in listed(*others, *again, end)
    fewer = [line for line in others if line is not trials[2]]
    assert "  ended  3 and 2 again, 1 not ok\n" in listed(*fewer, *again, end), "withdrawn before its last block"
    assert "  interrupted  3/4 and 2 again, 1 not ok\n" in listed(*fewer, *again)
    failed = [line | ({"status": "failed"} if line in trials else {}) for line in others]
    assert "  ended  4, none ok\n" in listed(*failed, end)
    assert "  interrupted  2/4\n" in listed(*others[: others.index(trials[2])])
    assert f"go on with: nearmetal resume {run}\n" in called("show", str(run)).stdout
    with hold_journal(journal):
        assert "  running  2/4\n" in called("ls", str(run)).stdout


SIZED = """
name = "sized"
reference = { environment = "base" }
[environments.base]
kind = "mock"
[environments.slow]
kind = "mock"
speed = 0.95
[factors]
environment = ["base", "slow"]
[[workloads]]
name = "web"
kind = "http"
duration = "1s"
[design]
blocks = "auto"
detect = "4%"
"""


def test_a_pilot_fixes_the_number_of_blocks_of_the_run(tmp_path: Path) -> None:
    file = tmp_path / "sized.toml"
    file.write_text(SIZED)
    refused = called("run", str(file))
    assert refused.returncode == 2 and "plan --pilot" in refused.stderr
    planned = called("plan", str(file), "--pilot", "--json")
    assert planned.returncode == 0, planned.stderr
    told = json.loads(planned.stdout)
    assert told["pilot"]["boots"] == 6 and told["pilot"]["trials"] == 2
    (seen,) = told["sees"]
    assert seen["source"] == "pilot" and told["unknown"] == 0
    blocks = told["sizing"]["blocks"]
    assert blocks == len(told["plan"]["blocks"]) and told["k"] >= 3
    again = called("plan", str(file)).stdout
    assert f'blocks = "auto": {blocks}, by the pilot of' in again and f"x {blocks} blocks" in again
    assert called("run", str(file), "-o", str(tmp_path / "run")).returncode == 0
    manifest = RunFolder.open(tmp_path / "run").read_manifest()
    assert manifest.study.design.blocks == manifest.plan.blocks == blocks
    assert manifest.sizing is not None and manifest.sizing.source == "pilot"
    for one in (Paths.default().state / "pilots").glob("*.json"):
        one.unlink()
    by_runs = json.loads(called("plan", str(file), "--json").stdout)
    assert by_runs["sees"][0]["source"] == "runs" and len(by_runs["sees"][0]["made"]) == 2


def test_a_pilot_names_what_both_sides_share_and_judges_nothing(tmp_path: Path) -> None:
    file = tmp_path / "pilot.toml"
    crossed = SIZED.replace("[factors]", "[factors]\nworkers = [1, 4]")
    file.write_text(crossed.replace("duration", 'workers = "{workers}"\nduration'))
    told = " ".join(called("plan", str(file), "--pilot", "--blocks", "12").stdout.split())
    assert "(workers 1): boots differ by" in told and "(workers 4): boots differ by" in told
    assert "every verdict is undecided" not in told.partition("pilot: 6 boots")[0]


def test_a_plan_says_how_to_come_by_noise_and_that_there_is_no_slack(study: Path) -> None:
    told = called("plan", str(study), "--blocks", "6").stdout
    assert "at least 6 blocks a difference is found only if all 6 blocks agree" in " ".join(told.split())
    assert "add --pilot to measure the noise here" in " ".join(told.split())
    document = json.loads(called("plan", str(study), "--blocks", "6", "--json").stdout)
    assert (document["k"], document["unknown"], document["pilot"]) == (0, 1, None)
    assert [one["code"] for one in document["warnings"]] == ["no-slack"]
    assert json.loads(called("plan", str(study), "--blocks", "9", "--json").stdout)["warnings"] == []


def test_a_run_says_that_there_is_no_slack_and_so_does_its_record(study: Path, tmp_path: Path) -> None:
    done = called("run", str(study), "--blocks", "6", "-o", str(tmp_path / "run"), "--json")
    assert "a difference is found only if all 6 blocks agree" in " ".join(done.stderr.split())
    analysis = json.loads(called("report", str(tmp_path / "run"), "--format", "json").stdout)
    assert "no-slack" in [one["code"] for one in analysis["warnings"]]
