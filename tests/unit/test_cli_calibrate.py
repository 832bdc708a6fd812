"""`nearmetal calibrate` on pretended machines: words, codes and documents, and what is kept for `nearmetal plan`."""

import json
import math
import os
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from nearmetal import schemas
from nearmetal.commands import calibrate_action
from nearmetal.commands.calibrate import calibrate
from nearmetal.config import Paths
from nearmetal.errors import BadInput, LeftAtOnce
from nearmetal.model import Assignment, Response
from nearmetal.progress_messages import Say
from nearmetal.report.report_input import read_run_input
from nearmetal.report.sections.calibration import plugin as section
from nearmetal.report.words import explain_reason
from nearmetal.store import kept_calibrations, runs
from nearmetal.store.run_folder import RunFolder
from tests import calibration_examples
from tests.command_line import call, called, forked

pytestmark = pytest.mark.usefixtures("one_picture")

NOTHING: dict[str, Any] = {"environment": None, "output": None, "blocks": None, "overrides": (), "quick": False}
QUIET = tuple(f"environments.{name}.noise=0" for name in ("first", "again"))
"""Without noise there is nothing to be wrong by chance."""


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


def write(folder: Path, values: calibration_examples.Values = calibration_examples.sound, **more: Any) -> Path:
    """A run's folder, as if made on this host; known to its index."""
    of = calibration_examples.manifest(**more)
    folder.mkdir()
    RunFolder(folder).write_manifest(of.model_copy(update={"host": {"kernel": {"release": os.uname().release}}}))
    lines = [json.dumps(record.model_dump(mode="json")) for record in calibration_examples.records(of, values)]
    (folder / "journal.jsonl").write_text("\n".join(lines) + "\n")
    runs.remember_run(folder, Paths.default().state)
    return folder


def again_is_slower(treatment: Assignment, workload: str, noise: float) -> dict[str, Response]:
    is_off = workload == "arithmetic" and treatment["environment"] == "again"
    return calibration_examples.sound(treatment, workload, noise + (8.0 if is_off else 0.0))


def said(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().out.split())


# ── Running it ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_it_runs_tells_and_can_be_told_again_from_the_folder_alone(tmp_path: Path) -> None:
    folder = tmp_path / "made"
    settings = [word for given in QUIET for word in ("--set", given)]
    ended = forked("calibrate", "mock", "--quick", "-o", str(folder), *settings, "--json", "--gate")
    assert ended.returncode == 0, ended.stderr
    document = json.loads(ended.stdout.splitlines()[-1])
    jsonschema.validate(document, schemas.list_documents()["calibrate.v1"])
    assert (document["verdict"], document["trials"]["ok"], document["quick"]) == ("sound", 8 * 9, True)
    assert {one["workload"]: round(one["estimate"], 4) for one in document["injected"]} == {
        "arithmetic": 1.05,
        "waits": 0.0005,
    }
    assert (folder / "report.html").exists()
    again = called("calibrate", "--from", str(folder), "--json")
    assert json.loads(again.stdout) == document
    words = called("calibrate", "--from", str(folder)).stdout
    assert words.splitlines()[0].endswith(": a pretended machine (mock), whose figures say nothing of any real one")
    # Below what is said of the host, where that is a virtual machine.
    assert "\nYes: as far as this run can show, answers on this machine can be trusted" in words
    assert "not kept for `nearmetal plan`: trials this short" in words
    assert "calibration" in called("ls").stdout
    assert "by the calibration" not in called("plan", "calibration").stdout


def test_what_this_host_cannot_run_is_refused_without_a_way_that_there_is_not(tmp_path: Path) -> None:
    lacking = [word for name in ("first", "again") for word in ("--set", f"environments.{name}.missing=thing")]
    ended = called("calibrate", "mock", "-o", str(tmp_path / "made"), *lacking)
    assert ended.returncode == 3
    assert "mock thing: as the study asked" in ended.stderr and "--available" not in ended.stderr


