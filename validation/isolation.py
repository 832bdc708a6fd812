"""An isolated CPU of a guest is called different, and two guests that are not isolated are not.

    sudo python validation/isolation.py [--blocks 8] [--set machine.image=NAME] [-o DIR]

Runs the study isolation.toml: emulated guests (TCG) of two CPUs, whose last CPU is listened to. Goals:

- `kernel+user` against `none`: the verdict about local-timer interrupts is `different`, and they are 50 times fewer;
- `none` against `none` (two names of one environment): it is not.

The verdicts about the other responses (share of time lost, gaps, the longest) are printed beside, exploratory: on a
host that is busy with other things these tell of the host, in both arms. Other options go to `nearmetal run`.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nearmetal.model import TrialRecord
from nearmetal.store.journal import read_records
from nearmetal.store.run_folder import RunFolder

STUDY = Path(__file__).with_name("isolation.toml")
FEWER = 50
RESPONSES = ("ticks", "lost", "gaps", "longest")


def measured(folder: str, options: Sequence[str]) -> Mapping[str, Any]:
    """Run the study; its summary. `options` are those of `nearmetal run`."""
    argv = [sys.executable, "-m", "nearmetal", "run", str(STUDY), "-o", folder, "--json", *options]
    ended = subprocess.run(argv, stdout=subprocess.PIPE, text=True)
    if ended.returncode > 1:
        sys.exit(ended.returncode)
    summary: Mapping[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return summary


def ticks(folder: str, isolation: str) -> list[float]:
    """Local-timer interrupts per second on the CPU that was listened to, of each trial at this level."""
    found: list[TrialRecord] = [one for one in read_records(RunFolder(Path(folder)).journal) if one.status == "ok"]
    return [one.responses["ticks"].value for one in found if one.trial.treatment.get("isolation") == isolation]


def name_of(contrast: Mapping[str, Any]) -> str:
    return "A/A" if contrast["treatment"]["environment"] == "again" else "kernel+user"


def line(contrast: Mapping[str, Any]) -> str:
    low, high = contrast["interval"] or (float("nan"), float("nan"))
    kind = "primary" if contrast["primary"] else "exploratory"
    told = f"{contrast['difference']:+.4g} {contrast['unit']} ({low:+.4g} to {high:+.4g})"
    name = f"{name_of(contrast)}: {contrast['response']}"
    return f"{name:<24}{kind:<13}{contrast['blocks']} blocks  {told:<46}{contrast['verdict']}"


def verdicts(contrasts: Sequence[Mapping[str, Any]], isolated: float, ordinary: float) -> list[tuple[str, bool]]:
    primary = {name_of(one): one["verdict"] for one in contrasts if one["primary"]}
    return [
        ("kernel+user against none is called different", primary["kernel+user"] == "different"),
        ("none against none is not", primary["A/A"] != "different"),
        (
            f"local-timer interrupts: {ordinary:.1f}/s against {isolated:.2f}/s, at least {FEWER} times fewer",
            isolated * FEWER <= ordinary,
        ),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", dest="folder", help="keep the run in this folder")
    arguments, options = parser.parse_known_args()
    with tempfile.TemporaryDirectory(prefix="nearmetal-isolation-") as temporary:
        folder = arguments.folder or f"{temporary}/run"
        summary = measured(folder, options)
        isolated, ordinary = (statistics.median(ticks(folder, level)) for level in ("kernel+user", "none"))
    found = [one for one in summary["contrasts"] if one["response"] in RESPONSES]
    print("\n".join(line(one) for one in sorted(found, key=lambda one: (name_of(one), not one["primary"]))))
    goals = verdicts(found, isolated, ordinary)
    print("\n".join(f"{'yes' if holds else 'NO':<4}{goal}" for goal, holds in goals))
    return 0 if all(holds for _, holds in goals) else 1


if __name__ == "__main__":
    sys.exit(main())
