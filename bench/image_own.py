"""How long `nearmetal image build --from` takes for an archive of 100 MB.

    python bench/image_own.py [--megabytes 100] [--rounds 3]

The archive is as of `docker save`: busybox, and a layer of files that no compressor makes smaller, 1 MB each. Printed
are the seconds of each round, and the median. Needs root, and the lab image, which is built before if it is missing.
"""

import argparse
import asyncio
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.own_image import busybox, docker_archive, layer

from nearmetal.config import Paths
from nearmetal.lab.image import ImageSource, Recipe, build, build_own

GOAL = 20.0
"""Seconds, for 100 MB."""


async def main(megabytes: int, rounds: int) -> None:
    lab = await build(Recipe(), Paths.default().cache, print)
    noise = random.Random(1)
    files = [(f"srv/data/{number}", noise.randbytes(1_000_000), 0o644) for number in range(megabytes)]
    with tempfile.TemporaryDirectory(dir=Paths.default().cache) as scratch:
        archive = docker_archive(Path(scratch, "image.tar"), [layer(busybox()), layer(files)])
        print(f"archive: {archive.stat().st_size / 1e6:.0f} MB, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}")
        taken = []
        for _ in range(rounds):
            began = time.monotonic()
            await build_own(ImageSource("bench", archive, lab), Path(scratch, "cache"), lambda text: None)
            taken.append(time.monotonic() - began)
            shutil.rmtree(Path(scratch, "cache"))
            print(f"  {taken[-1]:.1f} s")
    print(f"median {statistics.median(taken):.1f} s; goal for 100 MB: {GOAL:g} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    asyncio.run(main(arguments.megabytes, arguments.rounds))
