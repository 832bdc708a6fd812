"""A machine that is kept up and loses its keeper or helpers: `down` or `clean` puts it right, and `ls` forgets it."""

import contextlib
import json
import subprocess

from tests.waiting import wait_until

from .killed import Failed, Killed

_KINDS = ("host", "host", "docker", "qemu")
_NAME = "chaos"


class KilledKeeper(Killed):
    of_the_run = ("controller", "keeper")

    def kill_one(self) -> None:
        kind = self.random.choice([kind for kind in _KINDS if kind in ("host", *self.place.services, "qemu")])
        smallest = ("--set", "machine.memory=256MiB", *(("--set", "machine.accel=tcg") if kind == "qemu" else ()))
        process = self.command("up", kind, "--name", _NAME, *smallest)
        longest = self.place.longest * (4 if kind == "qemu" else 1)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(self.random.uniform(0.05, longest))
        if process.poll() not in (None, 0):
            raise Failed(f"up {kind} ended with {process.returncode}: {self.last_words()}")
        has_agent = kind == "qemu" and process.poll() == 0
        if has_agent and (not self.around.killed["agent"] or self.random.random() < 0.5):
            what: str | None = self._kill_agent()
        else:
            what = self.kill_some_of(process)
        process.wait(self.place.patience)
        if what is not None:
            self.restart_services(what)
        wait_until(lambda: not self._is_beginning())
        self._take_down()

    def _kill_agent(self) -> str:
        """In the guest, where no process of the host's shows it. The command that does so loses its answer by it."""
        killing = self.command("exec", _NAME, "--", "pkill", "-KILL", "nearmetal-probe")
        killing.communicate(timeout=self.place.patience)
        if killing.returncode == 0:
            raise Failed(f"the guest's agent lives: {self.last_words()}")
        return self.count_kill("agent", "in the guest")

    def _is_beginning(self) -> bool:
        """Its keeper lives, and has not written down yet that there is one."""
        is_kept = any(victim.name == "keeper" for victim in self.victims())
        return is_kept and _NAME not in self._list_up()

    def _take_down(self) -> None:
        if self.random.random() < 0.5 and _NAME in self._list_up():
            self._must("down", _NAME)
        else:
            # One that is up is not in its way: `clean` leaves what a living keeper has.
            self._must("clean")
            if _NAME in self._list_up():
                self._must("down", _NAME)
        if left := self._list_up():
            raise Failed(f"still listed: {', '.join(left)}")

    def _list_up(self) -> list[str]:
        return [machine["name"] for machine in json.loads(self._must("ls", "--json"))["machines"]]

    def _must(self, *words: str) -> str:
        process = self.command(*words)
        stdout, _ = process.communicate(timeout=self.place.patience)
        if process.returncode != 0:
            raise Failed(f"{' '.join(words)} ended with {process.returncode}: {stdout or ''} {self.last_words()}")
        return stdout or ""

    def finish(self) -> None:
        self.is_over = True

    def give_up(self) -> None:
        pass
