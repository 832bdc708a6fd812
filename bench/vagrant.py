"""How much sooner `qemu` has a guest of the image than `vagrant up` has one of the same image as a box.

    .venv/bin/python bench/vagrant.py [--rounds 5]

Rounds alternate. `qemu` is from nothing to the first HTTP 200 by the probe in the guest; `vagrant up` returns when SSH
answers. Vagrant has the box, and libvirt its disk, before the first round. libvirtd is one of this script's own, in a
network namespace. Takes root, vagrant, vagrant-libvirt and what `make test` installs; under TCG, on an otherwise idle
host. Seconds; they are printed, never judged.
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from environments import Contender, measure
from tests.libvirt_network import libvirt_network
from tests.vagrant_place import Vagrant, lacking, vagrant_place

from nearmetal.config import Paths
from nearmetal.errors import NearmetalError
from nearmetal.lab import machine_image
from nearmetal.lab.changes import ledger
from nearmetal.lab.local_site import LocalSite
from nearmetal.model import EnvironmentSpec, MachineSpec

SPEC = MachineSpec(memory=768 * 2**20, accel="tcg")


async def by_qemu(number: int) -> float:
    name = f"nm-bench-{os.getpid()}-{number}"
    with ledger.held(Paths.default().state / "ledgers" / f"{name}.jsonl") as lab:
        return (await measure(Contender("qemu", "boot"), SPEC, "probe", name, lab)).http


def by_vagrant(place: Vagrant, project: Path) -> float:
    begin = time.monotonic()
    place.run(project, "up")
    took = time.monotonic() - begin
    place.run(project, "destroy", "--force")
    return took


def rounds(place: Vagrant, count: int) -> tuple[list[float], list[float]]:
    qemu = Contender("qemu", "boot").environment
    asyncio.run(qemu.prepare(EnvironmentSpec(kind="qemu"), SPEC, LocalSite()))
    project = place.project("bench", memory=SPEC.memory // 2**20)
    by_vagrant(place, project)
    ours, theirs = [], []
    for number in range(count):
        ours.append(asyncio.run(by_qemu(number)))
        theirs.append(by_vagrant(place, project))
        print(f"qemu {ours[-1]:.2f}   vagrant up {theirs[-1]:.2f}", flush=True)
    return ours, theirs


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    if missing := lacking():
        print(f"this takes {missing}: apt-get install vagrant vagrant-libvirt", file=sys.stderr)
        return 3
    print(f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.2f} before")
    try:
        with (
            tempfile.TemporaryDirectory(prefix="nearmetal-bench-") as folder,
            libvirt_network(Path(folder)) as network,
            vagrant_place(network, machine_image.find_image("lab")) as place,
        ):
            ours, theirs = rounds(place, arguments.rounds)
    except NearmetalError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    ratios = [there / here for here, there in zip(ours, theirs, strict=True)]
    print(f"medians: qemu {statistics.median(ours):.2f}, vagrant up {statistics.median(theirs):.2f}")
    print(f"qemu is {statistics.median(ratios):.1f} times as fast ({min(ratios):.1f} to {max(ratios):.1f})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
