"""How long a report of 10,000 trials takes, as a person waits for it: `nearmetal report RUN`'s work in a new process.

Two shapes of the same size: few treatments in many blocks, and many treatments in few. Prints seconds of wall clock
and of CPU (median of the rounds), and as a ratio to what reading the journal's lines as JSON alone takes.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests import plausible_run

from nearmetal.store.folder import RunFolder

_LEVELS = [1, 2, 3, 4, 5, 6, 8, 12, 14, 16, 18, 20, 24, 28, 30, 32, 40]

_SHAPES = {
    "3 treatments x 2 workloads x 1,667 blocks": (1667, ""),
    "51 treatments x 2 workloads x 98 blocks": (98, f"vcpus = {_LEVELS}"),
}

_WRITE = "import sys; from pathlib import Path; from nearmetal.store.folder import RunFolder; "
_WRITE += "from nearmetal.report.write import write; write(RunFolder.open(Path(sys.argv[1])))"


def timed(folder: RunFolder) -> tuple[float, float]:
    """Seconds of wall clock and of CPU, children included, for one report in a new process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    # An installed package is compiled.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run([sys.executable, "-c", _WRITE, str(folder.path)], check=True, env=environment)
    wall = time.monotonic() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def floor(folder: RunFolder) -> float:
    """Seconds of CPU for reading the journal as JSON and nothing else."""
    start = time.process_time()
    with folder.journal.open("rb") as journal:
        for line in journal:
            json.loads(line)
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory(prefix="nearmetal-bench-") as place:
        for number, (shape, (blocks, factors)) in enumerate(_SHAPES.items()):
            folder = plausible_run.make(Path(place) / str(number), blocks, factors, faults=False)
            timed(folder)  # compiles what is not compiled yet
            floors, walls, cpus = [], [], []
            for _ in range(rounds):
                floors.append(floor(folder))
                wall, cpu = timed(folder)
                walls.append(wall)
                cpus.append(cpu)
            lowest, wall, cpu = (statistics.median(values) for values in (floors, walls, cpus))
            print(f"{shape}: {wall:.2f} s, {cpu:.2f} s of CPU, {cpu / lowest:.1f} x reading its lines")


if __name__ == "__main__":
    main()
