"""What the dashboard takes of the CPU beside a run that is measured, with one browser that looks at it.

Prints, of a run of a few trials and of one of 10,000: seconds from asking for its page to the whole of it; seconds of
CPU time for each trial that ends; and the share of a core while nothing ends, which is while a trial measures. The
goal for who runs trials is 0.5 % of a core then.
"""

import argparse
import os
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests import plausible_run
from tests.dashboard_server import Dashboard, dashboard

from nearmetal.dashboard.run_view import number_of
from nearmetal.store.journal_lock import hold_journal

_SHAPES = {
    "3 treatments x 2 workloads x 8 blocks": (8, ""),
    "51 treatments x 2 workloads x 98 blocks": (98, f"vcpus = {[*range(1, 18)]}"),
}
_TRIALS = 20
_BETWEEN = 1.0
"""Seconds between two trials that end."""


def cpu(process: int) -> float:
    """Seconds of CPU time that a process has had."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def watched(served: Dashboard, journal: Path, last: list[bytes], still: float) -> None:
    """A browser looks while trials end, and then while none does."""
    place = f"/runs/{number_of(journal.parent)}"
    began = time.monotonic()
    size = len(served.page(place))
    print(f"  its page, {size / 1e6:.2f} MB, is there after {time.monotonic() - began:.2f} s")
    threading.Thread(target=lambda: [None for _ in served.told(f"{place}/events")], daemon=True).start()
    time.sleep(5)
    before = cpu(served.process.pid)
    with journal.open("ab", buffering=0) as out:
        for line in last:
            out.write(line)
            time.sleep(_BETWEEN)
    time.sleep(10)  # what was put off is done
    spent = cpu(served.process.pid) - before
    print(f"  {spent / len(last) * 1e3:.0f} ms of CPU time for each of {len(last)} trials, one every {_BETWEEN:g} s")
    before = cpu(served.process.pid)
    time.sleep(still)
    print(f"  {(cpu(served.process.pid) - before) / still:.2%} of a core while none ends, over {still:g} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--still", type=float, default=60.0, help="seconds to look at a run in which nothing ends")
    arguments = parser.parse_args()
    for name, (blocks, factors) in _SHAPES.items():
        with tempfile.TemporaryDirectory(prefix="nearmetal-bench-") as place:
            os.environ["NEARMETAL_HOME"] = f"{place}/home"
            run = plausible_run.make(Path(place) / "run", blocks, factors, faults=False)
            lines = run.journal.read_bytes().splitlines(keepends=True)
            run.journal.write_bytes(b"".join(lines[:-_TRIALS]))
            print(f"{name}: {len(lines):,} trials")
            with hold_journal(run.journal), dashboard(str(run.path)) as served:
                watched(served, run.journal, lines[-_TRIALS:], arguments.still)


if __name__ == "__main__":
    main()
