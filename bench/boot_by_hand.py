"""What nearmetal adds to a guest's boot: the same image booted by one QEMU command, as one would type it.

    sudo .venv/bin/python bench/boot_by_hand.py [--rounds 5] [--json]

By hand: the image's kernel and initial RAM disk, its disk as a snapshot that is thrown away, one vCPU of tcg, a
virtio card; the guest starts lighttpd itself, and nobody logs in or looks after it. By nearmetal: the environment
`qemu`, with its own control network, logged into by SSH, lighttpd started from outside. Seconds until the first HTTP
200, rounds alternating, medians, and the ratio. Only the ratio says anything on another machine than this one.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from environments import CLIENT_ADDRESS, FETCH, LIMIT, Contender, measure

from nearmetal.config import Paths
from nearmetal.errors import NearmetalError
from nearmetal.lab import ledger, network
from nearmetal.lab import machine as lab_machine
from nearmetal.lab.image.initrd import seed_initrd
from nearmetal.lab.lab import remove
from nearmetal.lab.ledger import Ledger
from nearmetal.lab.qemu import arguments
from nearmetal.lab.site import LocalSite, must
from nearmetal.model import MachineSpec, Port

START = b"#!/bin/sh\nexec lighttpd -D -f /etc/nearmetal/lighttpd.conf\n"
SPEC = MachineSpec(accel="tcg")


def command(port: Port, initrd: Path) -> list[str]:
    image = lab_machine.image(SPEC.image)
    words = (*arguments.KERNEL, *arguments.EMULATED, f"nearmetal.data={port.mac},{port.address}/{port.prefix}")
    return [
        *arguments.common("q35", SPEC.accel, SPEC.cpu_model, SPEC.vcpus, SPEC.memory),
        *("-kernel", str(image.kernel), "-initrd", str(initrd), "-append", " ".join(words)),
        *("-drive", f"if=virtio,file={image.disk},format=qcow2,snapshot=on"),
        *("-netdev", "tap,id=data,fd={tap0}", "-device", f"virtio-net-pci,netdev=data,mac={port.mac},romfile="),
        *("-device", "virtio-rng-pci", "-serial", "null"),
    ]


async def by_hand(name: str, lab: Ledger, initrd: Path) -> float:
    """Seconds."""
    site = LocalSite()
    switch = await network.create_switch(name, site, lab)
    await must(site, "ip", "-netns", name, "address", "add", CLIENT_ADDRESS, "dev", network.BRIDGE)
    port = network.port(name, 1)
    await network.plug_tap(port, site)
    begin = time.monotonic()
    qemu = await site.spawn(
        [site.probe, "launch", *site.bound, "--tap", f"{port.switch}:{port.outside}", "--", *command(port, initrd)]
    )
    try:
        # Asked often, and each attempt given up soon: an address that answers no ARP is asked again after a second.
        fetch = FETCH.replace("timeout=2", "timeout=0.1")
        argv = ["ip", "netns", "exec", name, sys.executable, "-c", fetch, port.address, str(LIMIT)]
        fetched = await (await site.spawn(argv)).wait(2 * LIMIT)
    finally:
        await qemu.stop()
        await remove(switch, site)
        lab.destroyed(switch)
    return float(fetched.text) - begin


async def run(rounds: int, folder: Path) -> dict[str, list[float]]:
    initrd = folder / "initrd"
    await seed_initrd(lab_machine.image(SPEC.image), {"start": (START, 0o755)}, initrd)
    found: dict[str, list[float]] = {"by hand": [], "nearmetal": []}
    for number in range(rounds):
        for way, seconds in found.items():
            name = f"nm-bench-{os.getpid()}-{number}{way[0]}"
            with ledger.held(Paths.default().state / "ledgers" / f"{name}.jsonl") as lab:
                if way == "by hand":
                    seconds.append(await by_hand(name, lab, initrd))
                else:
                    seconds.append((await measure(Contender("qemu", "boot"), SPEC, "lighttpd", name, lab)).http)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory() as folder:
            found = asyncio.run(run(given.rounds, Path(folder)))
    except NearmetalError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    middle = {way: statistics.median(seconds) for way, seconds in found.items()}
    ratio = middle["nearmetal"] / middle["by hand"]
    if given.json:
        print(json.dumps({"seconds": found, "ratio": ratio}, indent=1))
    else:
        print("\n".join(f"{way:12}{middle[way]:6.2f} s   of {sorted(found[way])}" for way in found))
        print(f"{'ratio':12}{ratio:6.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
