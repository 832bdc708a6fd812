"""What a browser gets of a run: its state in words and pictures, and whatever a study calls its things stays text."""

import json
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest

from nearmetal.dashboard import page
from nearmetal.dashboard.list_view import ListView
from nearmetal.dashboard.run_view import RunView, number_of
from nearmetal.store.journal_lock import hold_journal
from nearmetal.store.run_folder import RunFolder
from tests import journals, plausible_run
from tests.golden.make_run import FOLDER

HOSTILE = "</title><script>alert(1)</script>\"'\n<!--strip-0-0--><img src=x onerror=alert(2)>&lt;\u202e"


class Elements(HTMLParser):
    """Every element, attribute and piece of text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data

    @property
    def words(self) -> str:
        return " ".join(self.text.split())


def shown(path: Path) -> str:
    view = RunView(path)
    parts = {**view.render_state(), **view.render_verdicts()}
    return page.run(view.manifest, path, 1, parts, is_one_of_many=True)


@pytest.fixture
def golden(tmp_path: Path) -> RunFolder:
    """A copy of the golden run."""
    return RunFolder(Path(shutil.copytree(FOLDER, tmp_path / "golden")))


def keep(folder: RunFolder, lines: int) -> list[bytes]:
    """Cut a journal to its first lines; what was cut."""
    content = folder.journal.read_bytes().splitlines(keepends=True)
    folder.journal.write_bytes(b"".join(content[:lines]))
    return content[lines:]


# ── What it says ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_run_that_has_ended_has_its_verdicts_and_a_way_to_its_report(golden: RunFolder) -> None:
    text = Elements(shown(golden.path)).words
    assert "ended 16 trials, 8 blocks" in text
    wrong, verdicts = text.partition("Is anything wrong?")[2].split("Verdicts", 1)
    assert wrong.startswith(
        " Nothing went wrong. Warnings: the values count, read them with care. warning the whole run "
    )
    assert "base and slow: a pretended machine" in wrong
    assert "a pretended machine" not in verdicts, "told once"
    assert "different, worse" in text
    assert f"nearmetal report {golden.path}" in text
    golden.page.write_text("a report")
    assert ("href", f"/runs/{number_of(golden.path)}/report") in Elements(shown(golden.path)).attributes


def test_a_run_that_goes_on_is_told_from_one_that_was_interrupted(golden: RunFolder) -> None:
    keep(golden, 40)
    with hold_journal(golden.journal):
        text = Elements(shown(golden.path)).words
        assert "running" in text
        assert "nearmetal resume" not in text
    text = Elements(shown(golden.path)).words
    assert "interrupted" in text
    assert f"nearmetal resume {golden.path}" in text


def test_before_the_first_block_it_gets_ready(golden: RunFolder) -> None:
    journals.emptied(golden)
    killed = Elements(shown(golden.path)).words
    assert "interrupted 0 of 16 trials, 8 blocks" in killed
    assert f"nearmetal resume {golden.path}" in killed
    with hold_journal(golden.journal):
        text = Elements(shown(golden.path)).words
    assert "running 0 of 16 trials, 8 blocks" in text
    assert "getting ready" in text
    assert "A comparison takes a block in which both of its sides were measured." in text


def test_fixed_blocks_have_no_verdict_before_the_last_of_them(golden: RunFolder) -> None:
    """With seven blocks of eight the interval excludes 1 by far, and still nothing is decided."""
    events = [line.get("event") for line in map(json.loads, golden.journal.read_text().splitlines())]
    ended = [number for number, name in enumerate(events) if name == "BlockEnded"]
    keep(golden, ended[-2] + 1)
    with hold_journal(golden.journal):
        text = Elements(shown(golden.path)).words
    assert "There is no verdict before the last of 8 blocks." in text
    assert "undecided" in text
    assert "the run has not ended" in text
    assert "95 % interval" in text
    assert "different, worse" not in text


def test_what_has_not_changed_is_not_made_again(golden: RunFolder) -> None:
    rest = keep(golden, 40)
    view = RunView(golden.path)
    assert view.render_state() and view.render_verdicts()
    assert view.render_state() == view.render_verdicts() == {}
    with golden.journal.open("ab") as out:
        out.write(rest[0][:10])
    view.render_state()
    assert view.course is not None
    before = view.course.lines
    with golden.journal.open("ab") as out:
        out.write(rest[0][10:] + rest[1])
    assert view.render_state()
    assert view.course.lines == before + 2


def test_a_folder_that_goes_and_comes_back(golden: RunFolder, tmp_path: Path) -> None:
    view = RunView(golden.path)
    view.render_state()
    golden.path.rename(tmp_path / "away")
    gone = view.render_state()
    assert "not there any more" in gone["state"]
    assert gone["grid"] == gone["verdicts"] == ""
    assert view.render_verdicts() == {}
    (tmp_path / "away").rename(golden.path)
    assert "16 trials" in view.render_state()["state"]
    assert "different" in view.render_verdicts()["verdicts"]


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        "{}",
        "null",
        '{"schema":"event.v1"}',
        '{"schema":"event.v1","event":"BootStarted"}',
        '{"schema":"event.v1","event":["x"]}',
        '{"schema":"record.v1","trial":1}',
        "[" * 100_000,
    ],
)
def test_a_line_that_cannot_be_read_is_told_and_mended(golden: RunFolder, line: str) -> None:
    content = golden.journal.read_bytes()
    golden.journal.write_bytes(content + line.encode() + b"\n")
    view = RunView(golden.path)
    assert "cannot be read" in view.render_state()["state"]
    golden.journal.write_bytes(content)
    assert "16 trials" in view.render_state()["state"]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"schema": "manifest.v2"}'])
def test_a_manifest_that_cannot_be_read_is_told(golden: RunFolder, content: str) -> None:
    (golden.path / "manifest.json").write_text(content)
    text = Elements(shown(golden.path)).words
    assert "cannot be read manifest.json: the run's manifest cannot be read" in text
    assert "Remedy: restore it" in text


def test_a_manifest_that_is_gone_is_told_and_what_cannot_be_told_leaves_no_empty_box(golden: RunFolder) -> None:
    (golden.path / "manifest.json").unlink()
    written = shown(golden.path)
    text = Elements(written).words
    assert "cannot be read manifest.json: the run's manifest is missing Remedy: restore it" in text
    assert all(f'<section id="{name}"></section>' in written for name in ("grid", "troubles", "verdicts"))
    assert "section:empty{display:none}" in page.read_style()


# ── The list ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_list_has_what_is_running_first_and_what_cannot_be_read_too(golden: RunFolder, tmp_path: Path) -> None:
    running = RunFolder(Path(shutil.copytree(golden.path, tmp_path / "on")))
    keep(running, 30)
    bad = tmp_path / "bad"
    bad.mkdir()
    (bad / "manifest.json").write_text("{")
    places = [bad, golden.path, running.path]
    view = ListView(lambda: places)
    with hold_journal(running.journal):
        items = view.render_runs()["runs"].split("<li>")[1:]
        assert [state in item for state, item in zip(("running", "ended", "cannot be read"), items, strict=True)]
        assert f"/runs/{number_of(running.path)}" in items[0]
        assert "manifest.json: the run&#39;s manifest cannot be read: it is not JSON (line 1, column 2)" in items[2]
    assert "interrupted" in view.render_runs()["runs"]
    places.clear()
    assert "There is no run yet" in view.render_runs()["runs"]


# ── Hostile names ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A run whose question, environment, reasons and folder are what nobody should call them."""
    made = plausible_run.make(tmp_path / "<script>alert(3)<!-- '\"", blocks=6)

    def named(text: str) -> str:
        return text.replace('"docker"', json.dumps(HOSTILE)).replace("did not answer", json.dumps(HOSTILE)[1:-1])

    journals.rewrite(made.journal, named)
    with journals.changed_manifest(made.path) as manifest:
        hostile = json.loads(named(json.dumps(manifest)))
        manifest.clear()
        manifest.update(hostile)
        manifest["study"]["question"] = HOSTILE
    return made.path


