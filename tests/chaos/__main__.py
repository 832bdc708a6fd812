"""`python -m tests.chaos --kills 200 --seed 7`: kill runs in every environment that is here; each kill is a line."""

import argparse
import contextlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nearmetal.lab import machine
from tests.conftest import SHARED_CACHE
from tests.live.far_host import user
from tests.live.two_hosts import joined
from tests.podman_service import podman_service

from .campaign import Campaign, Failed, Surroundings, surroundings
from .engine import KilledEngine
from .places import PLACES


@contextlib.contextmanager
def everything(places: list[str]) -> Iterator[Surroundings]:
    """What the environments need, of the campaign's own; its home is that of this process meanwhile."""
    base = Path(tempfile.mkdtemp(prefix="chaos-"))
    with contextlib.ExitStack() as made, pytest.MonkeyPatch.context() as patched:
        made.callback(shutil.rmtree, base, ignore_errors=True)
        around = made.enter_context(surroundings(base / "work", SHARED_CACHE))
        if "docker" in places:
            engine = made.enter_context(KilledEngine(SHARED_CACHE / "engine-of-chaos"))
            around.engine, around.engine_folder, around.restart_engine = engine.url, engine.folder, engine.restart
        if "podman" in places:
            around.podman = made.enter_context(podman_service(SHARED_CACHE / "podman-of-chaos"))
        if "ssh" in places:
            patched.setenv("HOME", str(base / "user"))
            patched.delenv("SSH_AUTH_SOCK", raising=False)
            around.pair = made.enter_context(joined(machine.image("lab"), base / "far", user(base / "user")))
        # What runs beside them has another home, and is not killed.
        patched.setenv("NEARMETAL_HOME", str(around.folder / "home"))
        patched.setenv("NEARMETAL_LOCKS", str(base))
        yield around


def main() -> int:
    told = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    told.add_argument("--kills", type=int, default=200)
    told.add_argument("--seed", type=int, default=int(time.time()))
    told.add_argument("--places", default=",".join(PLACES), help="of " + ", ".join(PLACES))
    told.add_argument("--minutes", type=float, help="kill nothing after so long")
    given = told.parse_args()
    places = [name for name in given.places.split(",") if name != "podman" or shutil.which("podman")]
    print(f"seed {given.seed}, {given.kills} kills in {', '.join(places)}", flush=True)
    with everything(places) as around:
        campaign = Campaign(around, given.seed, lambda line: print(line, flush=True))
        try:
            campaign.go_on(given.kills, places, given.minutes * 60 if given.minutes else None)
        except Failed as failed:
            print(f"FAILED after {campaign.kills} kills in run {campaign.runs}: {failed}", flush=True)
            kept = Path(os.environ.get("TMPDIR", "/tmp")) / f"chaos-failed-{given.seed}"
            shutil.copytree(around.folder, kept, dirs_exist_ok=True, symlinks=True, ignore_dangling_symlinks=True)
            print(f"kept: {kept}", flush=True)
            return 1
        print(
            f"{campaign.kills} kills in {campaign.runs} runs with {campaign.finished} trials: "
            "0 lost, 0 run twice, 0 left behind",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
