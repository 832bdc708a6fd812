"""What a process for each block costs: from the order to its first event, and from its last to its end.

    python bench/block_process.py        prints the median and the largest of both, over blocks of pretended machines

Beside it, what the same block takes in the controller's own process.
"""

import asyncio
import json
import os
import statistics
import tempfile
import time
from pathlib import Path

BLOCKS = 20

_STUDY = """
name = "block-process"
reference = { environment = "base" }
[environments.base]
kind = "mock"
[factors]
environment = ["base"]
[clients]
environment = "mock"
[[workloads]]
name = "web"
kind = "http"
duration = "1s"
[design]
seed = 1
blocks = 1
"""


async def measure() -> dict[str, list[float]]:
    from nearmetal.planning import plan as planning
    from nearmetal.progress_messages import ignore_text
    from nearmetal.run.block_main import run_task
    from nearmetal.run.block_processes import BlockProcesses
    from nearmetal.run.plan_execution import plan_task
    from nearmetal.store.events import BlockStarted, Event
    from nearmetal.study.study_file import read

    plan = planning.make_plan(read(_STUDY, "block-process.toml"))

    class Times:
        def __init__(self) -> None:
            self.first = self.last = 0.0

        def emit(self, event: Event) -> None:
            self.last = time.monotonic()
            if isinstance(event, BlockStarted):
                self.first = self.last

    found: dict[str, list[float]] = {"begin": [], "end": [], "own process": [], "this process": []}
    processes = BlockProcesses(ignore_text)
    with tempfile.TemporaryDirectory() as place:
        for number in range(BLOCKS + 2):
            for name, run in (("own process", processes.run), ("this process", run_task)):
                times = Times()
                began = time.monotonic()
                await run(plan_task(plan, 0, artifacts=Path(place) / str(number)), times)
                ended = time.monotonic()
                if number < 2:
                    continue  # the first has everything imported, the second what the first needed besides
                found[name].append(ended - began)
                if name == "own process":
                    found["begin"].append(times.first - began)
                    found["end"].append(ended - times.last)
    await processes.close()
    return found


def main() -> None:
    with tempfile.TemporaryDirectory() as home:
        os.environ["NEARMETAL_HOME"] = home
        found = asyncio.run(measure())
    told = {f"{name}, ms": [1e3 * statistics.median(of), 1e3 * max(of)] for name, of in found.items()}
    more = [own - this for own, this in zip(found["own process"], found["this process"], strict=True)]
    told["what the process adds, ms"] = [1e3 * statistics.median(more), 1e3 * max(more)]
    print(json.dumps({name: [round(value, 1) for value in of] for name, of in told.items()}, indent=1))


if __name__ == "__main__":
    main()
