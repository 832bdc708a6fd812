"""How long `nearmetal up` takes until there is a shell in the machine, as who types it waits for it.

    .venv/bin/python bench/by_hand.py [KIND ...] [--rounds 5] [--provision boot restore] [--set machine.nic=e1000]

`up` is the command until it returns. `ssh` is until a first `nearmetal ssh` on a terminal, begun when it has returned,
has come to its shell, which is told to exit, and has ended: in a guest, a login by OpenSSH. `exec` is a `nearmetal
exec … -- true` by itself. Rounds alternate over the kinds and the ways of provisioning that each has; the table shows
medians. What is made once, such as a snapshot, is made before the first round. Seconds, as root, on an otherwise idle
host; they are printed, never judged.
"""

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import get_args

from nearmetal import plugins
from nearmetal.model import Provision

LIMIT = 300.0


@dataclass(frozen=True)
class Round:
    up: float
    ssh: float
    exec: float
    down: float


@dataclass(frozen=True)
class Contender:
    kind: str
    provision: Provision

    def __str__(self) -> str:
        return f"{self.kind} {self.provision}"


def nearmetal(*words: str) -> None:
    """CalledProcessError with what it said."""
    subprocess.run(_command(*words), check=True, capture_output=True, timeout=LIMIT, stdin=subprocess.DEVNULL)


def log_in(name: str) -> None:
    """And out again. CalledProcessError where the shell did not run what it was told."""
    on_a_terminal = ["script", "-qec", shlex.join(_command("ssh", name)), "/dev/null"]
    told = b"exit $((6 * 7))\n"
    shell = subprocess.run(on_a_terminal, input=told, capture_output=True, timeout=LIMIT)
    if shell.returncode != 42:
        raise subprocess.CalledProcessError(shell.returncode, on_a_terminal, stderr=shell.stdout)


def _command(*words: str) -> list[str]:
    return [sys.executable, "-m", "nearmetal", *words]


def measured(contender: Contender, settings: Sequence[str], name: str) -> Round:
    given = [f"environments.{contender.kind}.provision={contender.provision}", *settings]
    begin = time.monotonic()
    nearmetal("up", contender.kind, "--name", name, *(word for one in given for word in ("--set", one)))
    up = time.monotonic()
    try:
        log_in(name)
        logged_in = time.monotonic()
        nearmetal("exec", name, "--", "true")
        executed = time.monotonic()
    finally:
        ending = time.monotonic()
        nearmetal("down", name)
        ended = time.monotonic()
    return Round(up - begin, logged_in - begin, executed - logged_in, ended - ending)


def contenders(kinds: Sequence[str], provisions: Sequence[Provision]) -> list[Contender]:
    """Each kind by each of these ways that it has; by its own first one where none is given."""
    found = []
    for kind in kinds:
        can = plugins.load("environments", kind).provisions
        found += [Contender(kind, provision) for provision in provisions or can[:1] if provision in can]
    return found


def table(results: dict[str, list[Round]]) -> str:
    columns = tuple(field.name for field in fields(Round))
    lines = [f"{'':16}" + "".join(f"{column:>10}" for column in columns)]
    for name, rounds in results.items():
        medians = [statistics.median(getattr(one, column) for one in rounds) for column in columns]
        lines.append(f"{name:16}" + "".join(f"{value:10.3f}" for value in medians))
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", default=["host", "qemu"], metavar="KIND")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--provision", nargs="+", default=[], choices=get_args(Provision), metavar="HOW")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as `nearmetal up` takes it")
    arguments = parser.parse_args()
    load = Path("/proc/loadavg").read_text().split()[0]
    print(f"{os.cpu_count()} CPUs, load {load} before")
    chosen = contenders(arguments.kinds, arguments.provision)
    results: dict[str, list[Round]] = {str(contender): [] for contender in chosen}
    try:
        for contender in chosen:
            measured(contender, arguments.set, f"bench-{os.getpid()}-once")
        for number in range(arguments.rounds):
            for contender in chosen:
                one = measured(contender, arguments.set, f"bench-{os.getpid()}-{number}")
                results[str(contender)].append(one)
                print(contender, json.dumps({key: round(value, 3) for key, value in asdict(one).items()}), flush=True)
    except subprocess.CalledProcessError as error:
        print(error.stderr.decode("utf-8", "replace"), file=sys.stderr)
        return 1
    print(table(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
