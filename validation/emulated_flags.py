"""Does a later kernel survive emulation: boots of Linux 6.12 by TCG, in turns with CMPXCHG16B used and not.

Each guest has a first process that starts busybox a hundred times. `survived`: it got to the end; else what it panicked
of. `python -m validation.emulated_flags --rounds 4`.
"""

import argparse
import asyncio
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.live import later_kernel

from nearmetal.config import Paths
from nearmetal.lab.qemu.arguments import EMULATED

_INIT = """#!/bin/busybox sh
i=0
while [ $i -lt 100 ]; do /bin/busybox true; i=$((i+1)); done
/bin/busybox echo survived
/bin/busybox poweroff -f
"""
_LONGEST = 180.0
"""Seconds of one boot."""


def make_initrd(folder: Path) -> Path:
    root = folder / "root"
    for name in ("bin", "proc", "dev"):
        (root / name).mkdir(parents=True)
    shutil.copy("/bin/busybox", root / "bin")
    (root / "init").write_text(_INIT)
    (root / "init").chmod(0o755)
    names = "\n".join(str(path.relative_to(root)) for path in root.rglob("*")).encode()
    packed = subprocess.run(
        ["busybox", "cpio", "-o", "-H", "newc"], cwd=root, input=names, capture_output=True, check=True
    )
    (folder / "initrd").write_bytes(packed.stdout)
    return folder / "initrd"


def boot(kernel: Path, initrd: Path, words: str) -> str:
    argv = ["qemu-system-x86_64", "-machine", "q35", "-accel", "tcg", "-cpu", "max", "-m", "256", "-nographic"]
    argv += ["-no-reboot", "-kernel", str(kernel), "-initrd", str(initrd)]
    argv += ["-append", f"console=ttyS0 panic=-1 quiet {words}"]
    try:
        ended = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=_LONGEST)
    except subprocess.TimeoutExpired:
        return "neither within the time"
    said = ended.stdout.decode("utf-8", "replace").splitlines()
    told = [line[line.index(word) :] for line in said for word in ("Kernel panic", "survived") if word in line]
    return told[0] if told else "ended without a word"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=4)
    rounds = parser.parse_args().rounds
    kernel = asyncio.run(later_kernel.fetch(Paths.default().cache))
    version = subprocess.run(["qemu-system-x86_64", "--version"], capture_output=True, text=True, check=True)
    print(f"{kernel.name}, {version.stdout.splitlines()[0]}")
    without = next(word for word in EMULATED if word.startswith("clearcpuid="))
    with tempfile.TemporaryDirectory() as folder:
        initrd = make_initrd(Path(folder))
        for _ in range(rounds):
            for words in ("", without):
                print(f"{words or 'as it is':16s} {boot(kernel, initrd, words)}", flush=True)


if __name__ == "__main__":
    main()