def test_hostile_names_stay_text(hostile: Path) -> None:
    written = shown(hostile)
    told = Elements(written)
    assert told.tags.count("script") == 1, "our own"
    assert "img" not in told.tags
    assert not [name for name, _ in told.attributes if name.startswith("on") or name == "style"]
    assert not [value for name, value in told.attributes if name in ("href", "src") and "alert" in value]
    assert "alert(1)" in told.text, "shown, as text"
    assert "\u202e" not in written
    assert "&lt;!--strip-0-0--&gt;" in written, "no place for squares"
    listed = Elements(page.render_runs(1, ListView(lambda: [hostile]).render_runs()))
    assert listed.tags.count("script") == 1
    assert "alert(3)" in listed.text


# ── What is wrong ─────────────────────────────────────────────────────────────────────────────────────────────────


def wrong(path: Path) -> str:
    """What stands in the one place for it."""
    return Elements(shown(path)).words.partition("Is anything wrong?")[2].partition("Verdicts")[0]


def test_all_that_is_wrong_stands_in_one_place_whatever_it_is_about(golden: RunFolder) -> None:
    """Of the whole run, of a comparison and of a trial; while it is measured, and after its end."""
    manifest = json.loads((golden.path / "manifest.json").read_text())
    manifest |= {"left_out": [{"environment": "qemu"}], "left_out_why": ["no QEMU on this host"]}
    (golden.path / "manifest.json").write_text(json.dumps(manifest))
    lines = [json.loads(line) for line in golden.journal.read_text().splitlines()]
    of_slow = [line for line in lines if line.get("trial", {}).get("treatment") == {"environment": "slow"}]
    for number, record in enumerate(of_slow):  # ever slower
        record["responses"]["throughput"]["value"] *= 0.8**number
    of_slow[0]["warnings"] = [{"code": "steal", "text": "the host took 3.4 % away"}]
    written = [json.dumps(line, separators=(",", ":")) + "\n" for line in lines]
    golden.journal.write_text("".join(written))
    for told in (
        "warning the whole run environment=qemu was left out: no QEMU on this host",
        "warning the whole run base and slow: a pretended machine",
        "warning slow vs base, web the difference in throughput drifted over the blocks",
        "warning slow, web block 1 the host took 3.4 % away",
    ):
        assert told in wrong(golden.path)
    assert wrong(golden.path).count("the host took") == 1
    golden.journal.write_text("".join(written[: len(written) - 4]))
    with hold_journal(golden.journal):
        assert "a pretended machine" in wrong(golden.path)
        assert "has not come to its end" not in wrong(golden.path), "the state says so"


