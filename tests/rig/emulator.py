"""The QEMU that emulates the machine: this host's, or a newer one of Debian's backports that is not installed."""

import asyncio
import re
import shutil
import subprocess
from pathlib import Path

from nearmetal.lab.architecture import Architecture
from tests.live import debian

_FIRST = (8, 1)
"""Earlier, one virtual CPU could go on with code that another had changed while it was translated. As Linux changes its
own code, at each first and last KVM guest too, the machine then hung in an endless trap."""
_SOURCE = "bookworm-backports main"
_FIRMWARE = ("/usr/share/seabios", "/usr/lib/ipxe/qemu", "/usr/share/qemu")
"""Of this host: it is the same for both."""


def find_emulator(folder: Path, processor: Architecture) -> list[str]:
    """The words that start it. It is fetched to `folder`, once, if this host's is too old, or there is none."""
    name, packages = processor.qemu, (processor.qemu_package, "qemu-system-data")
    if shutil.which(name):
        told = subprocess.run([name, "--version"], check=True, capture_output=True, text=True).stdout
        if parse_version(told) >= _FIRST:
            return [name]
    for package in packages:
        work = folder / package
        if not (work / "unpacked").exists():
            work.mkdir(parents=True)
            asyncio.run(debian.unpack(package, _SOURCE, work))
    program, data = (folder / package / "unpacked/usr" for package in packages)
    searched = (str(data / "share/qemu"), *_FIRMWARE)
    own = ("env", f"QEMU_MODULE_DIR={program}")  # those of this host are of another build
    return [*own, str(program / "bin" / name), *(word for place in searched for word in ("-L", place))]


def parse_version(told: str) -> tuple[int, int]:
    """ValueError if it is no QEMU that answered."""
    found = re.search(r"version (\d+)\.(\d+)", told)
    if found is None:
        raise ValueError(f"this tells no version: {told!r}")
    return int(found[1]), int(found[2])
