"""What a fleet costs: blocks an hour on 1 to 8 sites against linear, and the controller's CPU for each trial.

A block has ten trials, pretended ones that sleep, so that this says nothing of real machines: it says what is lost to
the fleet itself. All sites are on this host. python bench/fleet.py [--sites 1 2 4 8] [--blocks 3] [--seconds 1]
"""

import argparse
import asyncio
import json
import os
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from nearmetal.fleet.engine import OnAFleet
from nearmetal.run import session
from nearmetal.run.events import BlockDispatched, Event, RunEnded
from nearmetal.say import ignore_text
from nearmetal.study.study_file import read

_STUDY = """
name = "fleet"
reference = {{ environment = "base" }}
[environments.base]
kind = "mock"
[environments.slow]
kind = "mock"
[factors]
environment = ["base", "slow"]
[clients]
environment = "mock"
[[workloads]]
name = "web"
kind = "http"
server = "api"
duration = "1s"
[services.api]
start = ["lighttpd"]
port = 8080
ready = ["sleep", "{seconds}"]
[design]
seed = 1
blocks = {blocks}
repeats = 5
"""


async def measure(sites: int, blocks_each: int, seconds: float) -> dict[str, float]:
    """From the first dispatch to the end of the run, so that the start of workers does not count."""
    text = _STUDY.format(seconds=seconds, blocks=sites * blocks_each)
    began = cpu = 0.0
    ended = ended_cpu = 0.0

    def see(event: Event) -> None:
        nonlocal began, cpu, ended, ended_cpu
        if isinstance(event, BlockDispatched) and not began:
            began, cpu = time.monotonic(), time.process_time()
        if isinstance(event, RunEnded):
            ended, ended_cpu = time.monotonic(), time.process_time()

    with TemporaryDirectory() as place:
        os.environ["NEARMETAL_HOME"] = place
        request = session.Request(read(text, "fleet.toml"), text, (), False, Path(place) / "run", available=False)
        progress = await session.start(request, ignore_text, (see,), OnAFleet(f"local:{sites}"))
    trials = sum(progress.counts.values())
    return {
        "sites": sites,
        "blocks": sites * blocks_each,
        "seconds": round(ended - began, 2),
        "blocks an hour": round(3600 * sites * blocks_each / (ended - began)),
        "controller's CPU ms a trial": round(1000 * (ended_cpu - cpu) / trials, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sites", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--blocks", type=int, default=3, help="for each site")
    parser.add_argument("--seconds", type=float, default=1.0, help="that a trial sleeps")
    given = parser.parse_args()
    one = 0.0
    for sites in given.sites:
        found = asyncio.run(measure(sites, given.blocks, given.seconds))
        one = one or found["blocks an hour"] / found["sites"]
        print(json.dumps({**found, "of linear": round(found["blocks an hour"] / sites / one, 2)}), flush=True)


if __name__ == "__main__":
    main()
