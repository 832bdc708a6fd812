"""A run's folder and its manifest."""

import datetime
import errno
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError, ValidationInfo
from pydantic_core import PydanticCustomError

from nearmetal.errors import BadInput
from nearmetal.files import write_whole
from nearmetal.model import Document, Frozen, Level, Plan, Study
from nearmetal.store import damage


def _moment(text: str) -> str:
    """One that can be compared with others: with its offset from UTC, and in a year that UTC has as well."""
    try:
        moment = datetime.datetime.fromisoformat(text)
        moment.astimezone(datetime.UTC)
    except OverflowError as error:
        raise ValueError(str(error)) from None
    if moment.tzinfo is None:
        raise ValueError("it has no offset from UTC")
    return text


def _one_for_each(reasons: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
    """As many as treatments were left out, which is read before."""
    if len(reasons) != len(info.data.get("left_out", reasons)):
        raise PydanticCustomError(damage.UNLIKE, "does not have one for each of `left_out`")
    return reasons


class MachineFacts(Frozen):
    """The probe's `facts.v1` of one machine, as found in the first boot of a treatment."""

    treatment: Mapping[str, Level]
    role: Literal["server", "client"]
    facts: Mapping[str, Any]


class Manifest(Document):
    """What was asked, what was planned, and with what: `manifest.json`."""

    schema_: Annotated[Literal["manifest.v1"], Field(alias="schema")] = "manifest.v1"
    run: str
    created: Annotated[str, AfterValidator(_moment)]
    study: Study
    source: str
    """The study file's text."""
    overrides: tuple[str, ...] = ()
    """What the command line set over it, as `--set` takes it."""
    quick: bool = False
    """Whether the file's own scaled-down version was asked for."""
    plan: Plan
    left_out: tuple[Mapping[str, Level], ...] = ()
    """Treatments that this host cannot run and that `--available` left out, each with a `reason` in `left_out_why`."""
    left_out_why: Annotated[tuple[str, ...], AfterValidator(_one_for_each), Field(validate_default=True)] = ()
    versions: Mapping[str, str]
    images: Mapping[str, str] = {}
    """Of ours that machines are made of: names to digests. All its boots have these, whatever is built meanwhile."""
    host: Mapping[str, Any]
    """The probe's `facts.v1` of the host."""
    kept_free: str = ""
    """CPUs of the host that `nearmetal isolate` kept from the run when it began, in the kernel's notation."""
    fairness: tuple[MachineFacts, ...] = ()


_FROM_A_COPY = "restore it from a copy of the run's folder"


def _not_for_this_user(path: Path) -> BadInput:
    return BadInput("this user may not read it", str(path), "name one that you may read, or read it as a user who may")


class RunFolder:
    """The files of one run. Reading needs nothing but the folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.journal = path / "journal.jsonl"
        self.artifacts = path / "artifacts"
        self.report = path / "report"
        self.page = path / "report.html"
        self._manifest = path / "manifest.json"

    @classmethod
    def open(cls, path: Path) -> "RunFolder":
        folder = cls(path)
        if path.is_dir() and not os.access(path, os.R_OK | os.X_OK):
            raise _not_for_this_user(path)
        if folder.has_manifest:
            return folder
        if folder.journal.exists():
            raise BadInput("the run's manifest is missing", str(folder._manifest), _FROM_A_COPY)
        if path.is_dir():
            what = "this is not a run's folder: it has no manifest.json"
        else:
            what = "this is a file, and not a run's folder" if path.exists() else "there is no such folder"
        raise BadInput(what, str(path), "`nearmetal ls` names runs")

    @property
    def has_manifest(self) -> bool:
        """It is written before anything is measured: without it there is nothing to go on with."""
        return self._manifest.exists()

    def manifest(self) -> Manifest:
        """BadInput when it is damaged, or of a version of nearmetal that writes others."""
        for file in (self._manifest, self.journal):
            if file.exists() and not file.is_file():
                # Whoever opens a pipe waits for its other end.
                raise BadInput("this is not a file", str(file), _FROM_A_COPY)
            if file.exists() and not os.access(file, os.R_OK):
                raise _not_for_this_user(file)
        if self.artifacts.is_symlink():
            # Whoever goes on with the run would write where it leads.
            remedy = "put the folder itself in its place"
            raise BadInput("this is a link, and not a folder of the run's own", str(self.artifacts), remedy)
        try:
            document = json.loads(self._manifest.read_text("utf-8"))
            manifest: Manifest = Manifest.from_json(document)
        except ValidationError as error:
            raise self._damaged(damage.not_as_declared(error, document)) from None
        except (ValueError, RecursionError) as error:
            raise self._damaged(damage.not_json(error)) from None
        if manifest.fairness and not (self.journal.exists() and self.journal.stat().st_size):
            # Of machines that were made the journal tells: it would pass for a run in which nothing was measured.
            what = "is empty" if self.journal.exists() else "is missing"
            raise BadInput(f"the run's journal {what}", str(self.journal), _FROM_A_COPY)
        return manifest

    def artifact(self, path: str) -> bytes:
        """What a file of a trial holds, by its path in the record. OSError or ValueError where it cannot be read.

        So it is with all that is no file among the run's own artifacts: a record that was damaged, or made to harm, may
        name any other, or a pipe, and whoever opens that waits for its other end.
        """
        file = Path(os.path.realpath(self.path / path, strict=True))
        if not (file.is_relative_to(self.path.resolve() / self.artifacts.name) and file.is_file()):
            raise OSError(errno.EINVAL, "this is no file of the run's artifacts", path)
        return file.read_bytes()

    def is_measurement(self, file: Path) -> bool:
        """Whether a file is one of what was measured, that nothing can make again."""
        place, own = file.resolve(), self.path.resolve()
        return place in (own / self._manifest.name, own / self.journal.name) or place.is_relative_to(
            own / self.artifacts.name
        )

    def _damaged(self, what: str) -> BadInput:
        return BadInput(
            f"the run's manifest cannot be read: {what}",
            str(self._manifest),
            "restore it from a copy of the run's folder, or read it with the nearmetal that wrote it",
        )

    def write_manifest(self, manifest: Manifest) -> None:
        """Replace the manifest as a whole: a reader sees the old one or the new one."""
        write_whole(self._manifest, (manifest.model_dump_json(indent=1) + "\n").encode())
