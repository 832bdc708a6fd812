"""What `compare` and its gate say of two runs."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from nearmetal.analysis.gates import parse_gate
from nearmetal.analysis.run_comparison import Comparison
from nearmetal.commands import compare_output
from nearmetal.commands import runs as runs_commands
from nearmetal.errors import BadInput
from nearmetal.spelling import did_you_mean
from nearmetal.store.run_folder import RunFolder
from tests import journals
from tests.command_line import call, called

GOLDEN = Path(__file__).parents[1] / "golden" / "run"


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Path, Path]:
    """The golden run, and the same where the machines that are not the reference do a tenth less."""
    before, after = (Path(shutil.copytree(GOLDEN, tmp_path / name)) for name in ("before", "after"))
    made(after, "2026-11-22T22:19:46+00:00")
    scale(after, lambda environment: 0.9 if environment == "slow" else 1.0)
    return before, after


def compare(before: Path, after: Path, margin: float | None, gate: bool, as_json: bool) -> int:
    gates = [parse_gate("worse")] if gate else []
    return compare_output.compare_runs([before], [after], margin, gates, "json" if as_json else "text")


def made(run: Path, created: str) -> None:
    manifest = json.loads((run / "manifest.json").read_text())
    (run / "manifest.json").write_text(json.dumps({**manifest, "created": created}))


def scale(run: Path, factor: Callable[[str], float]) -> None:
    with journals.changed(run / "journal.jsonl") as lines:
        for line in lines:
            if line["schema"].startswith("record.") and "throughput" in line["responses"]:
                line["responses"]["throughput"]["value"] *= factor(line["trial"]["treatment"]["environment"])


def told(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().out.split())


def test_a_gate_is_for_what_is_surely_worse(runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    before, after = runs
    assert compare(before, after, None, gate=False, as_json=False) == 0
    text = told(capsys)
    assert "no recorded fact of study, software, host or machines differs between the two" in text
    assert "▼ different, worse slow: throughput 0.9" in text
    assert "▼ different, worse slow vs base: throughput 0.90 × what it was (0.8" in text
    assert "! the run named second is the older of the two" not in text
    assert compare(before, after, None, gate=True, as_json=False) == 5
    assert "gate not met: 1 comparison is surely worse than before, by more than the margin" in told(capsys)
    assert compare(before, after, 0.2, gate=True, as_json=False) == 0
    assert compare(after, before, None, gate=True, as_json=False) == 0
    text = told(capsys)
    assert "gate met: no comparison is surely worse than before, by more than the margin" in text


def change_records(run: Path, change: Callable[[dict[str, Any]], object], environment: str = "slow") -> None:
    with journals.changed(run / "journal.jsonl") as lines:
        for line in lines:
            if line["schema"].startswith("record.") and line["trial"]["treatment"]["environment"] == environment:
                change(line)


def test_a_gate_that_is_met_tells_what_is_undecided(
    runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    before, after = runs

    def scatter(line: dict[str, Any]) -> None:
        line["responses"]["throughput"]["value"] *= 0.5 if line["trial"]["block"] % 2 else 2.0

    change_records(after, scatter)
    assert compare(before, after, None, gate=True, as_json=False) == 0
    assert "by more than the margin; 1 of 1 is undecided" in told(capsys)


def test_what_has_no_good_trial_any_more_fails_a_gate(
    runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    before, after = runs
    change_records(after, lambda line: line.update(status="failed", reason="it broke", responses={}))
    assert compare(before, after, None, gate=True, as_json=False) == 5
    text = told(capsys)
    assert f"16 trials ok folder: {before} after: " in text and f"8 trials ok, 8 failed folder: {after} " in text
    assert "slow vs base: throughput cannot be compared; no good trial of the run after has it" in text
    assert "8 and 8 blocks; in brackets" in text
    assert "gate not met: 1 comparison has no good trial after" in text
    assert compare(after, before, None, gate=True, as_json=False) == 5
    text = told(capsys)
    assert "slow vs base: throughput cannot be compared; no good trial of the run before has it" in text
    why = "(no good trial of the run before has it)"
    assert f"gate not met: 1 comparison has no interval, so that nothing can be decided {why}" in text
    assert "! before: 8 trials that are not ok name nobody who is to blame, as in all runs of version 1" in text


def test_part_of_a_name_is_enough_to_be_told_the_response() -> None:
    assert (
        did_you_mean("p99", ["errors", "latency_p50", "latency_p99"], "choose one of") == "did you mean `latency_p99`?"
    )


def test_why_a_gate_cannot_judge_is_told(runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    before, after = runs
    change_records(after, lambda line: line["responses"]["throughput"].update(value=-1.0))
    assert compare(before, after, None, gate=True, as_json=False) == 5
    text = told(capsys)
    assert "slow vs base: throughput cannot be compared; a value of the run after is zero or negative, so it" in text
    assert "gate not met: 1 comparison cannot be judged any more (a value of the run after is zero or neg" in text
    assert compare(after, before, None, gate=True, as_json=False) == 5
    text = told(capsys)
    assert "throughput cannot be compared; a value of the run before is zero or negative" in text
    assert "1 comparison has no interval, so that nothing can be decided" in text


def test_what_fails_or_does_nothing_is_unbounded(runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    before, after = runs
    change_records(after, lambda line: line["responses"]["throughput"].update(value=0.0))
    assert compare(before, after, None, gate=True, as_json=False) == 5
    text = told(capsys)
    became = "throughput has no typical ratio to what it was (unbounded to unbounded)"
    assert f"different, worse slow vs base: {became}" in text
    failed = {"schema": "record.v2", "status": "failed", "blame": "treatment", "cause": "service-died", "responses": {}}
    shutil.copy(before / "journal.jsonl", after / "journal.jsonl")
    change_records(after, lambda line: line["trial"]["block"] > 2 or line.update(failed, reason="it broke"))
    assert compare(before, after, None, gate=True, as_json=False) == 0
    text = told(capsys)
    assert re.search(r"slow vs base: throughput 0\.9\d* × what it was \(unbounded to 1\.0\d*\)", text)
    assert "the treatment failed in 0 of 8 blocks before and 3 of 8 blocks after, which ranks below every value" in text
    assert "; 1 comparison failed more often than before, though not surely" in text


def test_what_was_withdrawn_is_told(runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    before, after = runs
    gone = {"schema": "event.v1", "event": "Withdrawn", "at_ns": 1, "treatment": {"environment": "slow"}, "reason": "x"}
    with journals.changed(after / "journal.jsonl") as lines:
        lines.insert(-1, gone)
    assert compare(before, after, None, gate=True, as_json=False) == 5
    text = told(capsys)
    assert (
        "▼ withdrawn slow vs base: throughput in the run after it failed so often that it was measured no more" in text
    )
    assert "gate not met: 1 comparison was withdrawn after failures" in text


def test_blocks_that_lack_it_are_told(runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    before, after = runs
    shutil.copy(before / "journal.jsonl", after / "journal.jsonl")
    change_records(after, lambda line: line["trial"]["block"] or line["responses"].pop("throughput"))
    assert compare(before, after, None, gate=True, as_json=False) == 0
    assert "; 7 of 8 blocks of the run after have it" in told(capsys)


def test_runs_without_one_good_trial_are_told_so(runs: tuple[Path, Path]) -> None:
    for run in runs:
        for environment in ("base", "slow"):
            change_records(run, lambda line: line.update(status="invalid", reason="late", responses={}), environment)
    with pytest.raises(BadInput, match="no good trial of what both runs were to measure"):
        compare(*runs, None, gate=True, as_json=False)


def test_names_do_not_steer_a_terminal_and_an_older_run_is_told(
    runs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, after = runs
    hostile = after.rename(tmp_path / "after\x1b[31m\u202e[red]")
    made(hostile, "2020-01-01T00:00:00+00:00")
    assert compare(before, hostile, None, gate=False, as_json=False) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out and "\u202e" not in out and "[red]" in out
    assert "! the run named second is the older of the two" in out


def test_lines_are_whole_where_nobody_says_how_wide_a_pipe_is(
    runs: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = []
    for columns in ("5000", ""):
        monkeypatch.setenv("COLUMNS", columns)
        compare(*runs, None, gate=True, as_json=False)
        said.append(capsys.readouterr().out.splitlines())
    assert said[0] == said[1] == [line.rstrip() for line in said[1]] and max(map(len, said[1])) > 80


def test_runs_are_headed_by_what_they_are_and_below_it_where_they_lie(
    runs: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In 60 columns, whatever became of them; a path stays whole, to be copied."""
    before, after = runs
    with journals.changed(after / "journal.jsonl") as lines:
        del lines[len(lines) // 2 :]
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.chdir(before.parent)
    long = Path("a" * 70)
    after.rename(long)
    compare(Path("before"), long, None, gate=False, as_json=False)
    assert capsys.readouterr().out.splitlines()[:5] == [
        "before: golden of 2026-11-21T22:19:46+00:00: 16 trials ok",
        "  folder: before",
        "after: golden of 2026-11-22T22:19:46+00:00: 8 trials ok;",
        "  interrupted, 16 trials were planned",
        f"  folder: {long}",
    ]


def test_differences_are_told_as_changes(runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    as_difference = {"value": 0.0, "unit": "", "scale": "difference"}
    for run in runs:
        for environment in ("base", "slow"):
            change_records(run, lambda line: line["responses"]["throughput"].update(as_difference), environment)
    assert compare(*runs, None, gate=False, as_json=False) == 0
    text = told(capsys)
    assert (
        "slow: throughput changed by 0 (0 to 0); its median was 0, so a margin in percent of it means nothing" in text
    )
    assert "slow vs base: throughput changed by 0 (0 to 0); the median of the reference is 0, so a margin" in text


def test_a_host_that_is_slower_as_a_whole_does_not_fail_a_gate(
    runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    before, after = runs
    shutil.copy(before / "journal.jsonl", after / "journal.jsonl")
    scale(after, lambda environment: 0.8)
    assert compare(before, after, None, gate=True, as_json=False) == 0
    assert "▼ different, worse base: throughput 0.80" in told(capsys)


def without_slow(run: Path, left_out: bool) -> None:
    """As if the study had one level less, or a host had lacked what it takes."""
    manifest = json.loads((run / "manifest.json").read_text())
    plan = manifest["plan"]
    plan["treatments"] = [one for one in plan["treatments"] if one["environment"] != "slow"]
    plan["contrasts"] = [one for one in plan["contrasts"] if one["treatment"]["environment"] != "slow"]
    if left_out:
        manifest |= {"left_out": [{"environment": "slow"}], "left_out_why": ["mock thing: as the study asked"]}
    (run / "manifest.json").write_text(json.dumps(manifest))
    lines = (run / "journal.jsonl").read_text().splitlines(keepends=True)
    (run / "journal.jsonl").write_text("".join(one for one in lines if '"environment":"slow"' not in one))


@pytest.mark.parametrize("left_out", [True, False])
def test_what_the_run_after_was_not_even_to_measure_fails_a_gate(
    runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str], left_out: bool
) -> None:
    before, after = runs
    shutil.copy(before / "journal.jsonl", after / "journal.jsonl")
    without_slow(after, left_out)
    assert compare(before, after, None, gate=True, as_json=False) == 5
    text = told(capsys)
    why = "; left out of the other, mock thing: as the study asked" if left_out else ""
    assert f"Only one of the runs was to measure it before: slow: web{why} " in text
    assert "was not planned in the run after" in text
    # What is new was not there to be held against.
    assert compare(after, before, None, gate=True, as_json=False) == 0
    assert "after: slow: web" in told(capsys)


def test_another_primary_response_is_told_by_its_name(
    runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    before, after = runs
    shutil.copy(before / "journal.jsonl", after / "journal.jsonl")
    manifest = json.loads((after / "manifest.json").read_text())
    workload = manifest["study"]["workloads"][0]
    manifest["study"]["workloads"] = [workload, {**workload, "name": "more"}]
    manifest["plan"]["primaries"] = {"web": "latency_p50", "more": "throughput"}
    (after / "manifest.json").write_text(json.dumps(manifest))
    earlier = json.loads((before / "manifest.json").read_text())
    earlier["study"]["workloads"] = manifest["study"]["workloads"]
    earlier["plan"]["primaries"] = {"web": "throughput", "more": "throughput"}
    (before / "manifest.json").write_text(json.dumps(earlier))
    lines = (before / "journal.jsonl").read_text()
    more = lines.replace('"workload":"web"', '"workload":"more"').replace('"trial":{"id":"', '"trial":{"id":"more-')
    both = lines + more
    for run in runs:
        (run / "journal.jsonl").write_text(both)
    compare(before, after, None, gate=True, as_json=False)
    text = told(capsys)
    assert "before: base: web (throughput)" in text and "after: base: web (median latency)" in text


def test_a_run_that_has_not_come_to_its_end_is_called_so(
    runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    before, after = runs
    with journals.changed(after / "journal.jsonl") as lines:
        del lines[len(lines) // 2 :]
    compare(before, after, None, gate=False, as_json=False)
    text = told(capsys)
    assert "; interrupted, " in text and text.count("were planned") == 1
    assert "! after:" not in text, "it stands beside the number of trials already, and with each comparison"
    assert compare(before, after, None, gate=False, as_json=True) == 0
    unfinished, begun = warnings_in(capsys)
    assert begun == ("after", "blocks-missing", "4 of 8 planned blocks were begun")
    assert unfinished[:2] == ("after", "unfinished")


def test_what_is_to_be_said_of_each_comparison_is_said_once(
    runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """As how many blocks are missing."""
    before, after = runs
    for environment in ("base", "slow"):
        change_records(
            after, lambda line: line["trial"]["block"] < 5 or line["responses"].pop("throughput", None), environment
        )
    compare(before, after, None, gate=False, as_json=False)
    text = told(capsys)
    assert text.count("5 of 8 blocks of the run after have it") == 1
    assert "! in each of these: 5 of 8 blocks of the run after have it" in text
    assert compare(before, after, None, gate=False, as_json=True) == 0
    found = json.loads(capsys.readouterr().out)["changes"]
    assert [[one["code"] for one in change["warnings"]] for change in found] == [
        ["blocks-missing", "one-run-a-side"]
    ] * 3


def warnings_in(capsys: pytest.CaptureFixture[str]) -> list[tuple[str, str, str]]:
    """Those of the document, but for what the golden run is told of as a whole: its machines are pretended."""
    warnings = json.loads(capsys.readouterr().out)["warnings"]
    return [(one["run"], one["code"], one["text"]) for one in warnings if one["code"] != "pretended"]


def resumed_with(run: Path, **changed: tuple[str, str]) -> None:
    """As if it had been interrupted after its first block, and resumed after an upgrade."""
    event = {"schema": "event.v1", "event": "RunResumed", "at_ns": 1, "finished": 2, "changed": changed}
    with journals.changed(run / "journal.jsonl") as lines:
        lines.insert(-1, event)


def test_a_run_that_was_measured_by_two_versions_is_told(
    runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    before, after = runs
    resumed_with(after, QEMU=("7.2.0", "7.2.1"))
    text = "the trials after it was resumed were made with another QEMU: 7.2.1 instead of 7.2.0"
    compare(before, after, None, gate=False, as_json=False)
    said = told(capsys)
    assert f"! after: {text}" in said and "! before:" not in said
    compare(after, before, None, gate=False, as_json=True)
    assert warnings_in(capsys) == [("before", "versions-changed", text)]
    call(runs_commands.show, run=after, as_json=False)
    assert f"! {text}" in told(capsys)


def disturbed(run: Path, blocks: int) -> None:
    """As if other programs had been busy in so many of the blocks."""
    busy = {"code": "busy-host", "text": "other programs used 75 % of the time of the CPUs in use"}
    change_records(run, lambda line: line["trial"]["block"] < blocks and line.update(warnings=[busy]))


@pytest.mark.parametrize("which", ["before", "after"])
def test_a_run_of_a_busy_host_is_told_before_the_figures(
    runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str], which: str
) -> None:
    disturbed(runs[which == "after"], 4)
    text = (
        "other programs used 75 % of the time of the CPUs in use, in 4 of 16 trials: these are figures of a busy host; "
        "repeat the run on a quiet one"
    )
    compare(*runs, None, gate=False, as_json=False)
    said = told(capsys)
    assert said.count("busy host") == 1
    assert -1 < said.find(f"! {which}: {text}") < said.index("Each treatment, after against before")
    compare(*runs, None, gate=False, as_json=True)
    assert warnings_in(capsys) == [(which, "busy-host", text)]


def test_a_run_that_was_disturbed_in_a_few_trials_is_not_called_that_of_a_busy_host(
    runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    disturbed(runs[1], 3)
    compare(*runs, None, gate=False, as_json=True)
    assert warnings_in(capsys) == []


def test_machines_that_are_not_what_they_seem_are_told_once_of_both_runs(
    runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    emulated = {"resources": {"accel": "tcg"}}
    change_records(runs[1], lambda line: line.update(readback=emulated))
    compare(*runs, None, gate=False, as_json=False)
    said = told(capsys)
    assert said.count("pretended machine") == 1
    assert "! before and after: base and slow: a pretended machine (mock), whose figures say nothing" in said
    assert "! after: slow ran by emulation (tcg)" in said


def test_scripts_get_the_whole(runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert compare(*runs, None, gate=True, as_json=True) == 5
    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], document["worse"]) == ("compare.v1", 1)
    assert len(Comparison.model_validate(document).changes) == 3


def test_runs_that_cannot_be_compared_are_refused(runs: tuple[Path, Path], tmp_path: Path) -> None:
    before, after = runs
    (tmp_path / "link").symlink_to(before)
    with pytest.raises(BadInput, match="both are the same run"):
        compare(before, tmp_path / "link", None, gate=False, as_json=False)
    with pytest.raises(BadInput, match="not a run's folder"):
        compare(before, tmp_path, None, gate=False, as_json=False)
    with journals.changed(after / "journal.jsonl") as lines:
        del lines[1:]  # killed before a trial
    assert compare(before, after, None, gate=True, as_json=False) == 5
    with pytest.raises(BadInput, match="no good trial of what both runs were to measure") as refused:
        compare(after, before, None, gate=True, as_json=False)
    assert (refused.value.where, RunFolder.open(after).read_manifest().study.name) == (str(after), "golden")


def test_a_copy_of_a_run_is_that_run(tmp_path: Path) -> None:
    copy = Path(shutil.copytree(GOLDEN, tmp_path / "copy"))
    with pytest.raises(BadInput, match=r"both are the same run: they share 16 trials") as refused:
        compare(GOLDEN, copy, None, gate=True, as_json=False)
    assert refused.value.where == str(copy)
    with journals.changed(copy / "journal.jsonl") as lines:
        del lines[len(lines) // 2 :]  # taken while the run went on
    with pytest.raises(BadInput, match=r"both are the same run: they share 8 trials"):
        compare(copy, GOLDEN, None, gate=True, as_json=False)


def test_runs_that_began_in_the_same_second_are_two(runs: tuple[Path, Path]) -> None:
    """As of two hosts whose timers start them; what ended before it was measured may be told alike."""
    before, after = runs
    made(after, RunFolder(before).read_manifest().created)
    for environment in ("base", "slow"):
        change_records(after, lambda line: line["phases_ns"].update(measure=1), environment)
    lost: dict[str, Any] = {
        "status": "lost",
        "reason": "it never came up",
        "boot": None,
        "responses": {},
        "phases_ns": {},
    }
    for run in runs:
        change_records(run, lambda line: line["trial"]["block"] or line.update(lost, machines=[]))
    assert compare(before, after, None, gate=False, as_json=False) == 0


# ── Several runs, gates, formats: as they are typed ───────────────────────────────────────────────────────────────


@pytest.fixture
def four(runs: tuple[Path, Path], tmp_path: Path) -> list[str]:
    """Two runs before, and two after in which slow does a tenth less."""
    before, after = runs
    places = [before, after]
    for number, run in enumerate((before, after)):
        again = Path(shutil.copytree(run, tmp_path / f"{run.name}-again"))
        made(again, f"2026-11-2{number}T23:00:00+00:00")
        change_records(again, lambda line: line["phases_ns"].update(measure=number))  # noqa: B023
        scale(again, lambda environment: 0.999 if environment == "slow" else 1.0)
        places.append(again)
    return [str(places[index]) for index in (0, 2, 1, 3)]


def test_several_runs_a_side_are_compared(four: list[str]) -> None:
    sides = ["--before", *four[:2], "--after", *four[2:]]
    ended = called("compare", *sides, "--gate")
    assert ended.returncode == 5
    text = " ".join(ended.stdout.split())
    assert "▼ different, worse slow vs base: throughput 0.900 × what it was (0.897 to 0.903)" in text
    assert "2 and 2 runs of 16 and 16 blocks; each run counts as one value" in text
    assert "! each run: base and slow: a pretended machine" in text
    assert called("compare", "--gate", *(word for path in four[:2] for word in ("--before", path)), *sides[3:]).stdout
    disturbed(Path(four[1]), 4)
    assert f"! before ({four[1]}): other programs used" in called("compare", *sides).stdout
    few = called("compare", "--before", four[0], "--after", *four[2:], "--gate")
    assert (few.returncode, "too few runs to tell; it takes 2 a side" in few.stdout) == (5, True)
    document = json.loads(called("compare", *sides, "--format", "json").stdout)
    assert (document["before_runs"], document["after_runs"]) == (four[:2], four[2:])


def test_a_bare_gate_may_stand_anywhere(four: list[str]) -> None:
    before, after = four[0], four[2]
    for words in (
        ("--gate", before, after),
        (before, "--gate", after),
        (before, after, "--gate"),
        (before, after, "--gate=strict"),
        (before, after, "--gate", "strict"),
        (before, after, "--gate", "throughput > -5%"),
        (before, after, "--gate=throughput > -5%", "--gate=throughput > -50%"),
    ):
        assert called("compare", *words).returncode == 5, words
    assert called("compare", before, after, "--gate=throughput > -20%").returncode == 0
    assert called("compare", after, before, "--gate=strict").returncode == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("{0}",), "AFTER is missing"),
        (("--before", "{0}"), "--after is missing"),
        (("{0}", "{1}", "--before", "{0}", "--after", "{1}"), "is named beside --before and --after"),
        (("{0}", "{2}", "--json", "--format", "md"), "--json and --format are two words for one thing"),
        (("{0}", "{2}", "--format", "junit"), "there is no gate"),
        (("{0}", "{2}", "--gate=loose"), "'loose' is no gate"),
        (("{0}", "{2}", "--gate=throughputs > -3%"), "did you mean `throughput`?"),
        (("{0}", "{2}", "--gate=zzz > -3%"), "choose one of: "),
        (("{0}", "{0}"), "both are the same run"),
        (("--before", "{0}", "{1}", "--after", "{2}", "{0}"), "both are the same run"),
    ],
)
def test_what_cannot_be_asked_is_refused(four: list[str], words: tuple[str, ...], said: str) -> None:
    ended = called("compare", *(word.format(*four) for word in words))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert said in ended.stderr


def hostile(run: str) -> str:
    """Names that steer what shows them."""
    return run.replace('"slow"', json.dumps("s]]>&<b>|`\x00\x1b[31m@all\u202e"))


def test_other_programs_get_what_they_can_read(four: list[str]) -> None:
    sides = ["--before", *four[:2], "--after", *four[2:]]
    junit = called("compare", *sides, "--gate", "--gate=throughput > -20%", "--format", "junit")
    assert junit.returncode == 5
    root = ElementTree.fromstring(junit.stdout)
    assert (root.get("tests"), root.get("failures")) == ("2", "1")
    assert [suite.get("name") for suite in root] == ["gate", "gate throughput > -20%"]
    (failed, passed) = root.iter("testcase")
    assert (failed.get("name"), failed.get("classname")) == ("slow vs base: throughput", "golden.web")
    (failure,) = failed
    assert failure.get("type") == "worse" and (failure.text or "").startswith("0.900 × what it was")
    assert [child.tag for child in passed] == ["system-out"]
    markdown = called("compare", *sides, "--gate", "--format", "md")
    assert markdown.returncode == 5
    assert "- ❌ Gate not met: 1 comparison is surely worse than before, by more than the margin" in markdown.stdout
    assert "| ▼ different, worse | slow vs base | throughput | 0.900 × what it was (0.8" in markdown.stdout


def test_hostile_names_stay_names(four: list[str]) -> None:
    for path in four:
        journals.rewrite_run(Path(path), hostile)
    sides = ["--before", *four[:2], "--after", *four[2:]]
    junit = called("compare", *sides, "--gate", "--format", "junit").stdout
    (case,) = ElementTree.fromstring(junit).iter("testcase")
    assert (case.get("name") or "").startswith("s]]>&<b>|`")
    markdown = called("compare", *sides, "--gate", "--format", "md").stdout
    (line,) = [line for line in markdown.splitlines() if " vs base" in line]
    assert r"s\]\]\>\&\<b\>\|\`" in line and "@⁠all" in line
    assert not {"\x1b", "\x00", "\u202e"} & set(junit + markdown)
