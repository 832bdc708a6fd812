"""Kill what takes part in runs, at random moments, and look whether anything is lost, run twice or left behind.

What is random comes from one seed: which environment, how many kills a run gets, when, and who of those that are there.
"""

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nearmetal.model import TrialRecord
from nearmetal.store.folder import RunFolder
from nearmetal.store.journal import records
from tests.live.far_host import FarHost
from tests.live.remains import after_a_moment
from tests.live.snapshot import changed, snapshot
from tests.live.two_hosts import Pair, kill_tree

from .places import PLACES, Place, write_study
from .victims import Victim, find_guests, find_victims, kill_agent

PATIENCE = 280.0
"""Seconds for a command that nobody kills any more."""
_OF_THE_RUN = ("controller", "block", "forks", "group", "all of it")
"""Whose death is no treatment's fault."""


_STAYS = ("runs.json", ".count", "lock", "keys/agent", "keys/client", "keys/host")
"""Of the folder of state, by the ends of their names: what was run, and keys, which are nobody's own."""

_OF_OTHERS = re.compile(
    # Namespaces of other tests and benchmarks, and files of people's own, which may come and go meanwhile.
    r"nmbench|nmt\d|files: /tmp/nm-(?![0-9a-f]{6}-)"
    # By which a machine is held: it stays there, empty.
    r"|there: /run/nearmetal\.lock$"
    # Empty: Python's ctypes has one for a moment when asyncssh, as it is imported, looks for a library.
    r"|temporary files: tmp\w{8}$"
)


class Failed(AssertionError):
    """Something was lost, run twice, blamed wrongly, or left."""


@dataclass
class Surroundings:
    """What a campaign is given."""

    folder: Path
    """For runs; its `home` is theirs, and so is its `tmp`."""
    engine: str = ""
    podman: str = ""
    pair: Pair | None = None
    engine_folder: Path | None = None
    """Of an engine that is the campaign's own, whose processes may be killed too."""
    restart_engine: Callable[[], None] = lambda: None


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
        """So many kills in all, in these environments; `until`: nothing is killed after so many seconds."""
        self.until = until
        while self.kills < kills and not self.is_late():
            chosen = [PLACES[name] for name in places]
            (place,) = self.random.choices(chosen, [one.share for one in chosen])
            self.run_and_kill(place, min(self.random.randint(6, 16), kills - self.kills))

    def is_late(self) -> bool:
        return self.until is not None and time.monotonic() - self.began > self.until

    def run_and_kill(self, place: Place, kills: int) -> None:
        """One run in this environment, until its end."""
        self.runs += 1
        run = _KilledRun(self, place, self.around.folder / f"run-{self.runs}-{place.name}")
        try:
            while run.kills < kills and not run.is_over and not self.is_late():
                run.kill_one()
            run.finish()
        finally:
            run.give_up()
        self._check_nothing_is_left(run.command)
        self.say(f"      run {self.runs:2d} came to its end after {run.kills} kills: nothing lost, run twice or left")

    def _check_nothing_is_left(self, command: Callable[..., "subprocess.Popen[str]"]) -> None:
        process = command("clean", "--json")
        stdout, _ = process.communicate(timeout=PATIENCE)
        if process.returncode != 0 or json.loads(stdout)["left"]:
            raise Failed(f"clean ended with {process.returncode}: {stdout}")
        if found := after_a_moment(self._find_changes):
            raise Failed(f"{len(found)} things are not as before: " + "; ".join(found[:20]))

    def _find_changes(self) -> list[str]:
        found = changed(self.before, self._look())
        return [one for one in found if not _OF_OTHERS.search(one)]

    def _look(self) -> dict[str, list[str]]:
        seen = snapshot()
        home, own = self.around.folder / "home", self.around.folder / "tmp"
        ours = [victim for victim in find_victims(home) if not victim.name.startswith("dockerd")]
        seen["processes of this home"] = [victim.name for victim in ours]
        seen["temporary files"] = _list_files(own)
        seen["state"] = [one for one in _list_files(home / "state") if not one.endswith(_STAYS)]
        if self.around.pair is not None:
            seen["there"] = _look_there(self.around.pair.far)
        return seen


