"""Which runs there are: those in a folder, and those put elsewhere, which an index in the state folder knows."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from nearmetal.errors import BadInput, NearmetalError
from nearmetal.model import Frozen, TrialStatus
from nearmetal.store import journal, runs
from nearmetal.store.journal_lock import is_locked
from nearmetal.store.manifest import Manifest
from nearmetal.store.progress import RunProgress
from nearmetal.store.run_folder import RunFolder
from nearmetal.study.measurement_digest import digest_measurement
from nearmetal.system.files import write_whole

_HOST = (("processor", "model"), ("memory", "total_bytes"), ("kernel", "architecture"))
"""Facts that a host keeps while its software changes."""


def count_earlier_runs(folder: RunFolder) -> int:
    """Runs beside this one that began before it, on a host of the same processor and memory, and measured the same.

    Each draws a seed of its own, and may have another number of blocks.
    Runs that were moved elsewhere or removed are not known. What cannot be read does not count.
    """
    mine = folder.read_manifest()
    measured = digest_measurement(mine.study)
    return sum(
        one.created < mine.created and _find_host(one) == _find_host(mine) and digest_measurement(one.study) == measured
        for one in _read_beside(folder.path.resolve(), mine.study.name)
    )


def _read_beside(path: Path, study: str) -> Iterator[Manifest]:
    try:
        places = runs.find_runs(path.parent)
    except (BadInput, OSError):
        return
    named = re.compile(rb'"name":\s*' + re.escape(json.dumps(study, ensure_ascii=False).encode()))
    for place in places:
        other = RunFolder(place)
        try:
            # A manifest may hold a million trials: those of other studies are not parsed.
            if place.resolve() != path and named.search((place / "manifest.json").read_bytes()):
                yield other.read_manifest()
        except (BadInput, OSError):
            continue


def _find_host(manifest: Manifest) -> tuple[Any, ...]:
    groups = [manifest.host.get(group) for group, _ in _HOST]
    return tuple(
        group.get(name) if isinstance(group, Mapping) else None for group, (_, name) in zip(groups, _HOST, strict=True)
    )


_INDEX = "runs.json"

State = Literal["running", "ended", "interrupted"]


class RunEntry(Frozen):
    """A run at a glance."""

    run: str
    study: str
    created: str
    trials: int
    """Records so far, repeated blocks included."""
    again: int
    """Of these, those of blocks that were repeated."""
    ok: int
    """Of these."""
    planned: int
    state: State


class Unreadable(Frozen):
    """A run's folder that tells nothing, with the reason."""

    run: str
    reason: str


def remember_run(folder: Path, state: Path) -> None:
    """Note where a run lies, and forget those that are gone. Only for who measures: runs begin one at a time."""
    known = {str(path) for path in list_remembered(state)}
    places = sorted(known | {str(folder.resolve())})
    write_whole(state / _INDEX, (json.dumps(places, indent=1) + "\n").encode())


def list_remembered(state: Path) -> list[Path]:
    """Runs that the index knows and that are still there. An index that cannot be read is none."""
    try:
        places = json.loads((state / _INDEX).read_text("utf-8"))
    except (FileNotFoundError, ValueError):
        return []
    if not isinstance(places, list):
        return []
    return [Path(place) for place in places if isinstance(place, str) and _is_run(Path(place))]


def list_known(usual: Path, state: Path) -> list[Path]:
    """Runs that lie where runs are put by themselves, and those elsewhere that the index knows. Each once."""
    places = [*(find_runs(usual) if usual.is_dir() else []), *list_remembered(state)]
    return list({path.resolve(): path for path in places}.values())


def find_runs(folder: Path) -> list[Path]:
    """Runs that lie directly in a folder, or the folder itself when it is one. BadInput when there is no folder."""
    if not folder.is_dir():
        what = "this is a file, not a folder" if folder.exists() else "there is no such folder"
        raise BadInput(what, str(folder), "name one that holds runs, or none to list those known")
    if _is_run(folder):
        return [folder]
    return [path for path in sorted(folder.iterdir()) if path.is_dir() and _is_run(path)]


def _is_run(path: Path) -> bool:
    """Whether a folder is a run's, or one into which this user may not look."""
    try:
        return any(file.name in ("manifest.json", "journal.jsonl") for file in path.iterdir())
    except PermissionError:
        return True
    except OSError:
        return False


def list_entries(places: Iterable[Path]) -> tuple[list[RunEntry], list[Unreadable]]:
    """What there is to say of each run, the oldest first; and the folders that could not be read."""
    looked = [_read_entry(path) for path in {path.resolve(): path for path in places}.values()]
    listed = [one for one in looked if isinstance(one, RunEntry)]
    return sorted(listed, key=lambda one: one.created), [one for one in looked if isinstance(one, Unreadable)]


def _read_entry(path: Path) -> RunEntry | Unreadable:
    folder = RunFolder(path)
    try:
        manifest = RunFolder.open(path).read_manifest()
        is_measured = folder.journal.exists() and is_locked(folder.journal)  # first: what ends meanwhile is whole then
        progress = RunProgress.from_lines(journal.read_lines(folder.journal))
    except (BadInput, OSError) as error:
        return Unreadable(run=str(path), reason=describe_unreadable(error, path))
    plan = manifest.plan
    return RunEntry(
        run=str(path),
        study=manifest.study.name,
        created=manifest.created,
        trials=progress.trials,
        again=progress.repeated,
        ok=progress.counts[TrialStatus.OK],
        planned=progress.blocks_planned(plan.blocks) * (plan.trials // plan.blocks),
        state=describe_state(progress, is_measured),
    )


def describe_unreadable(error: NearmetalError | OSError, run: Path) -> str:
    """Why a run's folder tells nothing: which of its files, and what about it."""
    if isinstance(error, OSError):
        return f"{Path(error.filename or run).name}: {error.strerror}"
    return f"{Path(error.where or run).name}: {error.what}"


def find_state(records: Path) -> State:
    """Of the run whose journal this is: the one answer for whoever lists it, shows it or goes on with it."""
    if not records.exists():
        return "interrupted"
    is_measured = is_locked(records)
    last = journal.read_last_event(records)
    return describe_state(RunProgress.from_lines([last] if last.get("event") == "RunEnded" else []), is_measured)


def describe_state(progress: RunProgress, is_measured: bool) -> State:
    """Of a run by its journal. What was killed before its first trial was interrupted too, and can go on."""
    if is_measured:
        return "running"
    return "ended" if progress.is_over else "interrupted"
