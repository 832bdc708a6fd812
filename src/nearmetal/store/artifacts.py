"""Whether a file that somebody names is an artifact of a run, and still the one that its record names."""

import hashlib
from pathlib import Path

from nearmetal.errors import BadInput
from nearmetal.model import TrialRecord
from nearmetal.store import journal
from nearmetal.store.folder import NOT_AS_RECORDED, RunFolder


def hash_file(file: Path) -> str:
    """SHA-256 in hexadecimal. OSError."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def describe_change(file: Path) -> str | None:
    """What a reader of a run's artifact has to know before they believe it; None of one that is as recorded, and of a
    file that is no run's. OSError."""
    place = file.resolve()
    for folder in (RunFolder(parent.parent) for parent in place.parents if parent.name == "artifacts"):
        if not folder.journal.is_file():
            continue
        try:
            lines = journal.read_lines(folder.journal)
        except BadInput as error:
            return f"whether it is as recorded cannot be told: {error.what}"
        path = str(place.relative_to(folder.path))
        recorded = [
            artifact.sha256
            for line in lines
            if isinstance(line, TrialRecord)
            for artifact in line.artifacts
            if artifact.path == path
        ]
        if recorded and hash_file(place) not in recorded:
            return NOT_AS_RECORDED
    return None
