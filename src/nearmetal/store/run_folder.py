"""A run's folder and its manifest."""

import errno
import hashlib
import json
import os
import re
from pathlib import Path

from pydantic import ValidationError

from nearmetal.errors import BadInput
from nearmetal.model import Artifact, TrialRecord
from nearmetal.store import bundle, damage, journal
from nearmetal.store.checksum import CHANGED, ChecksumMismatch, add_checksum, lacks_only_its_end, without_checksum
from nearmetal.store.manifest import Manifest
from nearmetal.store.upgrade import upgrade_v1
from nearmetal.system.files import read_regular, write_whole


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


AHEAD = "ahead"
"""Of a run on a fleet, the folder of what was measured and does not stand in the journal."""

NOT_AS_RECORDED = "it was changed after it was written: its SHA-256 is another than its record's"
"""Of an artifact."""

_FROM_A_COPY = "restore it from a copy of the run's folder"


def _describe_no_run(path: Path) -> str:
    if path.is_dir():
        return "this is not a run's folder: it has no manifest.json"
    if not path.exists():
        return "there is no such folder"
    is_empty = path.is_file() and not path.stat().st_size
    return f"this is {'an empty' if is_empty else 'a'} file, and neither a run's folder nor a bundle"


def _make_permission_error(path: Path) -> BadInput:
    return BadInput("this user may not read it", str(path), "name one that you may read, or read it as a user who may")


