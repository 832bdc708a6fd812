"""A program called `vagrant` that says what the real one does, and whose machines are entries of a file.

For tests of what is asked of Vagrant and done with its answers; tests/live/test_vagrant.py has the real one.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PROGRAM = r"""#!{python}
import json, os, sys, time
from pathlib import Path

verb, *names = [word for word in sys.argv[1:] if not word.startswith("--")]
folder = Path(os.environ["VAGRANT_CWD"])
file = folder / "machines.json"
world = json.loads(file.read_text())
with (folder / "calls").open("a") as calls:
    print(" ".join(sys.argv[1:]), file=calls)
assert sys.stdin.read() == "" and not sys.stdout.isatty()
def identify(name, what):
    kept = folder / ".vagrant/machines" / name / "libvirt"
    kept.mkdir(parents=True, exist_ok=True)
    (kept / "id").unlink(missing_ok=True)
    if what:
        (kept / "id").write_text(what)

answer = world["answers"].get(verb)
if answer:
    for name in names if "makes" in answer else ():
        identify(name, answer["makes"])
        world["states"][name] = "running"
    time.sleep(answer.get("hangs", 0))
    print(answer.get("stdout", ""))
    print(answer.get("stderr", ""), file=sys.stderr)
    world["answers"][verb] = answer.get("then")
    file.write_text(json.dumps(world))
    sys.exit(answer["status"])

for name in names or world["states"]:
    if verb == "status":
        print(f"1795339513,{{name}},metadata,provider,libvirt")
        print(f"1795339513,{{name}},provider-name,libvirt")
        print(f"1795339513,{{name}},state,{{world['states'][name]}}")
    if verb == "ssh-config":
        text = "\\n".join(world["ssh"])
        print(f"1795339555,{{name}},ssh-config,{{text}}\\n")
    if verb == "up":
        if world["states"][name] == "not_created":
            identify(name, os.urandom(8).hex())
        world["states"][name] = "running"
    if verb == "halt":
        world["states"][name] = "shutoff"
    if verb == "destroy":
        identify(name, None)
        world["states"][name] = "not_created"
file.write_text(json.dumps(world))
"""


@dataclass(frozen=True)
class FakeVagrant:
    folder: Path
    """With a Vagrantfile."""

    def _world(self) -> dict[str, Any]:
        world: dict[str, Any] = json.loads((self.folder / "machines.json").read_text())
        return world

    def _set(self, **changed: Any) -> None:
        (self.folder / "machines.json").write_text(json.dumps({**self._world(), **changed}))

    def machines(self, **states: str) -> None:
        """Their states, by their names; those that are not `not_created` have an identity."""
        for name, state in states.items():
            kept = self.folder / ".vagrant/machines" / name / "libvirt"
            kept.mkdir(parents=True, exist_ok=True)
            if state != "not_created":
                (kept / "id").write_text(f"of-{name}")
        self._set(states=states)

    def reached(self, *ssh_config: str) -> None:
        self._set(ssh=ssh_config)

    def answers(self, verb: str, status: int, **said: Any) -> None:
        """This command does nothing but say so: `stdout`, `stderr`, `hangs` (seconds), and `then` the next time.

        `makes`: first a machine comes to be, with this identity.
        """
        self._set(answers={verb: {"status": status, **said}})

    @property
    def states(self) -> dict[str, str]:
        states: dict[str, str] = self._world()["states"]
        return states

    @property
    def calls(self) -> list[str]:
        """Of those that do more than to look."""
        file = self.folder / "calls"
        said = file.read_text().splitlines() if file.exists() else []
        return [
            line.removesuffix(" --machine-readable") for line in said if line.split()[0] not in ("status", "ssh-config")
        ]


def install(programs: Path, folder: Path) -> FakeVagrant:
    """`programs` is to come first in PATH."""
    programs.mkdir(parents=True, exist_ok=True)
    (programs / "vagrant").write_text(_PROGRAM.format(python=sys.executable))
    (programs / "vagrant").chmod(0o755)
    folder.mkdir(parents=True)
    (folder / "Vagrantfile").write_text("# not read\n")
    (folder / "machines.json").write_text(json.dumps({"states": {}, "ssh": [], "answers": {}}))
    fake = FakeVagrant(folder)
    fake.machines(default="not_created")
    return fake
