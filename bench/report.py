"""How long a report of 10,000 trials takes, as a person waits for it: `nearmetal report RUN`'s work in a new process.

And how long the table of its trials takes: `nearmetal.open_run(RUN).trials("rows")`.

Two shapes of the same size: few treatments in many blocks, and many treatments in few. Prints seconds of wall clock
and of CPU (median of the rounds), and the CPU as a ratio to two peers, which take as much of it on a slower day too:
reading the journal's lines as JSON and nothing else, and a process that imports Altair and draws one chart.
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


_TABULATE = 'import sys, nearmetal; nearmetal.open_run(sys.argv[1]).trials("rows")'

_DRAW_ONE = """
import altair, vl_convert
chart = altair.Chart(altair.Data(values=[{"x": 1, "y": 2}])).mark_point().encode(x="x:Q", y="y:Q")
vl_convert.vegalite_to_svg(chart.to_dict())
"""


def time_program(program: str, folder: RunFolder) -> tuple[float, float]:
    """Seconds of wall clock and of CPU, children included, in a new process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    # An installed package is compiled.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run([sys.executable, "-c", program, str(folder.path)], check=True, env=environment)
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
            programs = {"report": _WRITE, "rows of trials": _TABULATE, "Altair and one chart": _DRAW_ONE}
            for program in programs.values():
                time_program(program, folder)  # compiles what is not compiled yet
            floors, times = [], []
            for _ in range(rounds):
                floors.append(floor(folder))
                times.append([time_program(program, folder) for program in programs.values()])
            lowest = statistics.median(floors)
            median = {
                name: [statistics.median(seconds) for seconds in zip(*found, strict=True)]
                for name, found in zip(programs, zip(*times, strict=True), strict=True)
            }
            print(shape)
            for name, (wall, cpu) in median.items():
                peers = (
                    f"{cpu / lowest:.1f} x reading its lines, {cpu / median['Altair and one chart'][1]:.1f} x Altair"
                )
                print(f"  {name:22}{wall:5.2f} s, {cpu:5.2f} s of CPU: {peers}", flush=True)


if __name__ == "__main__":
    main()
