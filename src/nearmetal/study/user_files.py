"""Files of the user's that a study carries into machines: read when it is planned, kept in the run's folder."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from nearmetal.errors import BadInput
from nearmetal.model import PlacedFile, Resolved
from nearmetal.model.services import split_file
from nearmetal.system.files import refuse_irregular, write_whole

LARGEST = 256 * 2**20
"""Bytes of one file: it is held in memory, and sent to every machine."""


class FileReader:
    """Reads each file once, from where a study names it."""

    def __init__(self, beside: Path = Path(), known: Iterable[Resolved] = (), kept: Path | None = None) -> None:
        """`beside`: the folder that relative paths begin in. Files of `known` treatments are as they were read then;
        `kept` is where `write` put them. OSError."""
        self._beside = beside
        self._read = {f"{one.source}:{one.destination}": one for one in collect_files(known)}
        self.contents: dict[str, bytes] = {}
        """Of all that was read, by SHA-256."""
        if kept is not None:
            for file in self._read.values():
                self.contents[file.sha256] = (kept / file.sha256).read_bytes()

    def read(self, text: str, where: str) -> PlacedFile:
        """The file that "SOURCE:DESTINATION" names. BadInput, said of `where`, when it cannot be read."""
        if text not in self._read:
            source, destination = split_file(text)
            path = self._beside / Path(source).expanduser()
            content, mode = _read_regular(path, where)
            sha256 = hashlib.sha256(content).hexdigest()
            self.contents[sha256] = content
            self._read[text] = PlacedFile(source=source, destination=destination, sha256=sha256, mode=mode)
        return self._read[text]

    def write(self, folder: Path) -> None:
        """Keep the contents of all that was read, each file called by its SHA-256. OSError."""
        for sha256, content in self.contents.items():
            write_whole(folder / sha256, content)


def _read_regular(path: Path, where: str) -> tuple[bytes, int]:
    """Contents and permissions. BadInput."""
    try:
        refuse_irregular(path, LARGEST)
        return path.read_bytes(), path.stat().st_mode & 0o777
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        remedy = "name a regular file; a relative path begins in the folder of the study"
        raise BadInput(f"{path} cannot be read: {why}", where, remedy) from None


def collect_files(resolved: Iterable[Resolved]) -> tuple[PlacedFile, ...]:
    """Every file that treatments carry along, once."""
    found: dict[tuple[str, str], PlacedFile] = {}
    for treatment in resolved:
        lists = [service.files for service in treatment.services.values()]
        for files in (*lists, *(workload.files for workload in treatment.workloads)):
            found |= {(one.source, one.destination): one for one in files}
    return tuple(found.values())