def _list_files(folder: Path) -> list[str]:
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if not file.is_dir())


def _look_there(far: FarHost) -> list[str]:
    """Files, processes, links and namespaces of the machine that SSH leads to."""
    files = far.run("find", "/run", "/tmp", "/var/tmp", "/root", "-mindepth", "1").splitlines()
    processes = far.run("ps", "-eo", "args").splitlines()
    links = [line.split()[0] for line in far.run("ip", "-brief", "link").splitlines()]
    # Sessions of SSH end in their own time; what looks is no part of what it sees.
    kept = [line for line in processes if not line.startswith(("ps ", "sshd: "))]
    return [*files, *kept, *links, *far.run("ip", "netns", "list").splitlines()]


class _KilledRun:
    def __init__(self, campaign: Campaign, place: Place, folder: Path) -> None:
        self.campaign = campaign
        self.place = place
        self.folder = folder
        self.random = campaign.random
        self.kills = 0
        self.is_over = False
        self._process: subprocess.Popen[str] | None = None
        self._killed: list[str] = []
        self._finished: dict[str, str] = {}
        far = campaign.around.pair.far.ssh if campaign.around.pair else ""
        self._study = folder.with_suffix(".toml")
        self._study.write_text(write_study(place, far))

    def command(self, *words: str) -> "subprocess.Popen[str]":
        around = self.campaign.around
        near = ["nsenter", f"--net=/run/netns/{around.pair.near}", "--"] if around.pair else []
        with (self.folder.with_suffix(".log")).open("ab") as log:
            return subprocess.Popen(
                [*(near if self.place.name == "ssh" else []), sys.executable, "-m", "nearmetal", *words],
                env={
                    **os.environ,
                    "DOCKER_HOST": around.engine,
                    "CONTAINER_HOST": around.podman,
                    "TMPDIR": str(around.folder / "tmp"),
                },
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if words[0] == "clean" else log,
                stderr=log,
                text=True,
                start_new_session=True,
            )

    def _started(self) -> "subprocess.Popen[str]":
        """The run or its going on, once it is at work or over."""
        if self._process is None:
            is_begun = (self.folder / "manifest.json").exists()
            words = ("resume", str(self.folder)) if is_begun else ("run", str(self._study), "-o", str(self.folder))
            self._process = self.command(*words)
            until = time.monotonic() + PATIENCE
            while not self._at_work() and self._process.poll() is None and time.monotonic() < until:
                time.sleep(0.02)
        return self._process

    def _at_work(self) -> bool:
        return any(victim.name == "block" for victim in self._victims())

    def _victims(self) -> list[Victim]:
        around = self.campaign.around
        folders = [around.engine_folder] if around.engine_folder and self.place.name == "docker" else []
        first = around.pair.far.first if around.pair and self.place.name == "ssh" else None
        return list(find_victims(around.folder / "home", *folders, first=first))

    def kill_one(self) -> None:
        process = self._started()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(self.random.uniform(0.05, self.place.longest))
            self._ended(process.returncode)
            return
        by_name: dict[str, list[Victim]] = {}
        for victim in self._victims():
            by_name.setdefault(victim.name, []).append(victim)
        helpers = sorted(name for name in by_name if name not in _OF_THE_RUN)
        if guests := find_guests():
            helpers.append("agent")
        # Half of all kills are of helpers, if there are any.
        of_run = [name for name in _OF_THE_RUN if name in by_name or name in ("controller", "group", "all of it")]
        what = self.random.choice(helpers if helpers and self.random.random() < 0.5 else of_run)
        pid = process.pid
        try:
            if what == "group":
                os.killpg(process.pid, signal.SIGKILL)
            elif what == "all of it":
                kill_tree(process.pid)
            elif what == "agent":
                guest = self.random.choice(guests)
                if not kill_agent(guest):
                    return
            else:
                pid = process.pid if what == "controller" else self.random.choice(by_name[what]).pid
                os.kill(pid, signal.SIGKILL)
        except (ProcessLookupError, FileNotFoundError):
            return  # it ended by itself just then
        self._note(what, pid)
        if what in ("controller", "group", "all of it"):
            process.wait(PATIENCE)
            self._process = None
            self._check_journal()
        if what == "sshd":
            self._restart_sshd()
        if what in ("dockerd", "containerd"):
            self.campaign.around.restart_engine()

    def _note(self, what: str, pid: int) -> None:
        self.kills += 1
        self._killed.append(what)
        campaign = self.campaign
        campaign.kills += 1
        seconds = time.monotonic() - campaign.began
        campaign.say(
            f"{campaign.kills:4d}  {seconds:7.1f} s  run {campaign.runs:2d}  {self.place.name:7s} {what} ({pid}), "
            f"{len(self._finished)} trials before"
        )

    def _restart_sshd(self) -> None:
        """If it was the one that listens."""
        pair = self.campaign.around.pair
        if pair is not None and "sshd_config" not in pair.far.run("ps", "-eo", "args"):
            pair.far.run("/usr/sbin/sshd", "-f", "/etc/far/sshd_config")

    def _ended(self, status: int) -> None:
        """By itself: with 3 if what it needs was away, of which a helper's death may be the reason."""
        self._process = None
        self._check_journal()
        if status not in (0, 1, 3) or (status == 3 and set(self._killed) <= set(_OF_THE_RUN)):
            raise Failed(f"{self.folder.name} ended with {status}: {self._last_words()}")
        self.is_over = status in (0, 1)

    def _check_journal(self) -> None:
        found = _read(self.folder)
        now = {record.trial.id: record.model_dump_json() for record in found}
        if len(now) != len(found):
            raise Failed("a finished trial was run twice")
        if not self._finished.items() <= now.items():
            raise Failed("a finished trial was lost or changed")
        self._finished = now

    def finish(self) -> None:
        """Let it come to its end: once more than it was killed, if a helper was away."""
        for _ in range(3):
            if not self.is_over:
                process = self._started()
                try:
                    self._ended(process.wait(PATIENCE))
                except subprocess.TimeoutExpired:
                    raise Failed(f"{self.folder.name} did not end within {PATIENCE:.0f} s") from None
        if not self.is_over:
            raise Failed(f"{self.folder.name} did not end: {self._last_words()}")
        self._check_whole()
        self.campaign.finished += len(self._finished)

    def _check_whole(self) -> None:
        found = _read(self.folder)
        plan = RunFolder(self.folder).manifest().plan
        attempts: dict[int, dict[int, list[TrialRecord]]] = {}
        for record in found:
            attempts.setdefault(record.trial.block, {}).setdefault(record.trial.attempt, []).append(record)
        each = plan.trials // self.place.blocks
        for block in range(self.place.blocks):
            tried = attempts.get(block, {})
            if not any(len(one) == each for one in tried.values()) and not self._is_withdrawn():
                raise Failed(f"block {block} has no attempt with its {each} trials")
        for record in found:
            if record.blame == "treatment" and set(self._killed) <= set(_OF_THE_RUN):
                raise Failed(f"the treatment is blamed, and nothing of it was killed: {record.reason}")
            if (record.status == "ok") != (record.blame is None):
                raise Failed(f"{record.trial.id} is {record.status} and blames {record.blame}")

    def _is_withdrawn(self) -> bool:
        return b"Withdrawn" in RunFolder(self.folder).journal.read_bytes()

    def _last_words(self) -> str:
        return self.folder.with_suffix(".log").read_text()[-600:]

    def give_up(self) -> None:
        if self._process is not None and self._process.poll() is None:
            kill_tree(self._process.pid)
            self._process.wait()


def _read(folder: Path) -> list[TrialRecord]:
    journal = RunFolder(folder).journal
    return list(records(journal)) if journal.exists() else []


@contextlib.contextmanager
def surroundings(folder: Path, cache: Path) -> Iterator[Surroundings]:
    """Folders of a campaign's own; images are those of `cache`."""
    for name in ("home", "tmp"):
        (folder / name).mkdir(parents=True)
    (folder / "home/cache").symlink_to(cache)
    yield Surroundings(folder)
