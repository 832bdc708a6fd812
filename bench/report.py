"""How long a report of 10,000 trials takes, as a person waits for it: `nearmetal report RUN`'s work in a new process.

    python bench/report.py                       two shapes, beside two peers
    python bench/report.py --against CHECKOUT    beside another checkout's report, too

And how long the table of its trials takes: `nearmetal.open_run(RUN).trials("rows")`.

Two shapes of the same size: few treatments in many blocks, and many treatments in few. Prints seconds of wall clock
and of CPU (median of the rounds), and the CPU as a ratio to two peers, which take as much of it on a slower day too:
reading the journal's lines as JSON and nothing else, and a process that imports Altair and draws one chart. Another
checkout reports on a run of its own, in turn with this one, and the ratios of both are medians over the rounds.
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

_HERE = Path(__file__).resolve().parents[1]

_LEVELS = [1, 2, 3, 4, 5, 6, 8, 12, 14, 16, 18, 20, 24, 28, 30, 32, 40]

_SHAPES = {
    "3 treatments x 2 workloads x 1,667 blocks": (1667, ""),
    "51 treatments x 2 workloads x 98 blocks": (98, f"vcpus = {_LEVELS}"),
}

_MAKE = "import sys; from pathlib import Path; from tests import plausible_run; "
_MAKE += "plausible_run.make(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], faults=False)"

_WRITE = "import sys; from pathlib import Path; from nearmetal.store.run_folder import RunFolder; "
_WRITE += "from nearmetal.report.write import write; write(RunFolder.open(Path(sys.argv[1])))"

_TABULATE = 'import sys, nearmetal; nearmetal.open_run(sys.argv[1]).trials("rows")'

_DRAW_ONE = """
import altair, vl_convert
chart = altair.Chart(altair.Data(values=[{"x": 1, "y": 2}])).mark_point().encode(x="x:Q", y="y:Q")
vl_convert.vegalite_to_svg(chart.to_dict())
"""


def run_program(program: str, checkout: Path, *arguments: str) -> None:
    """In a new process, with what that checkout has."""
    # An installed package is compiled.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPATH"] = str(checkout / "src")
    subprocess.run([sys.executable, "-c", program, *arguments], check=True, env=environment, cwd=checkout)


def time_program(program: str, checkout: Path, run: Path) -> tuple[float, float]:
    """Seconds of wall clock and of CPU, children included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    run_program(program, checkout, str(run))
    wall = time.monotonic() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def floor(run: Path) -> float:
    """Seconds of CPU for reading the journal as JSON and nothing else."""
    start = time.process_time()
    with (run / "journal.jsonl").open("rb") as journal:
        for line in journal:
            json.loads(line)
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--against", type=Path, metavar="CHECKOUT")
    given = parser.parse_args()
    programs = {"report": (_WRITE, _HERE)}
    if given.against:
        commit = subprocess.check_output(["git", "-C", given.against, "rev-parse", "--short=8", "HEAD"], text=True)
        there = f"report of {commit.strip()}"
        programs[there] = (_WRITE, given.against.resolve())
    programs |= {"rows of trials": (_TABULATE, _HERE), "Altair and one chart": (_DRAW_ONE, _HERE)}
    with tempfile.TemporaryDirectory(prefix="nearmetal-bench-") as place:
        for number, (shape, (blocks, factors)) in enumerate(_SHAPES.items()):
            checkouts = dict.fromkeys(checkout for _, checkout in programs.values())
            runs = {checkout: Path(place) / f"{number}-{which}" for which, checkout in enumerate(checkouts)}
            for checkout, run in runs.items():
                run_program(_MAKE, checkout, str(run), str(blocks), factors)
            for program, checkout in programs.values():
                time_program(program, checkout, runs[checkout])  # compiles what is not compiled yet
            floors, times = [], []
            for _ in range(given.rounds):
                floors.append(floor(runs[_HERE]))
                times.append({name: time_program(*of, runs[of[1]]) for name, of in programs.items()})
            lowest = statistics.median(floors)
            median = {name: [statistics.median(one[name][of] for one in times) for of in (0, 1)] for name in programs}
            print(shape)
            for name, (wall, cpu) in median.items():
                peers = (
                    f"{cpu / lowest:.1f} x reading its lines, {cpu / median['Altair and one chart'][1]:.1f} x Altair"
                )
                print(f"  {name:22}{wall:5.2f} s, {cpu:5.2f} s of CPU: {peers}", flush=True)
            if given.against:
                ratios = [statistics.median(one["report"][of] / one[there][of] for one in times) for of in (0, 1)]
                print(f"  {ratios[0]:.2f} of the wall clock of the {there}, {ratios[1]:.2f} of its CPU", flush=True)


if __name__ == "__main__":
    main()
