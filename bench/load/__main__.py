"""The load generator against its peers and its floor: `python bench/load`, as root.

Prints tables; the exit code is 1 when a goal is missed.
Every speed is a ratio, measured side by side: alternating rounds, medians, processor time of the whole process.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from accuracy import accuracy
from bed import ORDINARY, REAL_TIME, bed
from contenders import contenders
from speed import compare


def arguments() -> argparse.Namespace:
    root = Path(__file__).parents[2]
    parser = argparse.ArgumentParser(prog="bench/load", description=__doc__)
    parser.add_argument("--probe", default=str(root / ".venv/bin/nearmetal-probe"), help="the probe to measure")
    parser.add_argument(
        "--floors",
        type=Path,
        default=os.environ.get("NEARMETAL_FLOORS"),
        help="folder with the programs `floor` and `openloop`, which mark what is possible (or NEARMETAL_FLOORS)",
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="length of each measurement")
    parser.add_argument("--only", choices=["speed", "accuracy"])
    parser.add_argument(
        "--real-time",
        action="store_true",
        help="run all contenders and the server in real time (SCHED_FIFO): on a busy machine exactness shows only so",
    )
    return parser.parse_args()


def main() -> int:
    chosen = arguments()
    if os.geteuid() != 0:
        print("bench/load: a network namespace takes root; run it with sudo", file=sys.stderr)
        return 3
    here, missing = contenders(chosen.probe, chosen.floors)
    for line in missing:
        print(f"LEFT OUT  {line}")
    met = True
    with bed(REAL_TIME if chosen.real_time else ORDINARY) as place:
        if chosen.only != "accuracy":
            met &= compare(place, chosen.probe, here, chosen.rounds, chosen.seconds)
        if chosen.only != "speed":
            met &= accuracy(place, chosen.probe, chosen.floors, chosen.seconds, chosen.rounds)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
