"""What is killed at random moments, and what a campaign gives it."""

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nearmetal.lab.changes.ledger import ledgers_folder
from tests.live.far_host import FarHost
from tests.live.two_hosts import Pair, kill_tree

from .places import Place
from .victims import Victim, find_victims


class Failed(AssertionError):
    """Something was lost, run twice, blamed wrongly, or left."""


@dataclass
class Service:
    """Of the campaign's own: its processes may be killed too."""

    named: tuple[str, ...]
    """Its processes have one of these in their command lines."""
    restart: Callable[[], None]
    """Once one of `victims` was killed."""
    victims: tuple[str, ...]


@dataclass
class Surroundings:
    """What a campaign is given."""

    folder: Path
    """For runs; its `home` is theirs, and so is its `tmp`."""
    program: tuple[str, ...] = (sys.executable, "-m", "nearmetal")
    environment: dict[str, str] = field(default_factory=dict)
    """Variables by which commands find services."""
    services: dict[str, Service] = field(default_factory=dict)
    """By the place that they are of."""
    pair: Pair | None = None
    options: dict[str, str] = field(default_factory=dict)
    """What studies say of the machines that there are."""
    looks: dict[str, Callable[[], list[str]]] = field(default_factory=dict)
    """More that is compared with the state before, by its name."""
    labs: set[str] = field(default_factory=set)
    """By the tokens of their ledgers: all that there were when somebody was killed."""
    killed: Counter[str] = field(default_factory=Counter)
    """How often each helper was killed, by its name."""


class Killed:
    """Commands in one place, and who of their processes is killed."""

    of_the_run: tuple[str, ...] = ()
    """Whose death is no treatment's fault."""

    def __init__(
        self, around: Surroundings, chosen: random.Random, place: Place, folder: Path, note: Callable[[str], None]
    ) -> None:
        self.around = around
        self.random = chosen
        self.place = place
        self.folder = folder
        self.kills = 0
        self.is_over = False
        self.killed: list[str] = []
        self.trials = 0
        """Finished ones."""
        self._note = note

    def command(self, *words: str) -> "subprocess.Popen[str]":
        """Start a command. What `clean` and `ls` print can be read; all else goes to a log."""
        pair = self.around.pair if self.place.hosts else None
        near = ["nsenter", f"--net=/run/netns/{pair.near}", "--"] if pair else []
        with self.folder.with_suffix(".log").open("ab") as log:
            return subprocess.Popen(
                [*near, *self.around.program, *words],
                env={**os.environ, **self.around.environment, "TMPDIR": str(self.around.folder / "tmp")},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if words[0] in ("clean", "ls") else log,
                stderr=log,
                text=True,
                start_new_session=True,
            )

    def victims(self) -> list[Victim]:
        self.around.labs |= {ledger.stem for ledger in ledgers_folder().glob("*.jsonl")}
        named = [one for service in self._services() for one in service.named]
        return list(find_victims(self.around.folder / "home", *named, firsts=[far.first for far in self._fars()]))

    def _fars(self) -> Sequence[FarHost]:
        return self.around.pair.fars[: self.place.hosts] if self.around.pair else ()

    def _services(self) -> list[Service]:
        return [self.around.services[name] for name in self.place.services if name in self.around.services]

    def kill_some_of(self, process: "subprocess.Popen[str]") -> str | None:
        """One of all, by its name; None if it ended by itself just then."""
        by_name: dict[str, list[Victim]] = {}
        for victim in self.victims():
            by_name.setdefault(victim.name, []).append(victim)
        helpers = sorted(name for name in by_name if name not in self.of_the_run)
        # Half of all kills are of helpers, if there are any.
        runs = ("controller", "group", "all of it") if process.poll() is None else ()
        of_run = [name for name in self.of_the_run if name in by_name or name in runs]
        if not helpers and not of_run:
            return None
        if helpers and (not of_run or self.random.random() < 0.5):
            # Those that live for a short time only would hardly ever be met.
            least = min(self.around.killed[name] for name in helpers)
            what = self.random.choice([name for name in helpers if self.around.killed[name] == least])
        else:
            what = self.random.choice(of_run)
        pid = process.pid
        try:
            if what == "group":
                os.killpg(process.pid, signal.SIGKILL)
            elif what == "all of it":
                kill_tree(process.pid)
            else:
                pid = process.pid if what == "controller" else self.random.choice(by_name[what]).pid
                os.kill(pid, signal.SIGKILL)
        except (ProcessLookupError, FileNotFoundError):
            return None
        return self.count_kill(what, str(pid))

    def count_kill(self, what: str, which: str) -> str:
        self.kills += 1
        self.killed.append(what)
        self.around.killed[what] += 1
        self._note(f"{what} ({which})")
        return what

    def restart_services(self, what: str) -> None:
        """Those that the death of this one ended."""
        for service in self._services():
            if what in service.victims:
                service.restart()
        if what == "sshd":
            for far in self._fars():
                _restart_sshd(far)

    def clean(self) -> list[str]:
        """What it says is left."""
        process = self.command("clean", "--json")
        stdout, _ = process.communicate(timeout=self.place.patience)
        left: list[str] = json.loads(stdout)["left"]
        if bool(process.returncode) != bool(left):
            raise Failed(f"clean ended with {process.returncode}: {stdout}")
        return left

    def last_words(self) -> str:
        return self.folder.with_suffix(".log").read_text()[-600:]

    def kill_one(self) -> None:
        """After a moment that is random."""
        raise NotImplementedError

    def finish(self) -> None:
        """Let it come to its end."""
        raise NotImplementedError

    def give_up(self) -> None:
        """Kill what still runs of it."""
        raise NotImplementedError


def _restart_sshd(far: FarHost) -> None:
    """If it was the one that listens."""
    if "sshd_config" not in far.run("ps", "-eo", "args"):
        far.run("/usr/sbin/sshd", "-f", "/etc/far/sshd_config")
