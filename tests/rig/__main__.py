"""`python -m tests.rig`: build and boot the machine, and take each step that was not taken yet.

What came of each step is kept below the folder; together they are the transcript. A step that is named is taken again.
"""

import argparse
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from . import steps
from .ordinary import PROCESSORS, SUITES, Ordinary, StepFailed

FOLDER = steps.ROOT / "build" / "rig"
RESULTS = steps.ROOT / "validation" / "results"
NOT_TAKEN = "NOT TAKEN"
EARLIER = "(taken with an earlier wheel)"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.rig", description=__doc__)
    parser.add_argument("steps", nargs="*", help="take these again")
    parser.add_argument("--only", action="store_true", help="take no others than those named, in the order given")
    parser.add_argument("--suite", choices=SUITES, default="bookworm")
    parser.add_argument("--arch", choices=PROCESSORS, default="amd64")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where disks and what came of steps lie: 4 GB")
    parser.add_argument("--port", type=int, default=2722, help="of this host's loopback, for SSH")
    parser.add_argument("--leave-up", action="store_true", help="do not power it off at the end")
    parser.add_argument("--resend", action="store_true", help="build the wheel anew; take all again, or those named")
    asked = parser.parse_args()
    suffix = "" if asked.arch == "amd64" else f"-{asked.arch}"
    if unknown := [name for name in asked.steps if name not in steps.STEPS]:
        parser.error(f"there is no step {unknown[0]!r}: name one of {', '.join(steps.STEPS)}")
    machine = Ordinary(asked.folder.resolve() / f"{asked.suite}{suffix}", asked.suite, asked.port, asked.arch)
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
        return take(machine, done, asked.steps, sent.read_text().partition(",")[0], only=asked.only)
    finally:
        RESULTS.mkdir(exist_ok=True)
        kept = RESULTS / f"rig-debian-{machine.version}{suffix}.txt"
        kept.write_text(make_transcript(machine, done, kept.read_text() if kept.exists() else ""))
        if not asked.leave_up:
            machine.stop()


def take(machine: Ordinary, done: Path, again: Sequence[str], commit: str, only: bool = False) -> int:
    """Take each step in turn, with what was sent at a commit; 1 if any failed.

    Only a failure of the first ends it: the others rest on that alone. `only`: the first, and those of `again` in
    their order.
    """
    failures = []
    first = next(iter(steps.STEPS))
    for name in dict.fromkeys((first, *again)) if only else steps.STEPS:
        kept = done / f"{name}.txt"
        failed_before = done / f"{name}.failed.txt"
        if kept.exists() and name not in again:
            continue
        kept.unlink(missing_ok=True)
        failed_before.unlink(missing_ok=True)
        began = time.monotonic()
        try:
            came = steps.STEPS[name](machine)
        except StepFailed as failed:
            when = f"after {time.monotonic() - began:.0f} s, at {commit}"
            failed_before.write_text(f"FAILED {when}\n{failed}\n")
            print(f"== {name}: {failed_before.read_text()}", flush=True)
            failures.append(name)
            if name == first:
                break
            continue
        kept.write_text(f"ok after {time.monotonic() - began:.0f} s, at {commit}\n{came}\n")
        print(f"== {name}: {kept.read_text()}", flush=True)
    if failures:
        print(f"failed: {', '.join(failures)}", flush=True)
    return int(bool(failures))


def make_transcript(machine: Ordinary, done: Path, earlier: str = "") -> str:
    """What came of all steps, in their order; those that were not taken are named.

    A step that an earlier transcript has and that was not taken since stays, marked: it has the commit of its wheel.
    """
    before = dict(re.findall(r"^── (\w+) ──\n(.*?)(?=^── |\Z)", earlier, re.DOTALL | re.MULTILINE))
    on = f"({machine.suite})" if machine.processor.is_pc else f"({machine.suite}) on {machine.processor.title}"
    parts = [f"Debian {machine.version} {on}, emulated: systemd, control groups of version 2, /dev/kvm"]
    for name in ("send", *steps.STEPS):
        kept = next((file for end in ("", ".failed") if (file := done / f"{name}{end}.txt").exists()), None)
        text = kept.read_text() if kept else _mark_earlier(before.get(name, NOT_TAKEN))
        parts.append(f"── {name} ──\n{text}")
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def _mark_earlier(text: str) -> str:
    return text if text.startswith((NOT_TAKEN, EARLIER)) else f"{EARLIER}\n{text}"


if __name__ == "__main__":
    sys.exit(main())
