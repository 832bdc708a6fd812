"""Journals as nobody measured them: those of a run that is there, changed in some of their lines."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nearmetal.store.folder import RunFolder


@contextmanager
def changed(journal: Path) -> Iterator[list[dict[str, Any]]]:
    """All its lines, records and events: what is made of them within is written back, as a run writes them."""
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    yield lines
    journal.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))


def emptied(folder: RunFolder) -> None:
    """As of a run that was killed before its first machine was made, of which its manifest tells nothing either."""
    folder.write_manifest(folder.manifest().model_copy(update={"fairness": ()}))
    folder.journal.write_bytes(b"")
