"""Journals as nobody measured them: those of a run that is there, changed in some of their lines."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def changed(journal: Path) -> Iterator[list[dict[str, Any]]]:
    """All its lines, records and events: what is made of them within is written back, as a run writes them."""
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    yield lines
    journal.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
