"""What report, show, ls, query, compare and dashboard make of runs that were measured with manifest version 1.

The runs lie in tests/golden/, and what was made of them then in `expected/` of each. Neither can be made again:

- run: two environments of the mock.
- sequential: looks, repeated blocks, a withdrawn treatment.
- nested: a factor that applies only sometimes, an offload, an observer, two workloads in a boot.
- kinds: hosts, containers, guests and machines reached by SSH, a guest ahead of its host; plausible, not measured.
- published: transactions beside the published ones; plausible, not measured.
- calibration: the built-in study in which all is known; plausible, not measured.
"""

import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nearmetal.dashboard.run_view import RunView, number_of
from nearmetal.report import formats
from nearmetal.report.blocks import Chart, Table
from nearmetal.report.chapters import make_sections
from nearmetal.report.report_input import read_run_input
from nearmetal.store import query, runs
from nearmetal.store.run_folder import RunFolder
from tests.command_line import called

HERE = Path(__file__).parent
RUNS = ("run", "sequential", "nested", "kinds", "published", "calibration")

_QUESTIONS = {
    "runs": "SELECT * EXCLUDE (run) FROM runs",
    "trials": "SELECT * EXCLUDE (run, boot) FROM trials ORDER BY block, attempt, position",
    "responses": "SELECT * EXCLUDE (run) FROM responses ORDER BY trial, response",
}


def tell(name: str, scratch: Path) -> dict[str, str]:
    """File name to content. Long answers and the charts are told by their SHA-256."""
    folder = RunFolder(scratch / name)
    shutil.copytree(HERE / name, folder.path, ignore=shutil.ignore_patterns("expected"))
    report = read_run_input(folder)
    chapters = make_sections(report)
    study = report.manifest.study
    blocks = [block for section in chapters for block in section.blocks]
    tables = {f"{one.name}.csv": formats.comma_separated(one) for one in blocks if isinstance(one, Table)}
    charts = {
        f"{chart.name} {panel.name}": _hash([panel.spec, panel.narrow])
        for chart in blocks
        if isinstance(chart, Chart)
        for panel in chart.panels
    }
    answers = {
        one: _hash(
            [list(map(str, row)) for row in query.answer_query(sql, [folder.path], scratch / "cache", _quiet).rows]
        )
        for one, sql in _QUESTIONS.items()
    }
    view = RunView(folder.path)
    parts = {**view.render_state(), **view.render_verdicts()}
    page = {part: _hash(_without_place(text, folder.path)) for part, text in parts.items()}
    listed, _ = runs.list_entries([folder.path])
    hashes = {
        # What a later version adds is nothing that was told then.
        "analysis": _hash(report.analysis.model_dump(mode="json", exclude_defaults=True)),
        "charts": charts,
        "query": answers,
        "page": page,
    }
    return {
        "report.md": formats.render_markdown(study.name, study.question, chapters),
        "tables.txt": "\n".join(f"── {table} ──\n{text}" for table, text in tables.items()),
        "hashes.json": json.dumps(hashes, indent=1) + "\n",
        "ls.json": json.dumps([one.model_dump(mode="json", exclude={"run"}) for one in listed], indent=1) + "\n",
        "show.txt": _called(scratch, "show", name),
        "compare.txt": _called(scratch, "compare", name, _faster(folder, scratch).name),
    }


def _faster(folder: RunFolder, scratch: Path) -> Path:
    """A run of the same study, in which half of each response was added to what was measured in it."""
    after = scratch / "after"
    shutil.copytree(folder.path, after)
    journal = after / "journal.jsonl"
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    journal.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in map(_changed, lines)))
    return after


def _changed(line: dict[str, Any]) -> dict[str, Any]:
    if line["schema"].startswith("record."):
        line["trial"]["id"] = line["trial"]["id"][::-1]
        for response in line["responses"].values():
            response["value"] *= 1.5
    return line


def _called(scratch: Path, *words: str) -> str:
    ended = called(*words, cwd=scratch, environment={"COLUMNS": "100"})
    return f"{ended.stdout}{ended.stderr}exit code {ended.returncode}\n"


def _without_place(text: str, place: Path) -> str:
    return text.replace("<wbr>", "").replace(str(place), "").replace(number_of(place), "")


def _hash(document: object) -> str:
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def _quiet(text: str) -> None:
    """What is read is not what is asked for."""


def written(name: str) -> Iterator[tuple[str, str]]:
    """What was told of a run when it was made."""
    for file in sorted((HERE / name / "expected").iterdir()):
        yield file.name, file.read_text()
