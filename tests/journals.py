"""Journals as nobody measured them: those of a run that is there, changed in some of their lines."""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from nearmetal.store.checksum import add_checksum, without_checksum
from nearmetal.store.journal import render_line
from nearmetal.store.run_folder import RunFolder


@contextmanager
def changed(journal: Path) -> Iterator[list[dict[str, Any]]]:
    """All its lines, records and events: what is made of them within is written back, as a run writes them."""
    lines = [json.loads(without_checksum(line)) for line in journal.read_bytes().splitlines()]
    yield lines
    journal.write_bytes(b"".join(map(render_line, lines)))


@contextmanager
def changed_records(journal: Path) -> Iterator[list[dict[str, Any]]]:
    """Its records alone; events stay as they are, before them."""
    with changed(journal) as lines:
        records = [line for line in lines if line["schema"].startswith("record")]
        events = [line for line in lines if not line["schema"].startswith("record")]
        yield records
        lines[:] = [*events, *records]


def rewrite(journal: Path, change: Callable[[str], str]) -> None:
    """Change the text of each line of a journal, which `change` gets without its checksum; a new one is added."""
    lines = [change(without_checksum(line).decode()) for line in journal.read_bytes().splitlines()]
    journal.write_bytes(b"".join(add_checksum(line.encode()) + b"\n" for line in lines))


def rewrite_manifest(run: Path, change: Callable[[str], str]) -> None:
    """Change the text of a run's manifest, which `change` gets without its checksum; a new one is added."""
    file = run / "manifest.json"
    content = without_checksum(file.read_bytes().removesuffix(b"\n"))
    file.write_bytes(add_checksum(change(content.decode()).encode()) + b"\n")


def rewrite_run(run: Path, change: Callable[[str], str]) -> None:
    """The text of a run's manifest and of each line of its journal."""
    rewrite_manifest(run, change)
    rewrite(run / "journal.jsonl", change)


@contextmanager
def changed_manifest(run: Path) -> Iterator[dict[str, Any]]:
    """What a manifest holds: what is made of it within is written back, as by a version that wrote no checksum."""
    file = run / "manifest.json"
    manifest = json.loads(file.read_text())
    manifest.pop("sum", None)
    yield manifest
    file.write_text(json.dumps(manifest))


def replace_artifacts(folder: RunFolder, pattern: str, content: bytes) -> None:
    """Files of trials whose names match, with what their records say of them."""
    written = {"sha256": hashlib.sha256(content).hexdigest()}
    with changed_records(folder.journal) as records:
        for artifact in (artifact for record in records for artifact in record["artifacts"]):
            if fnmatch(Path(artifact["path"]).name, pattern):
                (folder.path / artifact["path"]).write_bytes(content)
                artifact.update(written)


def emptied(folder: RunFolder) -> None:
    """As of a run that was killed before its first machine was made."""
    folder.write_manifest(folder.read_manifest().model_copy(update={"fairness": ()}))
    shutil.rmtree(folder.artifacts, ignore_errors=True)
    folder.journal.write_bytes(b"")
