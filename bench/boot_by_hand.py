"""What nearmetal adds to a guest's boot: the same image booted by one QEMU command, as one would type it.

    sudo .venv/bin/python bench/boot_by_hand.py [--rounds 5] [--json]

By hand: the image's kernel and initial RAM disk, its disk as a snapshot that is thrown away, one vCPU of tcg, a
virtio card; the guest starts lighttpd itself, and nobody logs in or looks after it. By nearmetal: the environment
`qemu`, with its own control network, logged into by SSH, lighttpd started from outside. Seconds until the first HTTP
200, rounds alternating, medians, and the ratio. Only the ratio says anything on another machine than this one.
"""

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from environments import CLIENT_ADDRESS, FETCH, LIMIT, Contender, measure
from in_rounds import main

from nearmetal.config import Paths
from nearmetal.lab import machine_image
from nearmetal.lab.changes import ledger
from nearmetal.lab.changes.ledger import Ledger
from nearmetal.lab.image.initrd import seed_archive
from nearmetal.lab.lab import remove
from nearmetal.lab.local_site import LocalSite, run_checked
from nearmetal.lab.networks import network
from nearmetal.lab.qemu import arguments
from nearmetal.model import MachineSpec, Port

START = b"#!/bin/sh\nexec lighttpd -D -f /etc/nearmetal/lighttpd.conf\n"
SPEC = MachineSpec(accel="tcg")
Found = dict[str, list[float]]
"""Seconds of each round, by how the guest was booted."""


def command(port: Port, initrd: Path) -> list[str]:
    image = machine_image.find_image(SPEC.image)
    words = (*arguments.KERNEL, *arguments.EMULATED, f"nearmetal.data={port.mac},{port.address}/{port.prefix}")
    return [
        *arguments.build_common(arguments.PROGRAM, "q35", SPEC.accel, SPEC.cpu_model, SPEC.vcpus, SPEC.memory),
        *("-kernel", str(image.kernel), "-initrd", str(initrd), "-append", " ".join(words)),
        *("-drive", f"if=virtio,file={image.disk},format=qcow2,snapshot=on"),
        *("-netdev", "tap,id=data,fd={tap0}", "-device", f"virtio-net-pci,netdev=data,mac={port.mac},romfile="),
        *("-device", "virtio-rng-pci", "-serial", "null"),
    ]


async def by_hand(name: str, lab: Ledger, initrd: Path) -> float:
    """Seconds."""
    site = LocalSite()
    switch = await network.create_switch(name, site, lab)
    await run_checked(site, "ip", "-netns", name, "address", "add", CLIENT_ADDRESS, "dev", network.BRIDGE)
    port = network.make_port(name, 1)
    await network.plug_tap(port, site)
    # An address that answers no ARP yet is asked again only after a second.
    neighbour = ("neighbour", "replace", port.address, "lladdr", port.mac, "dev", network.BRIDGE, "nud", "permanent")
    await run_checked(site, "ip", "-netns", name, *neighbour)
    begin = time.monotonic()
    qemu = await site.spawn(
        [site.probe, "launch", *site.bound, "--tap", f"{port.switch}:{port.outside}", "--", *command(port, initrd)]
    )
    try:
        # A lost SYN is sent again only after a second, too.
        fetch = FETCH.replace("timeout=2", "timeout=0.1")
        argv = ["ip", "netns", "exec", name, sys.executable, "-c", fetch, port.address, str(LIMIT)]
        fetched = await (await site.spawn(argv)).wait(2 * LIMIT)
    finally:
        await qemu.stop()
        await remove(switch, site)
        lab.destroyed(switch)
    return float(fetched.text) - begin


async def run(rounds: int) -> Found:
    with tempfile.TemporaryDirectory() as folder:
        initrd = Path(folder) / "initrd"
        common = machine_image.find_image(SPEC.image).initrd.read_bytes()
        initrd.write_bytes(common + seed_archive({"start": (START, 0o755)}))
        return await alternately(rounds, initrd)


async def alternately(rounds: int, initrd: Path) -> Found:
    found: Found = {"by hand": [], "nearmetal": []}
    for number in range(rounds):
        for way, seconds in found.items():
            name = f"nm-bench-{os.getpid()}-{number}{way[0]}"
            with ledger.held(Paths.default().state / "ledgers" / f"{name}.jsonl") as lab:
                if way == "by hand":
                    seconds.append(await by_hand(name, lab, initrd))
                else:
                    seconds.append((await measure(Contender("qemu", "boot"), SPEC, "lighttpd", name, lab)).http)
    return found


def printed(found: Found) -> str:
    middle = {way: statistics.median(seconds) for way, seconds in found.items()}
    lines = [f"{way:12}{middle[way]:6.2f} s   {', '.join(f'{one:.2f}' for one in sorted(found[way]))}" for way in found]
    return "\n".join([*lines, f"{'ratio':12}{middle['nearmetal'] / middle['by hand']:6.2f}"])


if __name__ == "__main__":
    sys.exit(main(__doc__, run, printed))
