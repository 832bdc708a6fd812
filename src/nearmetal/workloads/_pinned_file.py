"""A file that a study names: read when the study is planned, and by its checksum the same ever after."""

import hashlib
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from nearmetal.errors import ToolFailed
from nearmetal.model import Frozen, Machine

MOST = 64 * 2**20
"""Bytes. It is carried to every client of every trial."""


class PinnedFile(Frozen):
    path: str
    """Absolute."""
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]

    def read(self) -> bytes:
        """Its content. ToolFailed when it is gone, or another than when the study was planned."""
        remedy = "put it back as it was, or begin another run"
        try:
            content = Path(self.path).read_bytes()
        except OSError as error:
            raise ToolFailed(f"cannot read {self.path}: {error.strerror}", "", remedy) from None
        if hashlib.sha256(content).hexdigest() != self.sha256:
            raise ToolFailed(f"{self.path} has changed since the study was planned", "", remedy)
        return content

    def locate_in(self, machine: Machine) -> str:
        """Where it lies in a machine: beside the probe."""
        return f"{machine.probe}.{self.sha256[:16]}"


def _pin_value(value: Any) -> Any:
    """A path as a study writes it becomes the file with its checksum. ValueError."""
    if not isinstance(value, str):
        return value
    path = Path(value).expanduser().absolute()
    try:
        if path.is_file() and path.stat().st_size > MOST:
            raise ValueError(f"{value!r} is larger than {MOST >> 20} MiB: name a smaller file")
        content = path.read_bytes()
    except OSError as error:
        raise ValueError(f"cannot read {value!r}: {error.strerror}: name a file that you may read") from None
    return {"path": str(path), "sha256": hashlib.sha256(content).hexdigest()}


StudyFile = Annotated[PinnedFile, BeforeValidator(_pin_value)]


def pin_files(written: Any, validated: Any) -> Any:
    """What was written, with every path of a file in the form that has its checksum. `validated` is what came of it."""
    if isinstance(validated, PinnedFile):
        return validated.model_dump()
    if isinstance(written, dict) and isinstance(validated, Frozen):
        return {name: pin_files(value, getattr(validated, name, None)) for name, value in written.items()}
    if isinstance(written, list | tuple) and isinstance(validated, list | tuple):
        return [pin_files(one, other) for one, other in zip(written, validated, strict=True)]
    return written
