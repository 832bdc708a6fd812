"""Whether a run's folder is as it was written: manifest, every line, every trial against the plan, every file of one.

Readers refuse what they cannot read, at its first fault. This looks at all, and names all.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, PrivateAttr

from nearmetal.errors import BadInput
from nearmetal.model import Artifact, Document, Frozen, Identity, Plan, TrialRecord, TrialStatus, identify_assignment
from nearmetal.store import journal
from nearmetal.store.manifest import Manifest
from nearmetal.store.progress import RunProgress
from nearmetal.store.run_folder import AHEAD, NOT_AS_RECORDED, RunFolder, hash_file
from nearmetal.study.blocks import checksum_trial_ids, plan_block
from nearmetal.study.user_files import collect_files

Step = Callable[[str], None]
"""Is told what is looked at now."""

_LINES_A_STEP = 1000
_ATTEMPTS_KEPT = 8
"""Of a plan of a million trials not all are held at once."""


class Damage(Frozen):
    """Something of a run that is not as it was written."""

    file: str
    """Its path in the run's folder."""
    what: str


class Verification(Document):
    """What `nearmetal verify` prints with `--json`: `verify.v1`."""

    schema_: Annotated[Literal["verify.v1"], Field(alias="schema")] = "verify.v1"
    run: str
    is_whole: bool
    """Nothing is damaged."""
    lines: int
    """Of the journal, without a last one that was cut by a crash: that never counted."""
    without_checksum: int
    """Of these lines: earlier versions wrote none, and nobody can tell whether such a line was changed."""
    trials: int
    artifacts: int
    """Files that records name."""
    damaged: tuple[Damage, ...]
    unknown: tuple[str, ...]
    """Files that no record names, such as those of a trial that was interrupted. They are in nobody's way."""
    _trials: frozenset[str] = PrivateAttr(frozenset())
    """Ids of those that have a record."""

    def list_without_record(self) -> tuple[str, ...]:
        """Of the unknown files those of trials that have no record at all."""
        parts = {name: Path(name).parts for name in self.unknown}
        return tuple(
            name
            for name, (folder, *inside) in parts.items()
            if folder == "artifacts" and len(inside) > 1 and inside[0] not in self._trials
        )


def verify(path: Path, step: Step) -> Verification:
    """Look at all that a run's folder holds. BadInput when it is no run's folder; OSError."""
    folder = RunFolder(path)
    if not folder.journal.exists():
        folder = RunFolder.open(path)
    damaged: list[Damage] = []
    step("the manifest")
    manifest = _check_manifest(folder, damaged)
    trials = _Trials(manifest.plan if manifest is not None and manifest.trial_ids is not None else None)
    artifacts: dict[str, Artifact] = {}
    lines = bare = 0
    for line in _read_checked(folder, damaged):
        lines += 1
        bare += not line.has_checksum
        if lines % _LINES_A_STEP == 0:
            step(f"line {lines:,}")
        if isinstance(line.content, BadInput):
            damaged.append(Damage(file=folder.journal.name, what=line.content.what))
            continue
        damaged += [Damage(file=folder.journal.name, what=what) for what in trials.take_line(line.number, line.content)]
        if isinstance(line.content, TrialRecord):
            artifacts |= {one.path: one for one in line.content.artifacts}
    damaged += [Damage(file=folder.journal.name, what=what) for what in trials.find_missing_blocks()]
    for number, (name, artifact) in enumerate(artifacts.items(), 1):
        step(f"file {number:,} of {len(artifacts):,}")
        if (what := _check_artifact(folder, artifact)) is not None:
            damaged.append(Damage(file=name, what=what))
    carried = _list_carried(manifest, folder)
    for carried_path, sha256 in carried.items():
        if (what := _check_carried(folder.path / carried_path, sha256)) is not None:
            damaged.append(Damage(file=carried_path, what=what))
    found = Verification(
        run=str(path),
        is_whole=not damaged,
        lines=lines,
        without_checksum=bare,
        trials=trials.progress.trials,
        artifacts=len(artifacts),
        damaged=tuple(damaged),
        unknown=tuple(sorted(_find_unknown(folder, [*artifacts, *carried]))),
    )
    found._trials = trials.ids
    return found


def _check_manifest(folder: RunFolder, damaged: list[Damage]) -> Manifest | None:
    try:
        manifest = RunFolder.open(folder.path).read_manifest()
    except BadInput as error:
        damaged.append(Damage(file=Path(error.where).name, what=error.what))
        return None
    if manifest.trial_ids not in (None, checksum_trial_ids(manifest.plan)):
        damaged.append(Damage(file="manifest.json", what="its trials are not those of its plan"))
    return manifest


def _read_checked(folder: RunFolder, damaged: list[Damage]) -> Iterator[journal.CheckedLine]:
    if not folder.journal.exists():
        return
    try:
        yield from journal.check_lines(folder.journal)
    except BadInput as error:
        if all(one.file != folder.journal.name for one in damaged):
            damaged.append(Damage(file=folder.journal.name, what=error.what))


