"""Two small files of a run that goes on: the step it is at, and what it was asked to do.

Both lie in the run's folder, where a power cut may take them. Neither is part of a run: bundles leave them out, and
they are removed at its beginning and at its end.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationError

from nearmetal.errors import BadInput
from nearmetal.model import Document, Level
from nearmetal.store.run_folder import RunFolder
from nearmetal.system.files import open_regular, remove_file, replace_file

_LONGEST = 2**16
"""Bytes of either file that are read: the folder may be somebody else's."""


class LiveNote(Document):
    """`live.v1`: the step that a run is at."""

    schema_: Annotated[Literal["live.v1"], Field(alias="schema")] = "live.v1"
    step: str
    """As a record's `phases_ns` names it; or undo, destroy, paused."""
    since_ns: int
    """Unix time at which it began."""
    usual_ns: int | None = None
    """How long the same step took the last time, of the same treatment and workload."""
    block: int
    """From 0 on."""
    attempt: int
    """From 0 on."""
    treatment: Mapping[str, Level]
    workload: str = ""
    """Of the trial; "" of a step that is its boot's."""

    @classmethod
    def read(cls, folder: RunFolder) -> Self | None:
        """None if there is no such file, or another than this."""
        content = _read_small(folder.live)
        if content is None:
            return None
        try:
            return cls.model_validate_json(content)
        except ValidationError:
            return None

    def write(self, folder: RunFolder) -> None:
        """A disk that is full stops no run for this."""
        with suppress(OSError):
            replace_file(folder.live, self.model_dump_json().encode())


Wish = Literal["pause", "stop"]


def read_wish(request: Path) -> Wish | None:
    """What a run is asked to do; None if it is to go on. `request` is the folder's file of that name."""
    content = _read_small(request)
    return None if content is None else "stop" if content.strip() == b"stop" else "pause"


def write_wish(folder: RunFolder, wish: Wish | None) -> None:
    """Ask a run to pause after its trial or to stop; with None, to go on. OSError."""
    if wish is None:
        folder.request.unlink(missing_ok=True)
    else:
        replace_file(folder.request, wish.encode() + b"\n")


def forget_live(folder: RunFolder) -> None:
    """Remove both. What cannot be removed stops no run."""
    for file in (folder.live, folder.request):
        with suppress(OSError):
            remove_file(file)


def _read_small(path: Path) -> bytes | None:
    try:
        with os.fdopen(open_regular(path, "", os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            content = file.read(_LONGEST + 1)
    except (OSError, BadInput):
        return None
    return content if len(content) <= _LONGEST else None
