"""How long a question to 1,000,000 trials takes, as a person waits for it: `nearmetal query` in a new process.

A hundred runs of 10,000 trials each. Prints what reading their journals takes the first time, and then seconds of wall
clock of three questions (median of the rounds); the goal is 1 s.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests import plausible_run

RUNS = 100
BLOCKS = 1667
"""Of 3 treatments x 2 workloads: 10,002 trials."""

QUESTIONS = {
    "count by status": "SELECT status, count(*) FROM trials GROUP BY ALL",
    "median of a response by environment": (
        "SELECT environment, median(value) FROM responses"
        " WHERE response = 'throughput' AND status = 'ok' GROUP BY ALL ORDER BY ALL"
    ),
    "trials that were warned, by run": (
        "SELECT name, count(*) FROM trials JOIN runs USING (run)"
        " WHERE len(warnings) > 0 GROUP BY ALL ORDER BY ALL LIMIT 5"
    ),
}


def asked(sql: str, folder: Path, home: Path) -> float:
    """Seconds of wall clock."""
    command = [sys.executable, "-m", "nearmetal", "query", sql, "--run", str(folder)]
    start = time.monotonic()
    subprocess.run(
        command,
        check=True,
        env={**os.environ, "NEARMETAL_HOME": str(home)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return time.monotonic() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=RUNS)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="nearmetal-bench-") as place:
        runs, home = Path(place) / "runs", Path(place) / "home"
        first = plausible_run.make(runs / "run-0", BLOCKS, "", faults=False)
        for number in range(1, arguments.runs):
            another = runs / f"run-{number}"
            another.mkdir()
            for file in ("manifest.json", "journal.jsonl"):
                os.link(first.path / file, another / file)
        reading = asked("SELECT count(*) FROM trials", runs, home)
        kept = sum(file.stat().st_size for file in (home / "cache" / "query").rglob("*.parquet"))
        said = first.journal.stat().st_size * arguments.runs
        print(
            f"{arguments.runs} runs of 10,002 trials: read in {reading:.1f} s; "
            f"{said / 1e6:.0f} MB of journals are kept in {kept / 1e6:.0f} MB"
        )
        rounds = [{name: asked(sql, runs, home) for name, sql in QUESTIONS.items()} for _ in range(arguments.rounds)]
        for name in QUESTIONS:
            print(f"{name:<40}{statistics.median(one[name] for one in rounds):.2f} s")


if __name__ == "__main__":
    main()