def _check_artifact(folder: RunFolder, named: Artifact) -> str | None:
    """What is wrong with a file of a trial."""
    try:
        file = folder.place_artifact(named.path)
        return None if hash_file(file) == named.sha256 else NOT_AS_RECORDED
    except (OSError, ValueError) as error:
        return (isinstance(error, OSError) and error.strerror) or str(error)


def _list_carried(manifest: Manifest | None, folder: RunFolder) -> Mapping[str, str]:
    """Files that the study carries into machines, each with its SHA-256."""
    resolved = () if manifest is None else manifest.plan.resolved
    return {f"{folder.files.name}/{one.sha256}": one.sha256 for one in collect_files(resolved)}


def _check_carried(path: Path, sha256: str) -> str | None:
    if not path.is_file():  # whoever opens a pipe waits for its other end
        return "it is not there, or no file"
    try:
        return None if hash_file(path) == sha256 else NOT_AS_RECORDED
    except OSError as error:
        return error.strerror


def _find_unknown(folder: RunFolder, artifacts: Iterable[str]) -> Iterator[str]:
    known = {"manifest.json", folder.journal.name, folder.page.name, folder.live.name, *artifacts}
    for place, folders, files in os.walk(folder.path):
        if Path(place) == folder.path:
            folders[:] = [name for name in folders if name not in (folder.report.name, AHEAD)]
        inside = Path(place).relative_to(folder.path)
        yield from (path for name in files if (path := str(inside / name)) not in known)


class _Trials:
    """The trials of a journal, line by line, against those of its plan: their ids, their order, and that none lacks."""

    def __init__(self, plan: Plan | None) -> None:
        self.progress = RunProgress()
        self._plan = plan
        self._numbers: dict[str, int] = {}
        """Of lines, by the trial's id."""
        self._has_bad: dict[int, dict[int, bool]] = defaultdict(dict)
        """Block and attempt, of those that have a record: whether one is not ok."""
        self._planned = lru_cache(_ATTEMPTS_KEPT)(self._plan_attempt)

    @property
    def ids(self) -> frozenset[str]:
        """Of those that have a record."""
        return frozenset(self._numbers)

    def take_line(self, number: int, line: journal.Line) -> Iterator[str]:
        """The next line; what is wrong with its place in the run."""
        if isinstance(line, TrialRecord):
            yield from self._take_record(number, line)
        else:
            if line["event"] == "BlockEnded":
                yield from self._find_missing(number, line["block"], line["attempt"])
            self.progress.take_line(line)

    def _take_record(self, number: int, record: TrialRecord) -> Iterator[str]:
        trial = record.trial
        before = self._numbers.setdefault(trial.id, number)
        if before != number:
            yield f"line {number} is of the same trial as line {before}"
            return
        if self._plan is not None:
            named = (identify_assignment(trial.treatment), trial.workload, trial.repeat)
            is_planned = 0 <= trial.block < self._plan.blocks and trial.attempt >= 0
            if not is_planned or trial.id not in (expected := self._planned(trial.block, trial.attempt)):
                yield f"line {number} is of no trial of the plan"
            elif expected[trial.id] != named:
                yield f"line {number} has the id of another trial of the plan"
        attempts = self._has_bad[trial.block]
        if trial.attempt and not attempts.get(trial.attempt - 1):
            yield f"line {number} repeats a block of which no trial went wrong before"
        attempts[trial.attempt] = attempts.get(trial.attempt, False) or record.status is not TrialStatus.OK
        self.progress.take_line(record)

    def _find_missing(self, number: int, block: int, attempt: int) -> Iterator[str]:
        """When a block has ended each of its trials has a line, but for treatments that were withdrawn meanwhile."""
        if self._plan is not None:
            planned = self._planned(block, attempt)
            lacking = [
                id
                for id, (treatment, _, _) in planned.items()
                if id not in self._numbers and treatment not in self.progress.reasons
            ]
            if lacking:
                yield f"line {number} ends a block of which {len(lacking)} of {len(planned)} trials have no line"

    def find_missing_blocks(self) -> Iterator[str]:
        """Of a run that has come to its end, blocks without a single trial."""
        plan = self._plan
        if plan is None or not self.progress.is_over:
            return
        if all(identify_assignment(treatment) in self.progress.reasons for treatment in plan.treatments):
            return
        for block in range(self.progress.blocks_to_run(plan.blocks)):
            if block not in self._has_bad:
                yield f"block {block + 1} has no line, though the run has come to its end"

    def _plan_attempt(self, block: int, attempt: int) -> dict[str, tuple[Identity, str, int]]:
        """Of each trial of an attempt, by its id, what it measures."""
        assert self._plan is not None
        planned = plan_block(self._plan, block, attempt)
        return {
            trial.id: (identify_assignment(boot.treatment), trial.workload, trial.repeat)
            for boot in planned.boots
            for trial in boot.trials
        }