def test_too_few_blocks_cannot_tell(tmp_path: Path) -> None:
    ended = called("calibrate", "mock", "--quick", "--blocks", "2", "-o", str(tmp_path / "made"), "--gate")
    assert ended.returncode == 5
    assert "Not known: too few blocks to tell; 8 are the fewest." in ended.stdout
    assert "? too few blocks" in ended.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["hst"], "there is no environment 'hst'"),
        (["mock", "--set", "environments.first.sped=1"], "unknown key `sped`"),
        (["mock", "--set", "environments.first.speed=0.9"], "`first` and `again` are to be the same, and are not"),
        (["ssh"], "which takes `address`"),
        (
            ["mock", "--from", "a b"],
            "calibrate: --from tells of a run that was made, which leaves no use for mock\n"
            "  remedy: nearmetal calibrate --from 'a b'; or leave out --from, to make a run",
        ),
        (["--quick", "--blocks", "8", "--from", "."], "which leaves no use for --blocks and --quick\n"),
        (["--from", "."], "this is not a run's folder"),
        (["--from", str(Path(__file__).parents[1] / "golden" / "run")], "nothing is known beforehand of what this run"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is_made(
    words: list[str], message: str, tmp_path: Path, home: Path
) -> None:
    ended = called("calibrate", *words, cwd=tmp_path)
    assert ended.returncode == 2, ended.stdout
    assert message in ended.stderr and "Traceback" not in ended.stderr
    assert not (home / "runs").exists() and list(tmp_path.glob("runs*")) == []


# ── Telling ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_sound_run_is_kept_and_plan_says_by_it_what_a_study_sees(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(calibrate, **NOTHING, made=write(tmp_path / "made"), gate=True, as_json=False) == 0
    words = said(capsys)
    assert "Yes: as far as this run can show" in words
    assert "= not called different replies, amount 2100 vs amount 2000: median latency 1.00" in words
    assert "= truth in the interval arithmetic, amount 2100 vs amount 2000: time taken 1.05" in words
    assert "the truth is 1.05 ×; found" in words
    assert "the truth is +1,000 µs, give or take 50 µs; found" in words
    assert "kept: `nearmetal plan` says by it" in words
    study = tmp_path / "later.toml"
    factors = '[factors]\nenvironment = ["mock"]\nthreads = [1, 2]\n'
    study.write_text(
        f'name = "later"\nreference = {{ threads = 1 }}\n{factors}[[workloads]]\nname = "primes"\n'
        'kind = "sysbench"\ntest = "cpu"\nthreads = "{threads}"\n'
    )
    assert (
        "primes: by the calibration of 1 Mar 2025 (mock), 8 blocks find a difference of "
        in called("plan", str(study)).stdout
    )
    sees = json.loads(called("plan", str(study), "--json").stdout)["sees"]
    assert [(one["workload"], one["response"], one["finds"]["blocks"]) for one in sees] == [("primes", "events", 8)]


def test_a_machine_that_sees_little_says_so_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its intervals are right, and too wide to tell 5 % from nothing."""
    folder = write(
        tmp_path / "made", lambda treatment, of, noise: calibration_examples.sound(treatment, of, 15 * noise)
    )
    assert call(calibrate, **NOTHING, made=folder, gate=True, as_json=False) == 0
    words = said(capsys)
    assert "trusted. But small differences are not seen. Not told from none: 1.05 ×, in arithmetic." in words
    assert "; too small to be told from none" in words


def test_one_that_sees_nothing_does_not_begin_with_yes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All alike is not called different and every interval has the truth: they are as wide as that."""

    def loud(treatment: Assignment, workload: str, noise: float) -> dict[str, Response]:
        found = calibration_examples.sound(treatment, workload, 30 * noise)
        if workload == "waits":
            found["latency_p50"] = calibration_examples.seconds(found["latency_p50"].value + 0.01 * abs(noise))
        return found

    folder = write(tmp_path / "made", loud)
    busy = {"code": "busy-host", "text": "other programs used 75 % of the time of the CPUs in use"}
    journal = folder / "journal.jsonl"
    lines = [{**json.loads(line), "warnings": [busy]} for line in journal.read_text().splitlines()]
    journal.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert call(calibrate, **NOTHING, made=folder, gate=True, as_json=False) == 5
    words = said(capsys)
    assert words.startswith(
        "Not known: no fault was seen, and this run would not have seen one. None of the differences of known size was "
        "told from none: 1.05 ×, in arithmetic; and +1,000 µs, give or take 50 µs, in waits. CPU time went elsewhere"
    )
    assert "trusted" not in words
    assert "kept: `nearmetal plan` says by it" in words  # how noisy this machine is, is known all the same


def test_time_that_was_stolen_now_and_then_is_not_none(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = write(tmp_path / "made")
    of_site = {"seconds": 2.0, "cpus": "0-1", "stolen": 0.0003, "others": None, "pressure": None}
    journal = folder / "journal.jsonl"
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    for line in lines:
        line["observers"]["contention"] = {"local": of_site}
    lines[0]["observers"]["contention"] = {"local": {**of_site, "stolen": 0.9996}}
    journal.write_text("".join(json.dumps(line) + "\n" for line in lines))
    call(calibrate, **NOTHING, made=folder, gate=False, as_json=False)
    assert "(steal): 0.03 % in the median trial, at most 99.96 %" in said(capsys)


@pytest.mark.parametrize(
    ("values", "headline", "line"),
    [
        (
            {"elapsed": math.nan},
            f"Not known: of 2 of 6 comparisons nothing can be told: {explain_reason('not-finite')}.",
            f"? {explain_reason('not-finite')} arithmetic, again vs first: time taken no estimate",
        ),
        (
            {"elapsed": -1.0, "latency_p50": None},
            "Not known: of 6 of 6 comparisons nothing can be told: a value is negative, so it has no ratio; and no "
            "block has it on both sides.",
            "? no block has it on both sides replies, again vs first: median latency no estimate",
        ),
    ],
)
def test_why_nothing_can_be_told_is_not_put_on_blocks_that_are_there(
    values: dict[str, float | None], headline: str, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def odd(treatment: Assignment, workload: str, noise: float) -> dict[str, Response]:
        found = calibration_examples.sound(treatment, workload, noise)
        for name in values.keys() & found.keys():
            value = values[name]
            given = None if value is None else replace(found[name], value=value)
            found = {other: one for other, one in found.items() if other != name} | ({name: given} if given else {})
        return found

    folder = write(tmp_path / "made", odd)
    assert call(calibrate, **NOTHING, made=folder, gate=True, as_json=False) == 5
    words = said(capsys)
    assert words.startswith(headline)
    assert line in words and "too few blocks" not in words
    report = read_run_input(RunFolder(folder))
    chapter = section.render(report)
    assert chapter is not None and chapter.lead == headline.replace("Not known: of", "Of")


def test_one_that_is_wrong_is_told_first_and_not_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write(tmp_path / "made", again_is_slower)
    assert call(calibrate, **NOTHING, made=folder, gate=False, as_json=False) == 0
    words = said(capsys)
    assert words.startswith("No: 1 of 4 comparisons of alike with alike called different. Of sound machines one in")
    assert "! called different arithmetic, again vs first: time taken 1.0" in words
    assert "not kept for `nearmetal plan`, which goes by sound ones" in words
    assert kept_calibrations.read_calibrations(Paths.default().state, os.uname().release) == []
    assert call(calibrate, **NOTHING, made=folder, gate=True, as_json=True) == 5
    assert json.loads(capsys.readouterr().out)["verdict"] == "unsound"


def test_an_older_run_and_one_of_other_machines_are_told_and_not_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call(calibrate, **NOTHING, made=write(tmp_path / "made"), gate=False, as_json=False)
    assert "kept: `nearmetal plan` says by it" in said(capsys)
    for folder in (write(tmp_path / "older"), write(tmp_path / "sized")):
        manifest = RunFolder(folder).read_manifest()
        changed = {"created": "2024-03-01T12:00:00+00:00"} if folder.name == "older" else {}
        more = ("machine.vcpus=2",) if folder.name == "sized" else ()
        given = {**changed, "overrides": (*manifest.overrides, *more)}
        RunFolder(folder).write_manifest(manifest.model_copy(update=given))
        call(calibrate, **NOTHING, made=folder, gate=False, as_json=False)
        assert "not kept for `nearmetal plan`, which goes by the last whole run of this host" in said(capsys)
    (kept,) = kept_calibrations.read_calibrations(Paths.default().state, os.uname().release)
    assert kept.run == str(tmp_path / "made")


def test_a_run_of_another_host_is_told_and_not_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write(tmp_path / "made")
    brought = folder.rename(tmp_path / "brought")
    assert call(calibrate, **NOTHING, made=brought, gate=False, as_json=False) == 0
    assert "not kept for `nearmetal plan`" in said(capsys)
    assert kept_calibrations.read_calibrations(Paths.default().state, os.uname().release) == []


def test_bad_trials_are_an_exit_code_of_their_own(tmp_path: Path) -> None:
    folder = write(tmp_path / "made")
    journal = folder / "journal.jsonl"
    first, *rest = journal.read_text().splitlines()
    bad = {**json.loads(first), "status": "failed", "reason": "it broke", "responses": {}}
    journal.write_text("\n".join([json.dumps(bad), *rest]) + "\n")
    assert call(calibrate, **NOTHING, made=folder, gate=False, as_json=True) == 1


@pytest.mark.parametrize("columns", ["60", pytest.param("100", marks=pytest.mark.long)])
def test_it_fits_a_narrow_terminal(
    columns: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    call(calibrate, **NOTHING, made=write(tmp_path / "made"), gate=False, as_json=False)
    out = capsys.readouterr().out
    told = [line for line in out.splitlines() if not line.startswith("report: ")]
    assert max(map(len, told)) <= int(columns)
    table = out[out.index("The smallest difference") : out.index("spread: ")]
    assert all(str(blocks) in table for blocks in (6, 8, 12, 20, 40))


@pytest.mark.parametrize("at_once", [False, True])
def test_what_is_interrupted_says_how_to_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, at_once: bool
) -> None:
    """As if Ctrl-C came after the first block, or twice then."""
    folder = tmp_path / "made"

    def interrupted(work: Any, say: Say) -> bool:
        work.close()
        write(folder)
        if at_once:
            raise LeftAtOnce
        return False

    monkeypatch.setattr(calibrate_action, "until_interrupted", interrupted)
    wanted = NOTHING | {"environment": "mock", "output": folder}
    with pytest.raises(LeftAtOnce) if at_once else nullcontext():
        assert call(calibrate, **wanted, made=None, gate=False, as_json=False) == 4
    assert f"nearmetal resume {folder}, then nearmetal calibrate --from {folder}" in capsys.readouterr().err
    with pytest.raises(BadInput, match="--from tells of a run"):
        call(calibrate, **wanted, made=folder, gate=False, as_json=False)