def test_a_host_that_was_busy_all_the_time_is_told_once_of_the_whole_run(golden: RunFolder) -> None:
    with journals.changed(golden.journal) as lines:
        for line in lines:
            if line["schema"].startswith("record."):
                busy = {"code": "busy-host", "text": f"the host spent {60 + line['trial']['block']} % elsewhere"}
                other = {"code": "another-run", "text": "another nearmetal was at work"}
                line["warnings"] = [busy, other]
    told = wrong(golden.path)
    assert "warning the whole run the host spent 60 to 67 % elsewhere, in all 16 trials: these are figures" in told
    assert told.count("the host spent") == 1
    assert told.count("another nearmetal") == 1, "of trials, and of nothing else"


def test_what_was_withdrawn_is_told_once(golden: RunFolder) -> None:
    with golden.journal.open("a") as out:
        for event in (
            {"event": "Withdrawn", "treatment": {"environment": "slow"}, "reason": "it never came up"},
            {"event": "RunEnded", "interrupted": False},
        ):
            out.write(json.dumps({"schema": "event.v1", **event}) + "\n")
    text = Elements(shown(golden.path)).words
    assert text.count("it never came up") == 1
    assert "withdrawn slow it never came up" in wrong(golden.path)
    assert "A failure by a treatment's own fault is that trial's outcome" in wrong(golden.path)
