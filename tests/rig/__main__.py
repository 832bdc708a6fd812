"""`python -m tests.rig`: build and boot the machine, and take each step that was not taken yet.

What came of each step is kept below the folder; together they are the transcript. A step that is named is taken again.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from . import steps
from .ordinary import SUITES, Ordinary, StepFailed

FOLDER = steps.ROOT / "build" / "rig"
RESULTS = steps.ROOT / "validation" / "results"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.rig", description=__doc__)
    parser.add_argument("steps", nargs="*", help="take these again")
    parser.add_argument("--suite", choices=SUITES, default="bookworm")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where disks and what came of steps lie: 4 GB")
    parser.add_argument("--port", type=int, default=2722, help="of this host's loopback, for SSH")
    parser.add_argument("--leave-up", action="store_true", help="do not power it off at the end")
    parser.add_argument("--resend", action="store_true", help="build the wheel anew; take all again, or those named")
    asked = parser.parse_args()
    machine = Ordinary(asked.folder.resolve() / asked.suite, asked.suite, asked.port)
    machine.build()
    done = machine.folder / "steps"
    done.mkdir(exist_ok=True)
    sent = done / "send.txt"
    if asked.resend or not sent.exists():
        again = (
            ["send", next(iter(steps.STEPS)), *asked.steps] if asked.steps and sent.exists() else [*steps.STEPS, "send"]
        )
        for kept in done.iterdir():
            if kept.name.partition(".")[0] in again:
                kept.unlink()
        sent.write_text(steps.send(machine, steps.python_here()) + "\n")
    try:
        machine.boot()
        return take(machine, done, asked.steps, sent.read_text().partition(",")[0])
    finally:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"rig-debian-{machine.version}.txt").write_text(make_transcript(machine, done))
        if not asked.leave_up:
            machine.stop()


def take(machine: Ordinary, done: Path, again: Sequence[str], commit: str) -> int:
    """Take each step in turn, with what was sent at a commit; 1 if any failed.

    Only a failure of the first ends it: the others rest on that alone.
    """
    failures = []
    for name, step in steps.STEPS.items():
        kept = done / f"{name}.txt"
        failed_before = done / f"{name}.failed.txt"
        if kept.exists() and name not in again:
            continue
        kept.unlink(missing_ok=True)
        failed_before.unlink(missing_ok=True)
        began = time.monotonic()
        try:
            came = step(machine)
        except StepFailed as failed:
            when = f"after {time.monotonic() - began:.0f} s, at {commit}"
            failed_before.write_text(f"FAILED {when}\n{failed}\n")
            print(f"== {name}: {failed_before.read_text()}", flush=True)
            failures.append(name)
            if name == next(iter(steps.STEPS)):
                break
            continue
        kept.write_text(f"ok after {time.monotonic() - began:.0f} s, at {commit}\n{came}\n")
        print(f"== {name}: {kept.read_text()}", flush=True)
    if failures:
        print(f"failed: {', '.join(failures)}", flush=True)
    return int(bool(failures))


def make_transcript(machine: Ordinary, done: Path) -> str:
    """What came of all steps, in their order; those that were not taken are named."""
    parts = [f"Debian {machine.version} ({machine.suite}), emulated: systemd, control groups of version 2, /dev/kvm"]
    for name in ("send", *steps.STEPS):
        kept = next((file for end in ("", ".failed") if (file := done / f"{name}{end}.txt").exists()), None)
        parts.append(f"── {name} ──\n{kept.read_text() if kept else 'NOT TAKEN'}")
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


if __name__ == "__main__":
    sys.exit(main())
