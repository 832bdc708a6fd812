"""`python -m tests.chaos --kills 200 --seed 7`: kill runs in every environment that is here; each kill is a line.

It works in namespaces of its own, where it sees no other program's files, links and processes.
"""

import argparse
import contextlib
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nearmetal.lab import machine_image
from tests import libvirt_service
from tests.conftest import SHARED_CACHE
from tests.live.far_host import user
from tests.live.two_hosts import joined
from tests.podman_service import podman_service

from . import machines, namespaces
from .campaign import Campaign, surroundings
from .killed import Failed, Service, Surroundings
from .places import PLACES
from .services import KilledEngine, KilledService

_VICTIMS = {"docker": ("dockerd", "containerd"), "podman": ("podman",), "libvirt": ("libvirtd",)}
"""Of services, who ends them."""
_FOUND_BY = {"docker": "DOCKER_HOST", "podman": "CONTAINER_HOST", "libvirt": "LIBVIRT_DEFAULT_URI"}


@contextlib.contextmanager
def everything(places: list[str]) -> Iterator[Surroundings]:
    """What the environments need, of the campaign's own; its home is that of this process meanwhile."""
    base = Path(tempfile.mkdtemp(prefix="chaos-"))
    with contextlib.ExitStack() as made, pytest.MonkeyPatch.context() as patched:
        made.callback(shutil.rmtree, base, ignore_errors=True)
        around = made.enter_context(surroundings(base / "work", SHARED_CACHE))
        for name in sorted({name for place in places for name in PLACES[place].services}):
            if name == "vagrant":
                machines.serve_vagrant(around, base / name, made)
            else:
                service = made.enter_context(_serve(name, base, made))
                around.environment[_FOUND_BY[name]] = service.url
                around.services[name] = Service((str(service.folder),), service.restart, _VICTIMS[name])
        if hosts := max(PLACES[place].hosts for place in places):
            patched.setenv("HOME", str(base / "user"))
            patched.delenv("SSH_AUTH_SOCK", raising=False)
            image, login = machine_image.find_image("lab"), user(base / "user")
            pair = made.enter_context(joined(image, base / "far", login, number=hosts))
            around.pair, around.options["far"] = pair, pair.far.ssh
            around.looks["there"] = lambda: machines.look_inside(pair.far.run)
            if "vmware" in places:
                machines.serve_vcenter(around, pair, base, made)
        # What runs beside them has another home, and is not killed.
        patched.setenv("NEARMETAL_HOME", str(around.folder / "home"))
        patched.setenv("NEARMETAL_LOCKS", str(base))
        yield around


def _serve(name: str, base: Path, made: contextlib.ExitStack) -> KilledService:
    if name == "docker":
        return KilledEngine(SHARED_CACHE / "engine-of-chaos")
    if name == "podman":
        return KilledService(SHARED_CACHE / "podman-of-chaos", podman_service)
    made.enter_context(libvirt_service.prepared(base / "libvirt"))
    return KilledService(base / "libvirt", libvirt_service.serving)


def _lacks(place: str) -> str:
    """Why a place cannot be had on this host; "" if it can."""
    if place == "vmware":
        return machines.lacking_vcenter()
    looks = {"libvirt": libvirt_service.lacking, "vagrant": machines.lacking_vagrant}
    needed = {"docker": "dockerd", "podman": "podman", "up": "dockerd"}.get(place, "true")
    lacking = looks[place]() if place in looks else needed if shutil.which(needed) is None else ""
    return f"{lacking} is not installed" if lacking else ""


def main() -> int:
    told = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    told.add_argument("--kills", type=int, default=200)
    told.add_argument("--seed", type=int, default=int(time.time()) % 100000)
    told.add_argument("--places", default=",".join(PLACES), help="of " + ", ".join(PLACES))
    told.add_argument("--minutes", type=float, help="kill nothing after so long")
    given = told.parse_args()
    # The simulated vCenter is built here: no network leads out of the namespaces.
    lacking = {name: _lacks(name) for name in given.places.split(",")}
    namespaces.enter("tests.chaos")
    for name, lacks in lacking.items():
        if lacks:
            print(f"not in {name}: {lacks}", flush=True)
    places = [name for name, lacks in lacking.items() if not lacks]
    print(f"seed {given.seed}, {given.kills} kills in {', '.join(places)}", flush=True)
    with everything(places) as around:
        campaign = Campaign(around, given.seed, lambda line: print(line, flush=True))
        try:
            campaign.go_on(given.kills, places, given.minutes * 60 if given.minutes else None)
        except Failed as failed:
            print(f"FAILED after {campaign.kills} kills in run {campaign.runs}: {failed}", flush=True)
            kept = Path(f"build/chaos-failed-{given.seed}").resolve()
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
