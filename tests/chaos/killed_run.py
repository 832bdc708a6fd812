"""A run that is killed: no finished trial may be lost, changed or run twice, and none blamed wrongly."""

import contextlib
import random
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from nearmetal.model import TrialRecord
from nearmetal.store.journal import read_records
from nearmetal.store.run_folder import RunFolder
from tests.live.two_hosts import kill_tree

from .killed import Failed, Killed, Surroundings
from .places import Place, write_study


class KilledRun(Killed):
    """One run, which is resumed until it has come to its end."""

    of_the_run = ("controller", "block", "forks", "group", "all of it")

    def __init__(
        self, around: Surroundings, chosen: random.Random, place: Place, folder: Path, note: Callable[[str], None]
    ) -> None:
        super().__init__(
            around, chosen, place, folder, lambda what: note(f"{what}, {len(self.finished)} trials before")
        )
        self.finished: dict[str, str] = {}
        """Records of trials by their ids."""
        self._process: subprocess.Popen[str] | None = None
        self._study = folder.with_suffix(".toml")
        self._study.write_text(write_study(place, around.options))

    def _started(self) -> "subprocess.Popen[str]":
        """The run or its going on, once it is at work or over."""
        if self._process is None:
            is_begun = (self.folder / "manifest.json").exists()
            words = ("resume", str(self.folder)) if is_begun else ("run", str(self._study), "-o", str(self.folder))
            self._process = self.command(*words)
            until = time.monotonic() + self.place.patience
            while not self._at_work() and self._process.poll() is None and time.monotonic() < until:
                time.sleep(0.1)  # each look reads all of /proc
        return self._process

    def _at_work(self) -> bool:
        return any(victim.name == "block" for victim in self.victims())

    def kill_one(self) -> None:
        process = self._started()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(self.random.uniform(0.05, self.place.longest))
            self._ended(process.returncode)
            return
        what = self.kill_some_of(process)
        if what is None:
            return
        if what in ("controller", "group", "all of it"):
            process.wait(self.place.patience)
            self._process = None
            self._check_journal()
        self.restart_services(what)

    def _ended(self, status: int) -> None:
        """By itself: with 3 if what it needs was away, of which a helper's death may be the reason."""
        self._process = None
        self._check_journal()
        if status not in (0, 1, 3) or (status == 3 and set(self.killed) <= set(self.of_the_run)):
            raise Failed(f"{self.folder.name} ended with {status}: {self.last_words()}")
        self.is_over = status in (0, 1)

    def _check_journal(self) -> None:
        found = _read(self.folder)
        now = {record.trial.id: record.model_dump_json() for record in found}
        if len(now) != len(found):
            raise Failed("a finished trial was run twice")
        if not self.finished.items() <= now.items():
            raise Failed("a finished trial was lost or changed")
        self.finished, self.trials = now, len(now)

    def finish(self) -> None:
        """Let it come to its end: once more than it was killed, if a helper was away."""
        for _ in range(3):
            if not self.is_over:
                process = self._started()
                try:
                    self._ended(process.wait(self.place.patience))
                except subprocess.TimeoutExpired:
                    raise Failed(f"{self.folder.name} did not end within {self.place.patience:.0f} s") from None
        if not self.is_over:
            raise Failed(f"{self.folder.name} did not end: {self.last_words()}")
        self._check_whole()

    def _check_whole(self) -> None:
        found = _read(self.folder)
        plan = RunFolder(self.folder).read_manifest().plan
        attempts: dict[int, dict[int, list[TrialRecord]]] = {}
        for record in found:
            attempts.setdefault(record.trial.block, {}).setdefault(record.trial.attempt, []).append(record)
        each = plan.trials // self.place.blocks
        for block in range(self.place.blocks):
            tried = attempts.get(block, {})
            if not any(len(one) == each for one in tried.values()) and not self._is_withdrawn():
                raise Failed(f"block {block} has no attempt with its {each} trials")
        for record in found:
            if record.blame == "treatment" and set(self.killed) <= set(self.of_the_run):
                raise Failed(f"the treatment is blamed, and nothing of it was killed: {record.reason}")
            if (record.status == "ok") != (record.blame is None):
                raise Failed(f"{record.trial.id} is {record.status} and blames {record.blame}")

    def _is_withdrawn(self) -> bool:
        return b"Withdrawn" in RunFolder(self.folder).journal.read_bytes()

    def give_up(self) -> None:
        if self._process is not None and self._process.poll() is None:
            kill_tree(self._process.pid)
            self._process.wait()


def _read(folder: Path) -> list[TrialRecord]:
    journal = RunFolder(folder).journal
    return list(read_records(journal)) if journal.exists() else []