class RunFolder:
    """The files of one run. Reading needs nothing but the folder, or a bundle of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.bundle: Path | None = None
        """Where it was unpacked from: then nothing is written to `path`, which goes with this process."""
        self.journal = path / "journal.jsonl"
        self.artifacts = path / "artifacts"
        self.files = path / "files"
        """Contents of the files that the study carries into machines, each called by its SHA-256."""
        self.report = path / "report"
        self.page = path / "report.html"
        self.live = path / "live.json"
        """The step that goes on, while it is measured."""
        self.request = path / "request"
        """What it was asked to do meanwhile."""
        self._manifest = path / "manifest.json"
        self._known: Manifest | None = None

    @classmethod
    def open(cls, path: Path) -> "RunFolder":
        if bundle.is_bundle(path):
            unpacked = cls.open(bundle.unpack_bundle(path))
            unpacked.bundle = path
            return unpacked
        folder = cls(path)
        if path.is_dir() and not os.access(path, os.R_OK | os.X_OK):
            raise _make_permission_error(path)
        if folder.has_manifest:
            return folder
        if folder.journal.exists():
            raise BadInput("the run's manifest is missing", str(folder._manifest), _FROM_A_COPY)
        raise BadInput(_describe_no_run(path), str(path), "`nearmetal ls` names runs")

    @property
    def named(self) -> Path:
        """As whoever reads it knows it: its bundle, or the folder."""
        return self.bundle or self.path

    @property
    def has_manifest(self) -> bool:
        """It is written before anything is measured: without it there is nothing to go on with."""
        return self._manifest.exists()

    def read_manifest(self) -> Manifest:
        """BadInput when it is damaged, or of a version of nearmetal that writes others.

        Parsed once: a manifest is never written again.
        """
        if self._known is None:
            self._known = self._read_manifest()
        return self._known

    def _read_manifest(self) -> Manifest:
        for file in (self._manifest, self.journal):
            if file.exists() and not file.is_file():
                # Whoever opens a pipe waits for its other end.
                raise BadInput("this is not a file", str(file), _FROM_A_COPY)
            if file.exists() and not os.access(file, os.R_OK):
                raise _make_permission_error(file)
        if self.artifacts.is_symlink():
            # Whoever goes on with the run would write where it leads.
            remedy = "put the folder itself in its place"
            raise BadInput("this is a link, and not a folder of the run's own", str(self.artifacts), remedy)
        try:
            document = json.loads(self._read_as_written().decode())
            manifest = self._parse_manifest(document).with_facts(())
        except ValidationError as error:
            raise self._make_damage_error(damage.not_as_declared(error, document)) from None
        except ChecksumMismatch:
            raise self._make_damage_error(CHANGED) from None
        except (ValueError, RecursionError) as error:
            raise self._make_damage_error(damage.not_json(error)) from None
        is_measured = bool(manifest.fairness) or (self.artifacts.is_dir() and any(self.artifacts.iterdir()))
        if is_measured and not (self.journal.exists() and self.journal.stat().st_size):
            # It would pass for a run in which nothing was measured.
            what = "is empty" if self.journal.exists() else "is missing"
            raise BadInput(f"the run's journal {what}", str(self.journal), _FROM_A_COPY)
        return manifest

    def _read_as_written(self) -> bytes:
        """The manifest without its checksum. Changed."""
        content = read_regular(self._manifest, _FROM_A_COPY)
        whole = content.removesuffix(b"\n")
        if whole == content and lacks_only_its_end(content):
            raise ChecksumMismatch(CHANGED)
        return without_checksum(whole)

    def read_artifact(self, named: Artifact) -> bytes:
        """What a file of a trial holds, as its record names it. OSError where it cannot be read or is no file among the
        run's artifacts, ValueError where it is not the file that was written."""
        content = self.place_artifact(named.path).read_bytes()
        if hashlib.sha256(content).hexdigest() != named.sha256:
            raise ValueError(NOT_AS_RECORDED)
        return content

    def place_artifact(self, path: str) -> Path:
        """The regular file among the run's own artifacts that has this path in a record. OSError, ValueError.

        A record that was damaged, or made to harm, may name any other, or a pipe, and whoever opens that waits for its
        other end.
        """
        file = Path(os.path.realpath(self.path / path, strict=True))
        if not (file.is_relative_to(self.path.resolve() / self.artifacts.name) and file.is_file()):
            raise OSError(errno.EINVAL, "it is no file of the run's artifacts", path)
        return file

    def is_measurement(self, file: Path) -> bool:
        """Whether a file is one of what was measured, that nothing can make again."""
        place, own = file.resolve(), self.path.resolve()
        return place in (own / self._manifest.name, own / self.journal.name) or any(
            place.is_relative_to(own / folder.name) for folder in (self.artifacts, self.files)
        )

    def _make_damage_error(self, what: str) -> BadInput:
        return BadInput(
            f"the run's manifest cannot be read: {what}",
            str(self._manifest) if self.bundle is None else f"{self.bundle}: {self._manifest.name}",
            "restore it from a copy of the run's folder, or read it with the nearmetal that wrote it",
        )

    def _parse_manifest(self, document: object) -> Manifest:
        """Whichever version it is. ValidationError; BadInput of one that is of a later version."""
        schema = document.get("schema") if isinstance(document, dict) else None
        if schema == "manifest.v1":
            return upgrade_v1(document)
        if isinstance(schema, str) and re.fullmatch(r"manifest\.v[0-9]+", schema) and schema != "manifest.v2":
            what = f"the run's manifest is of a later version ({schema})"
            raise BadInput(what, str(self._manifest), "read it with the nearmetal that wrote it, or a newer one")
        return Manifest.from_json(document)  # type: ignore[no-any-return]

    def write_manifest(self, manifest: Manifest) -> None:
        """As a whole, once: a reader sees none, or all of it."""
        write_whole(self._manifest, render_manifest(manifest))
        self._known = manifest.with_facts(())


def render_manifest(manifest: Manifest) -> bytes:
    """A manifest as it is written: a line for each key, for those who look into it, and one for its checksum."""
    document = manifest.model_dump(mode="json")
    lines = (f"{json.dumps(name)}: {json.dumps(value, separators=(',', ':'))}" for name, value in document.items())
    return add_checksum(("{\n" + ",\n".join(lines) + "\n}").encode()) + b"\n"
