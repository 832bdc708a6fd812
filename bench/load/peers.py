"""Install the generators that the comparison is with: `python bench/load/peers.py`, as root.

Debian's packages where there are any; the others are built, at the versions named here, into `build/peers`. Each that
cannot be had is named with the reason, and the exit code is then 1.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "build" / "peers"

PACKAGES = {"httperf": "httperf", "wrk": "wrk", "ab": "apache2-utils", "h2load": "nghttp2-client"}
FORTIO = "fortio.org/fortio@v1.60.3"
OHA = "1.4.6"
"""Among the versions that build with Rust 1.77 and later."""


def found(name: str) -> str | None:
    """Where a generator lies: what was built here before what is on the PATH."""
    return shutil.which(name, path=f"{FOLDER / 'bin'}:{os.environ.get('PATH', os.defpath)}")


def install(name: str) -> str | None:
    """Install one of them; the reason why it cannot be had, or None."""
    if name in PACKAGES:
        return ran(["apt-get", "install", "-y", "-q", "--no-install-recommends", PACKAGES[name]])
    if name == "fortio":
        # Where the checksum database cannot be reached: GOSUMDB=off.
        return ran(["go", "install", FORTIO], GOBIN=str(FOLDER / "bin"), CGO_ENABLED="0")
    target = str(FOLDER / "target")
    return ran(["cargo", "install", "oha", "--version", OHA, "--locked", "--root", str(FOLDER), "--target-dir", target])


def ran(argv: list[str], **environment: str) -> str | None:
    """Run a command that says what it does; its last words when it fails, or None."""
    print("==", *argv, flush=True)
    if shutil.which(argv[0]) is None:
        return f"{argv[0]} is not installed"
    ended = subprocess.run(argv, env={**os.environ, **environment}, stderr=subprocess.PIPE, text=True)
    if ended.returncode == 0:
        return None
    return (ended.stderr.strip().splitlines() or [f"{argv[0]} ended with {ended.returncode}"])[-1]


def main() -> int:
    missing = 0
    for name in (*PACKAGES, "fortio", "oha"):
        reason = None if found(name) else install(name)
        if reason is not None:
            missing += 1
            print(f"{name} cannot be had: {reason}", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
