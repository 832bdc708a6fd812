"""A run made by an earlier version is read as it was meant, and concludes what it concluded."""

import json
from pathlib import Path
from typing import Any

from nearmetal.report.write import render
from nearmetal.store.journal import read_records
from nearmetal.store.run_folder import RunFolder
from tests.golden.make_run import FOLDER, concluded

RUN = RunFolder(FOLDER)


def test_its_conclusions_are_the_same() -> None:
    told, kept = json.loads(concluded(RUN)), json.loads((FOLDER / "concluded.json").read_text())
    # Without what a later version concludes besides.
    for document, other in ((told, kept), (kept, told)):
        document["contrasts"] = [
            {name: value for name, value in one.items() if name in known}
            for one, known in zip(document["contrasts"], other["contrasts"], strict=True)
        ]
    assert told == kept


def test_its_records_survive_a_round_trip() -> None:
    lines = [json.loads(line) for line in RUN.journal.read_text().splitlines()]
    written = [line for line in lines if line["schema"].startswith("record.")]
    assert len(written) == 16
    # Without what records have got since, and under the name that they have now.
    found = [record.model_dump(mode="json") for record in read_records(RUN.journal)]
    assert keep_keys(found, written) == [{**line, "schema": "record.v2"} for line in written]


def keep_keys(found: Any, written: Any) -> Any:
    """What was found, without the keys that were not written."""
    if isinstance(found, dict):
        return {name: keep_keys(value, written[name]) for name, value in found.items() if name in written}
    if isinstance(found, list):
        return [keep_keys(one, other) for one, other in zip(found, written, strict=True)]
    return found


def test_its_report_can_be_made_from_the_folder_alone(tmp_path: Path) -> None:
    text = render(RUN, "md")
    assert isinstance(text, str)
    assert "golden" in text
    assert "different" in text
