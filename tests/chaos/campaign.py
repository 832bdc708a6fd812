"""Kill what takes part in runs, at random moments, and look whether anything is lost, run twice or left behind.

What is random comes from one seed: which environment, how many kills a run gets, when, and who of those that are there.
"""

import contextlib
import os
import random
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.live.leftovers import after_a_moment
from tests.live.snapshot import changed, snapshot

from . import namespaces
from .killed import Failed, Killed, Surroundings
from .killed_keeper import KilledKeeper
from .killed_run import KilledRun
from .places import PLACES, Place
from .victims import find_victims

_STAYS = (
    *("runs.json", ".count", "lock", "keys/agent", "keys/client", "keys/host"),
    *("up/ssh_config", "up/known_hosts"),
)
"""Of the folder of state, by the ends of their names: what was run, and what all machines share: keys, and the file by
which OpenSSH's programs find them."""

_OF_OTHERS = re.compile(r"nmbench|nmt\d|files: /tmp/nm-(?![0-9a-f]{6}-)")
"""Outside namespaces of the campaign's own: namespaces of other tests and benchmarks, and files of people's own, which
may come and go meanwhile."""

_OF_ENGINES = re.compile(r"/tmp/(runc-process\d+|containerd\.\d+\.stacks\.log)")
"""What a containerd leaves that is killed or no longer answers: a description for runc, and the stacks that dockerd
has it write."""


_BY_HAND = re.compile(r"cd \S+ && vagrant (halt|destroy) \S+$")
"""What `clean` tells to type for a machine of which the ledger does not say whose it is."""


@dataclass
class Campaign:
    around: Surroundings
    seed: int
    say: Callable[[str], None] = print
    kills: int = 0
    runs: int = 0
    finished: int = 0
    """Trials."""
    began: float = field(default_factory=time.monotonic)
    until: float | None = None

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.before = self._look()

    def go_on(self, kills: int, places: Sequence[str], until: float | None = None) -> None:
        """So many kills in all: in each of these environments once, at most its part of them, then by their shares.

        `until`: nothing is killed after so many seconds.
        """
        self.until = until
        chosen = [PLACES[name] for name in places]
        first = self.random.sample(chosen, len(chosen))
        while self.kills < kills and not self.is_late():
            most = max(1, kills // len(chosen)) if first else kills - self.kills
            place = first.pop() if first else self.random.choices(chosen, [one.share for one in chosen])[0]
            self.run_and_kill(place, min(self.random.randint(6, 16), most))

    def is_late(self) -> bool:
        return self.until is not None and time.monotonic() - self.began > self.until

    def run_and_kill(self, place: Place, kills: int) -> None:
        """One run in this environment, until its end."""
        self.runs += 1
        kind = KilledKeeper if place.name == "up" else KilledRun
        folder = self.around.folder / f"run-{self.runs}-{place.name}"
        run: Killed = kind(self.around, self.random, place, folder, lambda what: self._note(place, what))
        try:
            while run.kills < kills and not run.is_over and not self.is_late():
                run.kill_one()
            run.finish()
        finally:
            run.give_up()
        self.finished += run.trials
        self._check_nothing_is_left(run)
        self.say(f"      run {self.runs:2d} came to its end after {run.kills} kills: nothing lost, run twice or left")

    def _note(self, place: Place, what: str) -> None:
        self.kills += 1
        seconds = time.monotonic() - self.began
        self.say(f"{self.kills:4d}  {seconds:7.1f} s  run {self.runs:2d}  {place.name:7s} {what}")

    def _check_nothing_is_left(self, run: Killed) -> None:
        typed = [match[0] for match in map(_BY_HAND.search, run.clean()) if match]
        for command in typed:
            self.say(f"      by hand: {command}")
            # Somebody who types it is asked whether a machine is to go.
            sure = command.replace("vagrant destroy", "vagrant destroy --force")
            environment = {**os.environ, **self.around.environment}
            subprocess.run(["sh", "-c", sure], env=environment, check=True, stdout=subprocess.DEVNULL)
        if left := run.clean():
            raise Failed(f"clean left: {'; '.join(left)}")
        if found := after_a_moment(self._find_changes):
            raise Failed(f"{len(found)} things are not as before: " + "; ".join(found[:20]))

    def _find_changes(self) -> list[str]:
        found = changed(self.before, self._look())
        return found if namespaces.is_inside() else [one for one in found if not _OF_OTHERS.search(one)]

    def _look(self) -> dict[str, list[str]]:
        seen = snapshot()
        home, own = self.around.folder / "home", self.around.folder / "tmp"
        ours = [victim for victim in find_victims(home) if not victim.name.startswith("dockerd")]
        seen["processes of this home"] = [victim.name for victim in ours]
        # Others' labs have groups on this host too, and may leave some.
        seen["groups"] = [group for group in seen["groups"] if any(lab in group for lab in self.around.labs)]
        seen["temporary files"] = _list_files(own)
        seen["state"] = [one for one in _list_files(home / "state") if not one.endswith(_STAYS)]
        if namespaces.is_inside():
            seen["files of this host"] = _list_host(self.around.folder.parent)
        return seen | {name: look() for name, look in self.around.looks.items()}


def _list_files(folder: Path) -> list[str]:
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if not file.is_dir())


def _list_host(own: Path) -> list[str]:
    """All files in this host's /run, /tmp and /var/tmp, but the campaign's own and what its engines leave."""
    command = ["find", "/run", "/tmp", "/var/tmp", "-mindepth", "1", "-path", str(own), "-prune", "-o", "-print"]
    found = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
    return [file for file in found if not _OF_ENGINES.fullmatch(file)]


@contextlib.contextmanager
def surroundings(folder: Path, cache: Path) -> Iterator[Surroundings]:
    """Folders of a campaign's own; images are those of `cache`."""
    for name in ("home", "tmp"):
        (folder / name).mkdir(parents=True)
    (folder / "home/cache").symlink_to(cache)
    yield Surroundings(folder)
