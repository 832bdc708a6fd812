"""What the dashboard takes of a CPU while events come thick, and two browsers look.

    python bench/dashboard_events.py | tee validation/results/dashboard.txt

A run with pretended machines is made first, and all its events are kept. Then they are published again, ten a second,
by the runner's own stream: to the journal, which is fsynced, and to the note of the step that goes on. Two tabs of
Chromium follow the page. Prints the share of a core that the dashboard's process took. The goal is 1 %.
"""

import argparse
import asyncio
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from dashboard import cpu
from tests.browser.page import open_tab, start_browser
from tests.dashboard_server import dashboard
from tests.order import mock_run

from nearmetal.run.dashboard_link import LiveNotes
from nearmetal.run.events import EventStream, TrialEnded
from nearmetal.store.events import Event
from nearmetal.store.journal import Journal
from nearmetal.store.journal_lock import hold_journal
from nearmetal.store.run_folder import RunFolder

_STUDY = """
name = "thick"
reference = { environment = "base" }
[environments.base]
kind = "mock"
[environments.slow]
kind = "mock"
speed = 0.8
[environments.quick]
kind = "mock"
speed = 1.1
[factors]
environment = ["base", "slow", "quick"]
workers = [1, 16]
[clients]
environment = "mock"
[[workloads]]
name = "web"
kind = "http"
workers = "{workers}"
duration = "1s"
[[workloads]]
name = "primes"
kind = "sysbench"
test = "cpu"
duration = "1s"
[design]
seed = 1
blocks = 24
"""
_SETTLES = 25.0
"""Seconds after which what the first page takes, such as the engine that draws, is over."""


def publish(stream: EventStream, events: Sequence[Event], each: float) -> None:
    """One after the other, so many seconds apart, as if they happened now."""
    due = time.monotonic()
    for event in events:
        stream.emit(event.model_copy(update={"at_ns": time.time_ns()}))
        due += each
        time.sleep(max(0.0, due - time.monotonic()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="for which events are published")
    parser.add_argument("--rate", type=float, default=10.0, help="events a second")
    arguments = parser.parse_args()
    count = int(arguments.seconds * arguments.rate)
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nearmetal-bench-")))
        os.environ["NEARMETAL_HOME"] = os.environ["NEARMETAL_LOCKS"] = str(place)
        events, _ = asyncio.run(mock_run.run(place / "made", _STUDY))
        folder = RunFolder(place / "run")
        folder.path.mkdir()
        shutil.copy(place / "made" / "manifest.json", folder.path)
        settling = int(_SETTLES * arguments.rate)
        measured = len(events) * 3 // 4
        journal = Journal(folder.journal)
        stack.callback(journal.close)
        stack.enter_context(hold_journal(folder.journal))
        stream = EventStream(journal, (LiveNotes(folder),))
        publish(stream, events[: measured - settling], 0.0)
        served = stack.enter_context(dashboard(str(folder.path)))
        browser = stack.enter_context(start_browser())
        for _ in range(2):
            tab = stack.enter_context(open_tab(browser))
            tab.open(served.url)
            tab.until("document.getElementById('link').textContent.includes('Follows')")
        publish(stream, events[measured - settling : measured], 1 / arguments.rate)
        chosen = events[measured : measured + count]
        before, began = cpu(served.process.pid), time.monotonic()
        publish(stream, chosen, 1 / arguments.rate)
        took = time.monotonic() - began
        spent = cpu(served.process.pid) - before
        trials = sum(isinstance(event, TrialEnded) for event in chosen)
        treatments = len(folder.read_manifest().plan.treatments)
        print(f"{treatments} treatments x 2 workloads x 24 blocks; two browsers follow the page")
        print(f"{len(chosen)} events in {took:.1f} s, among them the ends of {trials} trials")
        print(f"the dashboard took {spent / took:.2%} of a core ({spent:.2f} s); the goal is 1 %")


if __name__ == "__main__":
    main()
