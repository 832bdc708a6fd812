"""At full rate for minutes, generator and server need no more memory than after the first tenth of the time."""

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from nearmetal.lab import probe
from tests.ports import free_port

pytestmark = [pytest.mark.live, pytest.mark.long]

SECONDS = float(os.environ.get("NEARMETAL_LONG_SECONDS", "600"))
"""How long each of the tests lasts."""
TOLERATED = 256 * 1024
"""Bytes: what a page table or an allocator's last chunk may add."""


def resident(pid: int) -> int:
    """A running process's memory, in bytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))


@pytest.mark.parametrize("options", [[], ["--new-connections"]], ids=["kept", "new"])
def test_memory_is_flat(options: list[str]) -> None:
    address = f"127.0.0.1:{free_port()}"
    serving = subprocess.Popen(
        [probe.path(), "serve", "--listen", address], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert serving.stderr and b"listening" in serving.stderr.readline()
    argv = [
        str(probe.path()),
        "load",
        f"http://{address}/",
        "--workers",
        "64",
        *options,
        "--duration",
        f"{SECONDS}s",
        "--json",
    ]
    loading = subprocess.Popen(argv, stdout=subprocess.PIPE)
    sizes: list[tuple[int, int]] = []
    try:
        end = time.monotonic() + SECONDS - 1
        while time.monotonic() < end and loading.poll() is None:
            sizes.append((resident(loading.pid), resident(serving.pid)))
            time.sleep(0.5)
        printed, _ = loading.communicate(timeout=60)
    finally:
        loading.kill()
        loading.wait()
        serving.terminate()
        serving.communicate(timeout=10)
    document = json.loads(printed)
    assert document["requests"]["completed"] > 0
    assert document["errors"]["other"] == 0
    settled = sizes[len(sizes) // 10]
    for whose, first, most in zip(("generator", "server"), settled, map(max, zip(*sizes, strict=True)), strict=True):
        assert most <= first + TOLERATED, f"the {whose} grew from {first} to {most} bytes"
