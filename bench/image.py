"""How long a guest of the lab image takes from nothing to its first HTTP 200, by NIC model.

    python bench/image.py [--rounds 5] [virtio-net-pci vmxnet3 rtl8139 e1000 e1000e]

Rounds alternate between the models, so that whatever else the machine does meets all of them. Printed are the smallest
and the median of wall time, of QEMU's own CPU time, and of the guest's uptime when its process 1 was ready; and each
median as a ratio to the first model's. Needs root, for the image.
"""

import argparse
import asyncio
import os
import socket
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from nearmetal.config import Paths
from nearmetal.lab.image import Image, Recipe, build
from nearmetal.lab.image.initrd import seed_archive

MODELS = ("virtio-net-pci", "vmxnet3", "rtl8139", "e1000", "e1000e")
LIMIT = 120.0
MAC = "52:54:00:00:00:01"
WORDS = (
    "console=ttyS0 quiet panic=-1 net.ifnames=0 random.trust_cpu=on tsc=reliable no_timer_check "
    f"cryptomgr.notests audit=0 nowatchdog nearmetal.control={MAC}"
)
START = b"#!/bin/sh\nexec lighttpd -D -f /etc/nearmetal/lighttpd.conf\n"


class Boot(NamedTuple):
    """Seconds."""

    wall: float
    cpu: float
    uptime: float


def boot(image: Image, initrd: Path, model: str, folder: Path) -> Boot:
    disk, console = folder / "disk.qcow2", folder / "console"
    disk.unlink(missing_ok=True)
    subprocess.run(
        ["qemu-img", "create", "-q", "-f", "qcow2", "-b", str(image.disk), "-F", "qcow2", str(disk)], check=True
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    said = (folder / "qemu").open("wb")  # one line for each connection that came before the guest's network was up
    begun = time.monotonic()
    qemu = subprocess.Popen(
        ["qemu-system-x86_64", "-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2",
         "-m", "512", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
         "-kernel", str(image.kernel), "-initrd", str(initrd), "-append", WORDS, "-serial", f"file:{console}",
         "-drive", f"file={disk},if=none,id=root,cache=writeback", "-device", "virtio-blk-pci,drive=root",
         "-netdev", f"user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{port}-:80",
         "-device", f"{model},netdev=net,mac={MAC},romfile="],
        stderr=said,
    )  # fmt: skip
    try:
        while not answers(port):
            if qemu.poll() is not None or time.monotonic() - begun > LIMIT:
                raise SystemExit(f"the guest with {model} did not come up: {console.read_text()[-300:]}")
            time.sleep(0.02)
        wall = time.monotonic() - begun
        fields = Path(f"/proc/{qemu.pid}/stat").read_text().rsplit(")", 1)[1].split()
        cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        ready = console.read_text().partition("nearmetal: up after ")[2].split()[0]
        return Boot(wall, cpu, float(ready))
    finally:
        qemu.kill()
        qemu.wait()
        said.close()


def answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.settimeout(0.5)
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            return connection.recv(12) == b"HTTP/1.0 200"
    except OSError:
        return False


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    begun = time.monotonic()
    image = asyncio.run(build(Recipe(), Paths.default().cache, print))
    print(f"the image: {time.monotonic() - begun:.1f} s (built, or found in the cache)")
    boots: dict[str, list[Boot]] = {model: [] for model in arguments.models}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        initrd = folder / "initrd"
        initrd.write_bytes(image.initrd.read_bytes() + seed_archive({"start": (START, 0o755)}))
        for _ in range(arguments.rounds):
            for model in boots:
                boots[model].append(boot(image, initrd, model, folder))
    first = statistics.median(one.wall for one in boots[arguments.models[0]])
    print(f"{'NIC':16}{'to HTTP 200, s':>18}{'QEMU CPU, s':>18}{'init ready, s':>18}{'ratio':>8}   (smallest / median)")
    for model, ones in boots.items():
        columns = "".join(
            f"{min(column):>10.2f} /{statistics.median(column):>6.2f}" for column in zip(*ones, strict=True)
        )
        print(f"{model:16}{columns}{statistics.median(one.wall for one in ones) / first:>8.2f}")


if __name__ == "__main__":
    main()
